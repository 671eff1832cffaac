"""Rows that cannot be used: the checks of texts and lines that all readers share, and the record of skipped rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

from regard.data.lines import Line, is_utf_8, wrong_encoding
from regard.errors import InputError, nearest

T = TypeVar("T")
Row = TypeVar("Row")

NOT_UTF_8 = "not UTF-8"


@dataclass(frozen=True, kw_only=True, slots=True)
class MalformedRow:
    r"""One row that could not be used.

    Arguments:
        file: the path of the file, as given to the reader.
        line: the line number, from 1.
        reason: the kind of fault, the same text for all rows with that kind.
        detail: the value that was found.
        unit: what `line` counts if it does not count lines, such as "question" in a JSON document.

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


def text_fault(side: str, text: object) -> tuple[str, str] | None:
    """Why a value is not a usable text, as (reason, detail), or None if it is; `side` is the name of the text in messages."""
    if not isinstance(text, str):
        return "not a text", f"{side} is {short(text)}"
    if not text or text.isspace():
        return f"empty {side}", ""
    if "\0" in text:
        return "NUL character", f"{side} is {short(text)}"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return NOT_UTF_8, f"{side} holds half of a surrogate pair"
    return None


def first_fault(texts: Iterable[tuple[str, object]]) -> tuple[str, str] | None:
    """`text_fault` of the first unusable one of several named values; None if all are usable."""
    return next((fault for side, text in texts if (fault := text_fault(side, text)) is not None), None)


def malformed_row(name: str, line: int, reason: str, detail: str = "", unit: str = "line") -> MalformedRow:
    """A `MalformedRow` from positional arguments."""
    return MalformedRow(file=name, line=line, reason=reason, detail=detail, unit=unit)


def short(value: object) -> str:
    """The representation of a value for a message, at most 60 characters long."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def decoded(name: str, line: Line) -> str | MalformedRow:
    """The text of a line, or a `MalformedRow` if its bytes are not usable."""
    fault = line_fault(line)
    return line.content.decode() if fault is None else malformed_row(name, line.number, *fault)


def line_fault(line: Line) -> tuple[str, str] | None:
    """Why the bytes of a line are not text, as (reason, detail), or None if they are."""
    if line.too_long:
        return "line too long", "more than 1 MiB"
    if b"\0" in line.content:
        return "NUL character", short(line.content[:40])
    if not line.content.isascii() and not is_utf_8(line):
        return NOT_UTF_8, short(line.content[:40])
    return None


class MalformedRows:
    """A record of the rows that readers skipped: all are counted, the first ones are kept.

    Reading a file again (in the next epoch, say) counts nothing twice: lines are read in order, so a line number up to the
    last counted one of that file was counted before.

    Arguments:
        keep: the number of rows that are kept.

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
        """For each table whose columns were not all named: which columns were read."""

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
        """The number of rows that were left out."""
        return self._counts.total()

    @property
    def by_reason(self) -> dict[str, int]:
        """The number of rows that were left out for each reason, the most frequent reason first."""
        return dict(self._counts.most_common())

    @property
    def first(self) -> tuple[MalformedRow, ...]:
        """The first rows that were left out, in reading order."""
        return tuple(self._first)

    @property
    def notes(self) -> list[str]:
        """Notes for the user: which columns were read where they were not named, and which rows were left out."""
        read = [f"{file}: {columns}." for file, columns in self.columns.items()]
        return read + ([" ".join(self.summary().split())] if self.total else [])

    def summary(self, examples: int = 3) -> str:
        """One paragraph: the number of rows that were left out, the reasons, and the first `examples` rows."""
        if not self.total:
            return "No malformed rows."
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.by_reason.items())
        shown = "; ".join(str(row) for row in self._first[:examples])
        more = " ..." if self.total > examples else "."
        subject = "1 malformed row was" if self.total == 1 else f"{self.total:,} malformed rows were"
        return f"{subject} left out ({reasons}): {shown}{more}"


_GIVE_UP_AFTER = 1000  # rows; if none of them is usable, the format is wrong and reading stops


def read_rows(
    rows: Iterable[tuple[int, Row] | MalformedRow], read: Callable[[int, Row], T | MalformedRow]
) -> Iterator[T | MalformedRow]:
    """The result of `read(line, content)` for each row; rows that are already malformed are passed on."""
    return (row if isinstance(row, MalformedRow) else read(*row) for row in rows)


def usable(
    found: Iterator[T | MalformedRow], name: str, needed: str, on_error: str, malformed: MalformedRows | None
) -> Iterator[T]:
    """The rows of `found` that are not malformed.

    Arguments:
        found: the rows.
        name: the name of the file in messages.
        needed: what a usable row needs, as a sentence without its full stop.
        on_error: what to do with a malformed row: `skip` (record it and leave it out) or `stop` (raise `InputError`).
        malformed: where malformed rows are recorded.

    Raises:
        InputError: by the call for an unknown `on_error`; while reading, if the file has no usable row, or for a malformed row
            if `on_error` is `stop`.
    """
    if on_error not in ("skip", "stop"):
        raise InputError(f"data.on_error {on_error!r} is not known; {nearest(on_error, ('skip', 'stop'))}")
    return _sift(found, name, needed, on_error == "stop", MalformedRows() if malformed is None else malformed)


def _sift(
    found: Iterator[T | MalformedRow], name: str, needed: str, stop: bool, malformed: MalformedRows
) -> Iterator[T]:
    first: MalformedRow | None = None
    reasons: Counter[str] = Counter()
    one_is_usable = False
    for row in found:
        if not isinstance(row, MalformedRow):
            one_is_usable = True
            yield cast(T, row)
            continue
        if stop:
            raise InputError(f"{row}; {needed}")
        malformed.record(row)
        if one_is_usable:
            continue
        first = first or row
        reasons[row.reason] += 1
        if reasons.total() >= _GIVE_UP_AFTER:
            break
    if one_is_usable:
        return
    if first is None:
        raise InputError(f"{name}: has a header and no rows; {needed}")
    if reasons.most_common(1)[0][0] == NOT_UTF_8:
        raise wrong_encoding(first.file, None)
    count = reasons.total()
    looked = f"{count:,} {'row' if count == 1 else 'rows'}" + (" read" if count >= _GIVE_UP_AFTER else "")
    raise InputError(f"{name}: none of {looked} is usable; {needed}; the first fault: {first}")
