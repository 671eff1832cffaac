"""What is usable of the rows of a file: malformed ones are recorded and left out; where none is usable, that is an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeVar, cast

from regard.data.lines import wrong_encoding
from regard.data.malformed import MalformedRow, MalformedRows
from regard.data.pair import NOT_UTF_8
from regard.errors import InputError, nearest

T = TypeVar("T")

_GIVE_UP_AFTER = 1000  # rows, none of them usable: the format is wrong, and the rest need not be read


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
