"""The course: every lesson's commands run as its page shows them, in a fresh folder, and the time of each.

python benchmarks/course.py [LESSON ...] [--figures] [--no-record]

The commands are read from the pages in docs/course, and what they print is compared with what the page says to expect
(docs/pages.py). Each lesson has a process and an empty folder of its own. LESSON is the number of one; without any, all are run,
and docs/results/course.json is written. --figures copies the figures that the commands made to docs/course/images.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from measured import record
from regard.machine import keep_freed_memory

ROOT = Path(__file__).resolve().parent.parent
COURSE = ROOT / "docs" / "course"
LESSONS = sorted(COURSE.glob("[0-9]*.md"))
FIGURE = re.compile(r"!\[[^\]]*\]\(images/([\w.-]+\.png)\)")
LONGEST = 120  # seconds of a lesson


@dataclass(frozen=True)
class Done:
    """A lesson that was run: its time, that of processors, and what was not as the page says."""

    seconds: float
    processor_seconds: float
    untrue: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lessons", nargs="*", type=int)
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--no-record", dest="record", action="store_false")
    arguments = parser.parse_args()
    chosen = [page for page in LESSONS if not arguments.lessons or number(page) in arguments.lessons]
    load = os.getloadavg()[0]
    done: dict[Path, Done] = {}
    for page in chosen:
        done[page] = run_lesson(page, COURSE / "images" if arguments.figures else None)
        print(f"{page.name}: {done[page].seconds:.0f} s, {done[page].processor_seconds:.0f} s of processors")
        print(done[page].untrue, end="\n" if done[page].untrue else "", flush=True)
    untrue = [page.name for page, each in done.items() if each.untrue]
    if arguments.record and not arguments.lessons:
        seconds = [each.seconds for each in done.values()]
        record(
            ROOT / "docs" / "results" / "course.json",
            title="The course from Bahdanau to GPT: the commands of all its lessons",
            command="python benchmarks/course.py",
            precision="float32",
            seed="those of the pages",
            target=f"every lesson in at most {LONGEST} s on two quiet cores",
            figures={
                "lessons whose output is what the page says": f"{len(done) - len(untrue)} of {len(done)}",
                "all, minutes": round(sum(seconds) / 60, 1),
                "all, minutes of processors": round(sum(each.processor_seconds for each in done.values()) / 60, 1),
                "the longest, s": round(max(seconds)),
                **{f"{title(page)}, s": round(each.seconds) for page, each in done.items()},
            },
            note="Each lesson in a process and an empty folder of its own; every command starts a Python. The machine's load was "
            f"{load:.1f} before the first lesson and {os.getloadavg()[0]:.1f} after the last, where the lessons' own is about 2.",
        )
    sys.exit(", ".join(untrue))


def number(page: Path) -> int:
    """That of a lesson, which its file's name begins with."""
    return int(page.name.partition("-")[0])


def title(page: Path) -> str:
    """The heading of a page."""
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def run_lesson(page: Path, figures: Path | None = None) -> Done:
    """Run a lesson in a process and an empty folder of its own.

    Arguments:
        figures: the folder to copy the figures of the page to, which its commands made.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone,
    ):
        done = alone.submit(run_here, page, Path(folder)).result()
        for name in FIGURE.findall(page.read_text(encoding="utf-8")):
            if not (Path(folder) / name).exists():
                return Done(done.seconds, done.processor_seconds, done.untrue or f"{page.name}: no command made {name}")
            if figures is not None:
                shutil.copy(Path(folder) / name, figures / name)
    return done


def run_here(page: Path, folder: Path) -> Done:
    """Run a lesson in this process, in a folder."""
    keep_freed_memory()
    os.chdir(folder)
    pages = part_of_the_docs("pages")
    began, untrue = time.perf_counter(), ""
    try:
        pages.run_page(page, pages.run_apart, page.name)
    except pages.Untrue as error:
        untrue = str(error)
    seconds = time.perf_counter() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return Done(seconds, sum(each.ru_utime + each.ru_stime for each in used), untrue)


def part_of_the_docs(name: str) -> ModuleType:
    """A script in docs/."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
