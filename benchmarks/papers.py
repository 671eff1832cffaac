"""Run what each page of docs/papers shows under "In a minute": python benchmarks/papers.py [PAGE...]

The commands are read from the pages, and run in an empty folder, as a reader types them. Kept of each page: seconds by
the clock and of the processor, and whether what was printed is what the page shows, its figures within what the page
says they may vary. Pages that are named replace their own figures in the record.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from course import part_of_the_docs
from measured import record

ROOT = Path(__file__).resolve().parent.parent
PAPERS = ROOT / "docs" / "papers"
RESULT = ROOT / "docs" / "results" / "papers.json"
SHELL = f'regard() {{ "{sys.executable}" -m regard "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\nset -e\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="names of pages, such as bahdanau-2015; all where none is given")
    parser.add_argument("--note", default="", help="what a reader of the record must know of the machine")
    arguments = parser.parse_args()
    every = sorted(page.stem for page in PAPERS.glob("*.md") if page.name != "index.md")
    earlier = json.loads(RESULT.read_text(encoding="utf-8"))["figures"]["each"] if RESULT.exists() else {}
    for name in arguments.pages or every:
        with tempfile.TemporaryDirectory() as folder:
            earlier[name] = measured(name, Path(folder))
        print(name, earlier[name], flush=True)
        figures = {name: earlier[name] for name in every if name in earlier}
        record(
            RESULT,
            title='What the pages of the papers show under "In a minute"',
            command="python benchmarks/papers.py",
            precision="as each recipe says",
            seed="each recipe's own",
            target="every command ends well and reaches the figures that its page names, in about a minute",
            figures={
                "pages": len(every),
                "pages_run": len(figures),
                "pages_that_reached_their_figures": sum(found["as_shown"] for found in figures.values()),
                "each": figures,
            },
            note=arguments.note,
        )


def measured(name: str, folder: Path) -> dict[str, Any]:
    """One page's commands, run in an empty folder."""
    pages = part_of_the_docs("pages")
    text = pages.sections((PAPERS / f"{name}.md").read_text(encoding="utf-8"))["In a minute"]
    shown = pages.blocks_in(text)
    begun, used = time.perf_counter(), processor_seconds()
    printed = run(shown[0].text, folder)
    return {
        "seconds": round(time.perf_counter() - begun, 1),
        "processor_seconds": round(processor_seconds() - used, 1),
        "as_shown": pages.is_shown(shown[1].text, printed),
    }


def processor_seconds() -> float:
    """What all processes that this one has started and that have ended took of the processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(script: str, folder: Path) -> str:
    """What a block of shell commands prints, in a folder.

    Raises:
        RuntimeError: when a command fails, with what it said.
    """
    done = subprocess.run(
        ["bash", "-c", SHELL + script],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=900,
        env={**os.environ, "PYTHONUTF8": "1", "COLUMNS": "100"},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{script}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
