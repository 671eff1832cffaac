"""What a command says: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from regard.rendering import metric_text, text_table
from regard.structure import finite

if TYPE_CHECKING:
    from regard.cli.new_file import NewFile

__all__ = ["metric_text", "on_terminal", "one_line", "print_json", "print_table", "say", "speaking"]


def speaking() -> bool:
    """Whether this process speaks to the user: of those that torchrun starts only the first does."""
    return os.environ.get("RANK", "0") == "0"


def say(sentence: str) -> None:
    """A sentence for the user, on standard error."""
    if speaking() and sys.stderr is not None:
        print(sentence, file=sys.stderr, flush=True)


def on_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; False where there is none."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def print_json(value: Any, file: NewFile | None = None) -> None:
    """One object on standard output, or in a file; numbers that JSON does not know (NaN, infinities) become null."""
    text = json.dumps(finite(value), ensure_ascii=False, indent=2)
    if file is not None:
        file.write(text + "\n")
    elif speaking():
        print(text)


def print_table(rows: Iterable[tuple[str, str]]) -> None:
    """Names and what they are, in two columns on standard output."""
    rows = list(rows)
    if speaking() and rows:
        print(text_table(rows))


def one_line(text: str) -> str:
    r"""A message on one line, with nothing in it that would act on the terminal.

    >>> one_line("a file\n  called \x1b[31mred")
    'a file called \\x1b[31mred'
    """
    joined = " ".join(line.strip() for line in text.splitlines())
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in joined)
