"""Texts longer than a model reads, in windows that overlap by half."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a text that is read at once.

    Arguments:
        start, stop: its first token and the one after its last.
        first, last: those whose vectors are taken from it, the latter excluded.
    """

    start: int
    stop: int
    first: int
    last: int


def windows_of(length: int, room: int) -> list[Window]:
    """The windows of a text of so many tokens, from which every token is taken once.

    Windows overlap by half, the last one is filled with what stands before it, and a token is taken from that window in which
    it stands farther from the nearer end, so that it has the most context on its poorer side (the rule of the authors' code
    for questions over long texts, Devlin et al. 2019, section 4.2).

    Arguments:
        length: of the text, special tokens not counted.
        room: for them in the model.

    >>> windows_of(5, 8)
    [Window(start=0, stop=5, first=0, last=5)]
    >>> [(window.start, window.stop, window.first, window.last) for window in windows_of(9, 4)]
    [(0, 4, 0, 3), (2, 6, 3, 5), (4, 8, 5, 6), (5, 9, 6, 9)]
    """
    if length <= room:
        return [Window(0, length, 0, length)]
    step = max(1, room // 2)
    starts = [*range(0, length - room, step), length - room]
    # Half of what two windows share is taken from each.
    borders = [
        0,
        *((start + room + following) // 2 for start, following in pairwise(starts)),
        length,
    ]
    return [Window(start, start + room, borders[i], borders[i + 1]) for i, start in enumerate(starts)]
