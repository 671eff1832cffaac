"""Pairs from tables: TSV (no quoting) and CSV (quoting as in RFC 4180)."""

from __future__ import annotations

import csv
import itertools
from collections import Counter, deque
from collections.abc import Iterator, Sequence

from regard.data.lines import Line
from regard.data.malformed import MalformedRow
from regard.data.pair import Found, decoded, line_fault, malformed_row, pair_or_fault, short
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
            # An unclosed quote swallows what follows; only the line it stands in is lost.
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


def pairs_of_table(name: str, rows: Iterator[Row], source: int | str, target: int | str, header: bool) -> Found:
    """The pairs in two columns, each given by its index or by its name in the header."""
    for row in columns_of_table(name, rows, (source, target), header):
        yield row if isinstance(row, MalformedRow) else pair_or_fault(name, row[0], *row[1])


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
