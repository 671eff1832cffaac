"""A pair of texts, and the checks that every format shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from regard.data.lines import Line, is_utf_8
from regard.data.malformed import MalformedRow

NOT_UTF_8 = "not UTF-8"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A source text and its target, with the file and line (from 1) they were read from.

    >>> Pair(source="9 May 2017", target="2017-05-09", file="dates.tsv", line=3).target
    '2017-05-09'
    """

    source: str
    target: str
    file: str
    line: int


Found = Iterator[Pair | MalformedRow]


def pair_or_fault(name: str, line: int, source: object, target: object) -> Pair | MalformedRow:
    """The pair of two values, or the first thing that keeps one of them from being a usable text."""
    for side, text in (("source", source), ("target", target)):
        fault = text_fault(side, text)
        if fault is not None:
            return malformed_row(name, line, *fault)
    return Pair(source=str(source), target=str(target), file=name, line=line)


def text_fault(side: str, text: object) -> tuple[str, str] | None:
    """Reason and detail of what keeps a value from being a usable text, or None; `side` is what the text is called."""
    if not isinstance(text, str):
        return "not a text", f"{side} is {short(text)}"
    if not text or text.isspace():
        return f"empty {side}", ""
    if "\0" in text:
        return "NUL character", f"{side} is {short(text)}"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return NOT_UTF_8, f"{side} holds half of a surrogate pair"
    return None


def malformed_row(name: str, line: int, reason: str, detail: str = "", unit: str = "line") -> MalformedRow:
    """A `MalformedRow`, in the order its fields are read aloud."""
    return MalformedRow(file=name, line=line, reason=reason, detail=detail, unit=unit)


def short(value: object) -> str:
    """What is shown of a value in a message."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def decoded(name: str, line: Line) -> str | MalformedRow:
    """The text of a line, or what is wrong with its bytes."""
    fault = line_fault(line)
    return line.content.decode() if fault is None else malformed_row(name, line.number, *fault)


def line_fault(line: Line) -> tuple[str, str] | None:
    """Reason and detail of what keeps a line's bytes from being text, or None."""
    if line.too_long:
        return "line too long", "more than 1 MiB"
    if b"\0" in line.content:
        return "NUL character", short(line.content[:40])
    if not line.content.isascii() and not is_utf_8(line):
        return NOT_UTF_8, short(line.content[:40])
    return None
