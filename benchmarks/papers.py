"""Run what each page of docs/papers shows under "In a minute": python benchmarks/papers.py [PAGE...]

The commands are read from the pages, and run in an empty folder, as a reader types them. Kept of each page: seconds
by the clock and of the processor, and whether what was printed is what the page shows, its figures within what the
page says they may vary. With all pages run, docs/results/papers.json is written.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
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
    done = {}
    for name in arguments.pages or every:
        with tempfile.TemporaryDirectory() as folder:
            done[name] = measured(name, Path(folder))
        print(name, done[name], flush=True)
    if not arguments.pages:
        write(done, arguments.note)


def write(done: Mapping[str, Mapping[str, Any]], note: str) -> None:
    """Record what was measured of all pages."""
    used = [found["processor_seconds"] for found in done.values()]
    record(
        RESULT,
        title='What the pages of the papers show under "In a minute"',
        command="python benchmarks/papers.py",
        precision="as each recipe says",
        seed="each recipe's own",
        target="every page's commands end well and print what the page says, its figures within what it says they may vary, in "
        "about a minute on two quiet cores",
        figures={
            "pages whose output is what the page says": f"{sum(found['as_shown'] for found in done.values())} of {len(done)}",
            "all, minutes of processors": round(sum(used) / 60, 1),
            "the longest, s of processors": max(used),
            **{f"{name}, s of processors": found["processor_seconds"] for name, found in done.items()},
        },
        threads=1,
        note=note,
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
