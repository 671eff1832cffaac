"""Empty texts: they have no answer, in Python and on the command line alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from regard.errors import InputError

X = TypeVar("X")
A = TypeVar("A")

NAMED = 5
"""Numbers of empty texts that a message tells."""


def is_empty(text: Any) -> bool:
    """Whether there is nothing to read: white space at most, no words, or a pair of which one text is empty.

    >>> is_empty(" "), is_empty(("a", "")), is_empty([]), is_empty("a")
    (True, True, True, False)
    """
    if isinstance(text, str):
        return not text.strip()
    if isinstance(text, tuple):
        return any(isinstance(part, str) and not part.strip() for part in text)
    return isinstance(text, list) and not text


def with_gaps(
    answer: Callable[[list[X]], Sequence[A]], texts: Sequence[X], *, empty: Callable[[X], bool] = is_empty
) -> list[A | None]:
    """Answers to texts of which some may be empty: None for each of those, so that every answer keeps its place.

    Arguments:
        answer: a method that answers many texts, such as `model.classify_batch`, and refuses empty ones.
        empty: tells those.

    >>> with_gaps(lambda texts: [text.upper() for text in texts], ["a", "", "b"])
    ['A', None, 'B']
    """
    gaps = [empty(text) for text in texts]
    there = [text for text, gap in zip(texts, gaps, strict=True) if not gap]
    found = iter(answer(there) if there else ())
    return [None if gap else next(found) for gap in gaps]


def refuse_empty(texts: Sequence[Any], what: str = "text", why: str = "there is nothing to read") -> None:
    """Refuse a string where a list is wanted, what is no string, and texts in which there is nothing.

    Raises:
        InputError: naming the first that is no string, or all that are empty by their numbers from 1.
    """
    if isinstance(texts, str):
        raise InputError(f"one string given where a list of {what}s is wanted; put it in a list")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise InputError(f"{what} {number} is {text!r:.80}; give strings")
    refuse_gaps(texts, what, why)


def refuse_gaps(texts: Sequence[Any], what: str = "text", why: str = "there is nothing to read") -> None:
    """Refuse texts, or pairs of them, in which there is nothing.

    Raises:
        InputError: naming all of them by their numbers from 1.

    >>> refuse_gaps(["a", "", " "])
    Traceback (most recent call last):
        ...
    regard.errors.InputError: texts 2 and 3 are empty; there is nothing to read, leave them out, or call regard.tasks.with_gaps
    """
    numbers = [number for number, text in enumerate(texts, start=1) if is_empty(text)]
    if not numbers:
        return
    hint = ", or call regard.tasks.with_gaps" if len(texts) > 1 else ""
    if len(numbers) == 1:
        raise InputError(f"{what} {numbers[0]} is empty; {why}, leave it out{hint}")
    told = [str(number) for number in numbers[:NAMED]]
    last = told.pop() if len(numbers) <= NAMED else f"{len(numbers) - NAMED:,} more"
    raise InputError(f"{what}s {', '.join(told)} and {last} are empty; {why}, leave them out{hint}")
