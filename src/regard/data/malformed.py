"""Rows that could not be used: where they stand, why, and how many there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class MalformedRow:
    r"""One row that could not be used.

    Arguments:
        file: the file as the reader was given it.
        line: from 1.
        reason: the kind of fault, the same words for all rows of that kind.
        detail: what was found there.
        unit: what `line` counts, where it is not lines, such as the questions of a JSON document.

    >>> str(MalformedRow(file="pairs.tsv", line=7, reason="empty target", detail="'yes\t'"))
    "pairs.tsv, line 7: empty target ('yes\t')"
    """

    file: str
    line: int
    reason: str
    detail: str = ""
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.file}, {self.unit} {self.line}: {self.reason}" + (f" ({self.detail})" if self.detail else "")


class MalformedRows:
    """The tally of rows that readers skipped: all of them counted, the first ones kept.

    A file that is read again (the next epoch, a second look) adds nothing: lines come in order, so a line at
    or before the last one counted in its file has been counted before.

    Arguments:
        keep: how many rows are kept in detail.

    >>> malformed = MalformedRows()
    >>> for epoch in range(2):
    ...     malformed.record(MalformedRow(file="pairs.tsv", line=7, reason="empty target"))
    >>> malformed.total
    1
    >>> malformed.summary()
    '1 malformed row was left out (1 empty target): pairs.tsv, line 7: empty target.'
    """

    def __init__(self, keep: int = 20) -> None:
        self._keep = keep
        self._counts: Counter[str] = Counter()
        self._first: list[MalformedRow] = []
        self._last_line: dict[str, int] = {}
        self.columns: dict[str, str] = {}
        """By file: which columns of a table were read, where not all were named."""

    def record(self, row: MalformedRow) -> None:
        """Count `row`, unless its line has been counted already."""
        if row.line <= self._last_line.get(row.file, 0):
            return
        self._last_line[row.file] = row.line
        self._counts[row.reason] += 1
        if len(self._first) < self._keep:
            self._first.append(row)

    @property
    def total(self) -> int:
        """How many rows were left out."""
        return self._counts.total()

    @property
    def by_reason(self) -> dict[str, int]:
        """How many rows were left out for each reason, the most frequent first."""
        return dict(self._counts.most_common())

    @property
    def first(self) -> tuple[MalformedRow, ...]:
        """The first rows left out, in the order they were met."""
        return tuple(self._first)

    @property
    def notes(self) -> list[str]:
        """What the user ought to know of what was read: columns that nobody named, and rows that were left out."""
        read = [f"{file}: {columns}." for file, columns in self.columns.items()]
        return read + ([" ".join(self.summary().split())] if self.total else [])

    def summary(self, examples: int = 3) -> str:
        """One paragraph: how many rows were left out, why, and the first few of them."""
        if not self.total:
            return "No malformed rows."
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.by_reason.items())
        shown = "; ".join(str(row) for row in self._first[:examples])
        more = " ..." if self.total > examples else "."
        subject = "1 malformed row was" if self.total == 1 else f"{self.total:,} malformed rows were"
        return f"{subject} left out ({reasons}): {shown}{more}"
