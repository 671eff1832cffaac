"""Tables of text: reading TSV and CSV, and detecting the format, the header and the columns.

Ambiguous tables are refused with advice on what to specify; nothing is guessed between two likely answers.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.lines import Line
from regard.data.malformed import MalformedRow, decoded, line_fault, malformed_row, short
from regard.errors import InputError, nearest

Row = tuple[int, list[str]] | MalformedRow  # a line number and its cells

USUAL = 0.8
"""The share of rows that must have the same number of cells for a separator to be accepted."""
_WIDTH_SAMPLE = 100  # rows from which the number of columns is determined


def tsv_rows(name: str, lines: Iterator[Line]) -> Iterator[Row]:
    """The cells of each line, separated by tabs; quotes are ordinary characters."""
    for line in lines:
        text = decoded(name, line)
        yield text if isinstance(text, MalformedRow) else (line.number, text.split("\t"))


class _Physical:
    """Lines for the `csv` reader, which can be returned to the stream if a quote is never closed."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._lines = lines
        self._returned: deque[Line] = deque()
        self.taken: list[Line] = []

    def __iter__(self) -> _Physical:
        return self

    def __next__(self) -> str:
        line = self._returned.popleft() if self._returned else next(self._lines)
        self.taken.append(line)
        return ("" if line.too_long else line.content.decode(errors="surrogateescape")) + "\n"

    def give_back(self) -> None:
        """Return all taken lines except the first to the stream."""
        self._returned.extendleft(reversed(self.taken[1:]))


def csv_rows(name: str, lines: Iterator[Line]) -> Iterator[Row]:
    """The cells of each CSV record, with the number of its first line; the separator is a comma, or a semicolon everywhere."""
    sample = list(itertools.islice(lines, _WIDTH_SAMPLE))
    physical = _Physical(itertools.chain(sample, lines))
    reader = csv.reader(physical, strict=True, delimiter=_separator(sample))
    while True:
        physical.taken.clear()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # An unclosed quote would consume all following lines; only its own line is dropped.
            physical.give_back()
            first = physical.taken[0]
            yield malformed_row(name, first.number, "broken quoting", f"{error}: {short(first.content[:40])}")
            continue
        number = physical.taken[0].number
        faults = (fault for line in physical.taken if (fault := line_fault(line)) is not None)
        fault = next(faults, None)
        yield (number, cells) if fault is None else malformed_row(name, number, *fault)


def _separator(sample: Sequence[Line]) -> str:
    """The separator: a semicolon if it divides the rows consistently and into more cells than a comma does; else a comma.

    A separator is consistent if at least 80% of the rows have the same number of cells; the other rows are reported as
    malformed later.
    """
    text = [line.content.decode(errors="replace") for line in sample if not line.too_long]
    widths = {}
    for separator in ",;":
        try:
            found = Counter(len(row) for row in csv.reader([line + "\n" for line in text], delimiter=separator) if row)
        except csv.Error:
            found = Counter()
        width, times = max(found.items(), key=lambda one: one[1], default=(0, 0))
        widths[separator] = width if times >= USUAL * found.total() else 0
    return ";" if widths[";"] > max(1, widths[","]) else ","


def columns_of_table(
    name: str, rows: Iterator[Row], columns: Sequence[int | str], header: bool, ragged: bool = False
) -> Iterator[Row]:
    """The cells of some columns, in the order of `columns`.

    Arguments:
        name: the name of the file in messages.
        rows: the rows, beginning with the header if there is one.
        columns: the columns, each by its index from 0 or its name in the header.
        header: whether the first row is a header.
        ragged: whether rows may have additional columns; if False, such rows are malformed.

    Raises:
        InputError: for a negative index, or a column that the header does not have.
    """
    for column in columns:
        if isinstance(column, int) and column < 0:
            raise InputError(f"{name}: column {column} is not possible; columns count from 0")
    if header:
        names = header_of(name, rows)
        width = len(names)
        indices = [_column(name, names, column) for column in columns]
    else:
        indices = [int(column) for column in columns]
        sample = list(itertools.islice(rows, _WIDTH_SAMPLE))
        rows = itertools.chain(sample, rows)
        width = usual_width(sample, max(indices) + 1)
    least = max(indices) + 1 if ragged else width
    for row in rows:
        if isinstance(row, MalformedRow):
            yield row
            continue
        number, cells = row
        if len(cells) == width or (ragged and len(cells) >= least):
            yield number, [cells[index] for index in indices]
        elif not any(cell.strip() for cell in cells):
            yield malformed_row(name, number, "empty line")
        else:
            detail = f"{len(cells)} instead of {width}: {short(cells[0] if len(cells) == 1 else cells)}"
            yield malformed_row(name, number, "wrong number of columns", detail)


def header_of(name: str, rows: Iterator[Row]) -> list[str]:
    """The column names in the first row, which is consumed.

    Raises:
        InputError: if the first row is malformed.
    """
    row = next(rows)
    if isinstance(row, MalformedRow):
        raise InputError(f"{row}; the first line must be a header, because columns are given by name")
    return [cell.strip() for cell in row[1]]


def _column(name: str, header: list[str], column: int | str) -> int:
    if isinstance(column, str):
        if column not in header:
            raise InputError(f"{name}: no column {column!r} in the header; {nearest(column, header)}")
        return header.index(column)
    if column >= len(header):
        raise InputError(f"{name}: no column {column}; the header has {len(header)}, counted from 0")
    return column


def usual_width(sample: Sequence[Row], needed: int) -> int:
    """The number of columns of a table: the most frequent one in the sample, ignoring rows with fewer than `needed`."""
    counts = Counter(len(row[1]) for row in sample if not isinstance(row, MalformedRow))
    enough = {count: rows for count, rows in counts.items() if count >= needed}
    return max(enough, key=lambda count: (enough[count], -count)) if enough else needed


FORMATS = ("auto", "tsv", "csv", "jsonl")

_SUFFIXES = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


def guess_format(name: str, lines: Iterator[Line]) -> tuple[str, Iterator[Line]]:
    """The format of a file, by its suffix or first line, and all its lines; `tsv` if neither identifies it."""
    suffixes = [suffix for suffix in Path(name.lower()).suffixes if suffix not in (".gz", ".gzip")]
    if suffixes and suffixes[-1] in _SUFFIXES:
        return _SUFFIXES[suffixes[-1]], lines
    first = next(lines)
    looks_like_json = first.content.lstrip().startswith(b"{")
    return "jsonl" if looks_like_json else "tsv", itertools.chain([first], lines)


TEXT_COLUMNS = (
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
LABEL_COLUMNS = ("label", "class", "category", "sentiment", "score", "rating", "stars", "target", "gold_label", "y")
PAIR_COLUMNS = (
    ("source", "target"),
    ("src", "tgt"),
    ("src", "trg"),
    ("input", "output"),
    ("question", "answer"),
    ("prompt", "completion"),
)
"""Usual names of columns, in lower case."""

HEADER_NAMES = frozenset(
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
    | {*TEXT_COLUMNS, *LABEL_COLUMNS, *(name for pair in PAIR_COLUMNS for name in pair)}
)
"""Names that are common in headers and rare in a first row of data. The empty name is the index column written by pandas."""

SAMPLE_ROWS = 100
"""The number of first rows that are examined to detect the header and columns."""

ROWS_THAT_TELL = 6
"""The number of rows below the first that are needed to recognise what a column contains."""

_DIGIT = re.compile(r"\d")
_NAME = re.compile(r"[^\W\d][\w .#/()-]{0,39}")


def has_header(name: str, sample: Sequence[Row], advice: str | None) -> bool:
    """Whether the first row is a header.

    It is if at least two of its cells (or its only cell) are usual column names; or if all its cells look like names and one
    column below contains only numbers, or only cells with digits (such as dates and ids) under a cell without digits. It is
    not if one of its cells is a number, occurs again in the same column, or equals another cell of the row.

    Arguments:
        name: the name of the file in messages.
        sample: the first rows.
        advice: the advice for the error if the first row is ambiguous; None to treat an ambiguous first row as data.

    Raises:
        InputError: if the first row is ambiguous: it has only one usual name, or the last column contains classes and its first
            cell is not one of them.
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
    common = sum(cell in HEADER_NAMES for cell in first)
    above_numbers = any(len(column) > 1 and all(map(_number, column)) for column in below)
    above_digits = any(
        len(column) >= ROWS_THAT_TELL and not _DIGIT.search(cell) and all(map(_DIGIT.search, column))
        for cell, column in zip(first, below, strict=True)
    )
    named = all(_NAME.fullmatch(cell) for cell in first if cell)
    if common >= min(2, len(first)) or ((above_numbers or above_digits) and named):
        return True
    last = below[-1]
    classes = (
        len(first) > 1
        and len(last) >= ROWS_THAT_TELL
        and 2 * len(set(last)) <= len(last)
        and min(map(last.count, last)) > 1
    )
    if advice is not None and named and (common or classes):
        raise InputError(f"{name}: the first line, {short(rows[0])}, may be a header or data; {advice}")
    return False


def is_number_of_rows(sample: Sequence[Row], place: int) -> bool:
    """Whether a column contains a different whole number in each row, as a column of ids does."""
    cells = [row[1][place].strip() for row in sample if not isinstance(row, MalformedRow) and len(row[1]) > place]
    return len(cells) > 1 and all(cell.isdecimal() for cell in cells) and len(set(cells)) == len(cells)


def place_of(header: Sequence[str], names: Sequence[str]) -> int | None:
    """The index of the only column with one of these names; None if there is none, or several."""
    found = [place for place, cell in enumerate(header) if cell.strip().lower() in names]
    return found[0] if len(found) == 1 else None


def columns_read(sides: Sequence[tuple[str, int | None]], header: Sequence[str] | None, width: int) -> str:
    """A sentence that says which columns are read and which are not.

    Arguments:
        sides: the name and column index of each part.
        header: the column names; None without a header.
        width: the number of columns.

    >>> columns_read([("text", 1), ("label", 2)], ["id", "message", "kind"], 3)
    "the first line names the columns; text is 'message', label 'kind'; not read: 'id'"
    >>> columns_read([("source", 0), ("target", 1)], None, 2)
    'no header; source is column 0, target column 1'
    """

    def called(place: int) -> str:
        # Rows may be longer than the header.
        return repr(header[place].strip()) if header is not None and place < len(header) else f"column {place}"

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
