"""The fenced blocks of a page, read and run as a reader runs them: for the tests, and for `benchmarks/course.py`.

A ```python block is executed, all of a page in one namespace and one folder, in order. A line of a ```bash block that begins
with `regard` is executed too. An ```output block is what the block before it prints, with `...` for anything, and `72 ± 10` for
a number from 62 to 82. A ```sh block is not executed; `benchmarks/papers.py` runs some, and compares what follows them.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import regard

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
VARYING = re.compile(rf"({NUMBER}) ± ([\d.]+)")

Run = Callable[[str, str], str]
"""Runs one command, which stands at a place of a page, and gives what it prints."""


class Untrue(Exception):
    """A page shows what it does not do."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its kind, its text, and the page's line on which the text begins."""

    kind: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page that name their kind, in order."""
    return blocks_in(page.read_text(encoding="utf-8"))


def blocks_in(text: str) -> list[Block]:
    """The same of a text."""
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 2) for found in BLOCK.finditer(text)]


def sections(text: str) -> dict[str, str]:
    r"""What stands under each heading `## ...` of a page, by the heading and in order; under "" what stands before the first.

    >>> list(sections("# Title\n\n## One\n\na\n\n## Two\n"))
    ['', 'One', 'Two']
    """
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def commands(text: str) -> Iterator[str]:
    """The `regard` commands of a shell block, continued lines joined."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("regard "):
            yield line.partition("  #")[0]


def run_page(page: Path, run: Run, called: str) -> None:
    """Execute a page in the current folder.

    Arguments:
        run: how a command is run.
        called: the page in messages.

    Raises:
        Untrue: where an `output` block is not what the block before it printed.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = ""
    for block in blocks(page):
        where = f"{called}, line {block.line}"
        if block.kind == "python":
            lines = "\n" * (block.line - 1) + block.text
            with contextlib.redirect_stdout(io.StringIO()) as shown:
                exec(compile(lines, str(page), "exec"), namespace)
            printed = shown.getvalue()
        elif block.kind == "bash":
            printed = "".join(run(command, where) for command in commands(block.text))
        elif block.kind == "sh":
            printed = None
        elif block.kind == "output" and printed is not None and not is_shown(block.text, printed):
            raise Untrue(f"{where}: the page shows\n{block.text}\nbut it printed\n{printed}")


def is_shown(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed, however much white space stands between.

    >>> is_shown("seconds ... right 72 ± 10 %", "seconds 3.1 right   79.5 %"), is_shown("right 72 ± 10 %", "right 90 %")
    (True, False)
    """
    varying = [tuple(Decimal(number.replace(",", "")) for number in found) for found in re.findall(VARYING, shown)]
    if not varying:
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        return doctest.OutputChecker().check_output(shown, printed, flags)
    marked = " ".join(re.sub(VARYING, "±", shown).split())
    pattern = re.escape(marked).replace("±", f"({NUMBER})").replace(re.escape("..."), ".*?")
    found = re.fullmatch(pattern, " ".join(printed.split()))
    return found is not None and all(
        abs(Decimal(number.replace(",", "")) - middle) <= either_side
        for number, (middle, either_side) in zip(found.groups(), varying, strict=True)
    )


def run_apart(command: str, where: str) -> str:
    """Run a command in a process of its own, as a reader of the page does.

    Raises:
        Untrue: where it fails.
    """
    arguments = shlex.split(command)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "regard", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=3600,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(regard.__file__).parents[1]), "PYTHONUTF8": "1", "COLUMNS": "100"},
        check=False,
    )
    if done.returncode:
        raise Untrue(f"{where}: `{command}` ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout
