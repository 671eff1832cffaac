"""Which page stands where on the documentation site: read from the lists of links that readers of `index.md` see.

Under the heading `All pages` of an `index.md` each third-level heading names a section, and the first link of each row of a
table, or point of a list, below it is one of its pages. There is no second list; a test refuses a page that is not linked there.
"""

from __future__ import annotations

import re
from pathlib import Path

HEADING = "## All pages\n"
ROW = re.compile(r"^(?:\| |- )\[[^\]]+\]\((?P<page>[\w/-]+)\.md\)", re.MULTILINE)


def sections(index: str) -> dict[str, list[str]]:
    r"""By section, the pages that an index lists: paths beside it, without `.md`.

    >>> sections("## All pages\n\n### How-to\n\n| page |\n|---|\n| [data](data.md) |\n")
    {'How-to': ['data']}
    """
    listed = index.partition(HEADING)[2]
    parts = re.split(r"^### (.*)\n", listed, flags=re.MULTILINE)[1:]
    return {
        title: [found["page"] for found in ROW.finditer(part)]
        for title, part in zip(parts[::2], parts[1::2], strict=True)
    }


def pages(docs: Path, index: str = "index") -> list[str]:
    """Every page that is reached from an index, in order, as paths in `docs` without `.md`; the indexes too."""
    found = [index]
    folder = Path(index).parent
    for listed in sections((docs / f"{index}.md").read_text(encoding="utf-8")).values():
        for page in listed:
            place = (folder / page).as_posix()
            found += pages(docs, place) if Path(place).name == "index" else [place]
    return found


def with_toctrees(index: str, added: dict[str, list[str]] | None = None) -> str:
    """The text of an index with the trees that Sphinx reads, out of sight, at its end.

    Arguments:
        index: the text of an `index.md`.
        added: pages made for the site alone, by the section that they follow in.
    """
    text = index
    for title, listed in sections(index).items():
        entries = "\n".join([*(added or {}).get(title, []), *listed])
        text += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{entries}\n```\n"
    return text
