"""Which columns of a table are meant where nobody names them: whether the first row is a header, and what the columns are called.

Nothing is guessed where two answers are likely: such a table is refused, with what to say instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.data.malformed import MalformedRow
from regard.data.pair import short
from regard.data.tables import Row
from regard.errors import InputError

TEXT = (
    "text",
    "sentence",
    "message",
    "review",
    "comment",
    "content",
    "body",
    "document",
    "tweet",
    "sms",
    "description",
)
LABEL = ("label", "class", "category", "sentiment", "score", "rating", "stars", "target", "gold_label", "y")
PAIRS = (
    ("source", "target"),
    ("src", "tgt"),
    ("src", "trg"),
    ("input", "output"),
    ("question", "answer"),
    ("prompt", "completion"),
)
"""What columns are usually called, in lower case."""

COMMON = frozenset(
    {
        "",
        "id",
        "idx",
        "index",
        "no",
        "number",
        "key",
        "date",
        "split",
        "title",
        "name",
        "lang",
        "language",
        "label_text",
        "labels",
    }
    | {
        "sentence1",
        "sentence2",
        "premise",
        "hypothesis",
        "question1",
        "question2",
        "pair",
        "anchor",
        "positive",
        "negative",
    }
    | {"query", "passage", "context", "summary", "translation", "tag", "tags"}
    | {*TEXT, *LABEL, *(name for pair in PAIRS for name in pair)}
)
"""Names that a header often has, and a first row of data seldom: the empty one is that of an index that pandas wrote."""

SAMPLE = 100
"""Rows that tell."""

ENOUGH = 6
"""Rows below the first that say what a column holds."""

_DIGIT = re.compile(r"\d")
_NAME = re.compile(r"[^\W\d][\w .#/()-]{0,39}")


def has_header(name: str, sample: Sequence[Row], advice: str | None) -> bool:
    """Whether the first row names the columns.

    It does where at least two of its cells, or all, are usual names of columns; or where all look like names and one stands above
    numbers, or without a digit above cells that all have some, such as dates and ids. It does not where a cell of it is a number,
    or stands again below, or two are equal.

    Arguments:
        sample: the first rows.
        advice: what to say where it is doubtful; None to take doubtful ones for data.

    Raises:
        InputError: where it is doubtful: one usual name alone, or a last cell that is no class of the rows below.
    """
    rows = [row[1] for row in sample if not isinstance(row, MalformedRow)]
    if not rows or isinstance(sample[0], MalformedRow):
        return False
    first = [cell.strip().lower() for cell in rows[0]]
    rest = [[cell.strip() for cell in row] for row in rows[1:] if len(row) == len(first)]
    below = [[row[place] for row in rest if row[place]] for place in range(len(first))]
    if len(set(first)) < len(first) or "" in first[1:] or any(map(_number, first)):
        return False
    if any(cell in (other.lower() for other in column) for cell, column in zip(first, below, strict=True)):
        return False
    common = sum(cell in COMMON for cell in first)
    above_numbers = any(len(column) > 1 and all(map(_number, column)) for column in below)
    above_digits = any(
        len(column) >= ENOUGH and not _DIGIT.search(cell) and all(map(_DIGIT.search, column))
        for cell, column in zip(first, below, strict=True)
    )
    named = all(_NAME.fullmatch(cell) for cell in first if cell)
    if common >= min(2, len(first)) or ((above_numbers or above_digits) and named):
        return True
    last = below[-1]
    classes = (
        len(first) > 1 and len(last) >= ENOUGH and 2 * len(set(last)) <= len(last) and min(map(last.count, last)) > 1
    )
    if advice is not None and named and (common or classes):
        raise InputError(f"{name}: the first line, {short(rows[0])}, may name the columns or be data; {advice}")
    return False


def is_number_of_rows(sample: Sequence[Row], place: int) -> bool:
    """Whether a column without a name holds a number of its own for each row, as an id does."""
    cells = [row[1][place].strip() for row in sample if not isinstance(row, MalformedRow) and len(row[1]) > place]
    return len(cells) > 1 and all(cell.isdecimal() for cell in cells) and len(set(cells)) == len(cells)


def place_of(header: Sequence[str], names: Sequence[str]) -> int | None:
    """The only column that has one of some names; None where none has, or several have."""
    found = [place for place, cell in enumerate(header) if cell.strip().lower() in names]
    return found[0] if len(found) == 1 else None


def columns_read(sides: Sequence[tuple[str, int | None]], header: Sequence[str] | None, width: int) -> str:
    """What is read and what not, as a sentence without the file.

    >>> columns_read([("text", 1), ("label", 2)], ["id", "message", "kind"], 3)
    "the first line names the columns; text is 'message', label 'kind'; not read: 'id'"
    >>> columns_read([("source", 0), ("target", 1)], None, 2)
    'no header; source is column 0, target column 1'
    """

    def called(place: int) -> str:
        return repr(header[place].strip()) if header is not None else f"column {place}"

    used = [(side, place) for side, place in sides if place is not None]
    read = ", ".join(f"{side} {'' if number else 'is '}{called(place)}" for number, (side, place) in enumerate(used))
    places = {place for _, place in used}
    rest = ", ".join(called(place) for place in range(width) if place not in places)
    head = "the first line names the columns" if header is not None else "no header"
    return f"{head}; {read}" + (f"; not read: {rest}" if rest else "")


def _number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True
