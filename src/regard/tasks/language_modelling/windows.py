"""How a text longer than a model's positions is read: in windows that overlap, every token told once."""

from __future__ import annotations

from dataclasses import dataclass

from regard.errors import InputError


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a text.

    Arguments:
        start, stop: which tokens are read.
        first: the first that is told; those before it are only looked back at.
    """

    start: int
    first: int
    stop: int


def windows(length: int, limit: int | None, stride: int | None = None) -> list[Window]:
    """The windows that a text is read in, as for the perplexities of GPT-2 (Radford et al. 2019, section 3.1).

    In the first window all tokens are told, in each later one the last `stride`: these have at least limit - stride tokens
    before them. A text that fits is one window.

    Arguments:
        length: of the text, in tokens.
        limit: the most tokens of a window; None for any number.
        stride: how far a window lies behind the one before; half the limit where None. The smaller, the more context each token
            has, and the longer it takes.

    Raises:
        InputError: for a stride that is not between 1 and the limit.

    >>> windows(10, 4, 2)[:2]
    [Window(start=0, first=0, stop=4), Window(start=2, first=4, stop=6)]
    """
    if limit is None or length <= limit:
        return [Window(0, 0, length)]
    step = max(1, limit // 2) if stride is None else stride
    if not 1 <= step <= limit:
        raise InputError(f"stride is {step}; give 1 to {limit}, the model's positions")
    found = [Window(0, 0, limit)]
    while found[-1].stop < length:
        first = found[-1].stop
        stop = min(first + step, length)
        found.append(Window(stop - limit, first, stop))
    return found
