"""Tables of text: TSV and CSV, which of them a file is, whether its first row is a header, and which columns are meant.

Nothing is guessed where two answers are likely: such a table is refused, with what to say instead.
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
"""The share of rows that says what a separator is."""
_WIDTH_SAMPLE = 100  # rows that say how many columns a table has


def tsv_rows(name: str, lines: Iterator[Line]) -> Iterator[Row]:
    """The cells of each line: whatever tabs part, quotes being ordinary characters."""
    for line in lines:
        text = decoded(name, line)
        yield text if isinstance(text, MalformedRow) else (line.number, text.split("\t"))


class _Physical:
    """Lines for the `csv` reader, which can be given back when a quote is never closed."""

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
        """All that was taken but the first line comes again."""
        self._returned.extendleft(reversed(self.taken[1:]))


def csv_rows(name: str, lines: Iterator[Line]) -> Iterator[Row]:
    """The cells of each CSV record, numbered by the line it begins in; separated by commas, or by semicolons throughout."""
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
            # An unclosed quote swallows what follows; only the line it is in is lost.
            physical.give_back()
            first = physical.taken[0]
            yield malformed_row(name, first.number, "broken quoting", f"{error}: {short(first.content[:40])}")
            continue
        number = physical.taken[0].number
        faults = (fault for line in physical.taken if (fault := line_fault(line)) is not None)
        fault = next(faults, None)
        yield (number, cells) if fault is None else malformed_row(name, number, *fault)


def _separator(sample: Sequence[Line]) -> str:
    """A semicolon where it separates the rows into equally many cells and the comma does not, or into fewer; else a comma.

    One row in five may have another number of cells: it is reported as such, and does not make a comma of a semicolon.
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
    """The cells of some columns, each given by its index or by its name in the header, in the order asked for.

    Arguments:
        header: whether the first row names the columns.
        ragged: whether rows may have more columns than most; else such a row is malformed.
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
    """The names in the first row, which is taken."""
    row = next(rows)
    if isinstance(row, MalformedRow):
        raise InputError(f"{row}; the first line has to name the columns, since columns are given by name")
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
    """How many columns a table has: what most of its first rows have, those with too few left aside."""
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
    """The format of a file, `tsv` where nothing tells, and all its lines."""
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
"""What columns are usually called, in lower case."""

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
"""Names that a header often has, and a first row of data seldom: the empty one is that of an index that pandas wrote."""

SAMPLE_ROWS = 100
"""Rows that tell."""

ROWS_THAT_TELL = 6
"""Rows below the first that say what a column holds."""

_DIGIT = re.compile(r"\d")
_NAME = re.compile(r"[^\W\d][\w .#/()-]{0,39}")


def has_header(name: str, sample: Sequence[Row], advice: str | None) -> bool:
    """Whether the first row names the columns.

    It does where at least two of its cells, or all, are usual names of columns; or where all look like names and one is above
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
