"""Builds the documentation site: `python docs/site/build.py site` (`make site`).

What Sphinx reads is laid out in a folder of its own: the pages of `docs/` with the trees of contents (`contents.py`), the
pages that the code writes (`reference.py`), the notebooks (`notebooks.py`) and live pages of the viewer (`viewers.py`). So the
pages in `docs/` stay as a reader of the repository sees them. Nothing is fetched.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import contents
import links
import notebooks
import reference
import viewers

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = {
    "Reference": ["reference/api/index", "reference/command-line/index", "reference/recipes"],
    "Project": ["changelog"],
}
"""What is on the site alone, by section of the index."""
ONLY_HERE = re.compile(r"^`make site` builds .*$", re.MULTILINE)
"""The index's sentence about these pages; the site has links to them in its place."""


LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<target>[^)\s]+)\)")


def main() -> None:
    """Lay out the source, run Sphinx and check what it made; a warning is an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the folder of the site")
    parser.add_argument(
        "--work", type=Path, default=ROOT / "build" / "site", help="what is laid out, kept for the next time"
    )
    given = parser.parse_args()
    source = given.work / "source"
    lay_out(source)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-E", "-q", "-d", str(given.work / "doctrees")]
    done = subprocess.run([*command, str(source), str(given.output)], check=False)
    checked = links.check(given.output)
    print(f"{given.output / 'index.html'}: {checked}")
    sys.exit(done.returncode or bool(checked.broken or checked.loaded))


def lay_out(source: Path) -> None:
    """Everything that Sphinx reads, in one folder; what is the same as before is left, so that it is not read again."""
    viewers.write(source / "_static" / "live")
    reference.write(source / "reference")
    for place in sorted(DOCS.rglob("*")):
        name = place.relative_to(DOCS)
        if place.is_dir() or name.parts[0] == "site" or "__pycache__" in name.parts:
            continue
        if place.suffix == ".md":
            put(source / name, page_text(name, place.read_text(encoding="utf-8")).encode())
        else:
            put(source / name, place.read_bytes())
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        put(source / "notebooks" / f"{notebook.stem}.md", notebooks.page(notebook).encode())
        put(source / "notebooks" / notebook.name, notebook.read_bytes())
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    put(source / "changelog.md", changes.encode())
    put(source / "_static" / "site.css", (DOCS / "site" / "site.css").read_bytes())


def page_text(name: Path, text: str) -> str:
    """A page as Sphinx reads it."""
    text = notebooks.linked(text, "../" * (len(name.parts) - 1))
    if name.name == "index.md":
        made = GENERATED if len(name.parts) == 1 else {}
        links = "\n".join(f"- [](/{page})" for listed in made.values() for page in listed)
        return contents.with_toctrees(ONLY_HERE.sub(links, text), made)
    text = LINK.sub(lambda found: found[0] if is_on_the_site(name, found["target"]) else found["text"], text)
    return viewers.embedded(text, "../" * (len(name.parts) - 1))


def is_on_the_site(name: Path, target: str) -> bool:
    """Whether a link of a page leads elsewhere or to a file of `docs/`; the site has no others, such as tests."""
    place = (DOCS / name.parent / target.partition("#")[0]).resolve()
    is_notebook = target.partition("#")[0].removeprefix("../").startswith("notebooks/")
    return "://" in target or is_notebook or (place.is_relative_to(DOCS) and place.exists())


def put(place: Path, content: bytes) -> None:
    """Write a file if it says something else."""
    if not place.exists() or place.read_bytes() != content:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


if __name__ == "__main__":
    main()
