"""Rows that cannot be used: the checks of texts and lines that all readers share, and the tally of rows that were left out."""

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


def first_fault(texts: Iterable[tuple[str, object]]) -> tuple[str, str] | None:
    """`text_fault` of the first of several named values that has one; None where all are usable."""
    return next((fault for side, text in texts if (fault := text_fault(side, text)) is not None), None)


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


_GIVE_UP_AFTER = 1000  # rows, none of them usable: the format is wrong, and the rest need not be read


def read_rows(
    rows: Iterable[tuple[int, Row] | MalformedRow], read: Callable[[int, Row], T | MalformedRow]
) -> Iterator[T | MalformedRow]:
    """What `read` makes of each row, given its line and content; rows that are malformed already are passed on."""
    return (row if isinstance(row, MalformedRow) else read(*row) for row in rows)


def usable(
    found: Iterator[T | MalformedRow], name: str, needed: str, on_error: str, malformed: MalformedRows | None
) -> Iterator[T]:
    """The rows of `found` that are not malformed.

    Arguments:
        name: of the file, for messages.
        needed: what a usable row is, as a sentence without its full stop.
        on_error: what a malformed row does: `skip` (it is recorded and left out) or `stop` (`InputError`).
        malformed: where malformed rows are recorded.

    Raises:
        InputError: for an unknown `on_error`, from the call; while reading, for a file without a usable row, or for a malformed
            row if `on_error` is `stop`.
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
