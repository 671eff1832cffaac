"""Very long texts in parts that are tokenized alike together and apart: of one long text the library needs far more memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

LONGEST = 1 << 14
"""Characters of a part."""

AT_ONCE = 1 << 20
"""Characters that are handed over in one call."""

# BERT's tokenizer splits before each of these whatever stands around it, and composes none with what stands before.
_BREAK = re.compile(r"[\t\n\r !-/:-@\[-`{-~]")


class Part(NamedTuple):
    """A part of a text.

    Arguments:
        row: which of several texts it is from.
        start: where it begins there, in characters.
        text: the part itself.
    """

    row: int
    start: int
    text: str


def parts(texts: Iterable[str], *, cut: bool) -> Iterator[Part]:
    """The texts, with `cut` in parts of about `LONGEST` characters that begin where BERT's tokenizer splits."""
    for row, text in enumerate(texts):
        start = 0
        while cut and len(text) - start > LONGEST:
            found = _BREAK.search(text, start + LONGEST)
            if found is None:
                break
            yield Part(row, start, text[start : found.start()])
            start = found.start()
        yield Part(row, start, text[start:] if start else text)


def grouped(given: Iterable[Part]) -> Iterator[list[Part]]:
    """The parts in groups of about `AT_ONCE` characters."""
    group: list[Part] = []
    characters = 0
    for part in given:
        group.append(part)
        characters += len(part.text)
        if characters >= AT_ONCE:
            yield group
            group, characters = [], 0
    if group:
        yield group
