"""Very long texts in parts, for of one long text the library needs far more memory; and where tokens stand in their text.

Parts are cut so that they are tokenized alike together and apart.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import tokenizers

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


# Spans: where tokens stand in the text they were read from, before normalisation.

Span = tuple[int, int]


def spans_of(encoding: tokenizers.Encoding, text: str, *, prepends: bool) -> list[Span]:
    """Spans of tokens that together are the whole text, spaces included.

    Arguments:
        encoding: what the library made of the text.
        prepends: whether a mark for a space was put before the text.
    """
    offsets: list[Span] = encoding.offsets
    spans: list[Span] = []
    for index, (start, end) in enumerate(offsets):
        following = offsets[index + 1][0] if index + 1 < len(offsets) else len(text)
        # A character composed into the one before it (e + U+0301) is in no token by the library's count.
        while start < end < following and not text[end].isspace():
            end += 1
        spans.append((start, end))
    if prepends and spans and encoding.tokens[0] == "▁":
        spans[0] = (0, 0)
    return spans


def bert_spans(encoding: tokenizers.Encoding, text: str, begin: int = 0) -> list[Span]:
    """Spans of BERT's tokens, which leave spaces and control characters out.

    An accent that was stripped belongs to the letter before it.

    Arguments:
        text: what was read.
        begin: where that begins in the text that the spans are to point into.
    """
    offsets: list[Span] = encoding.offsets
    if not text.isascii():
        limits = [start for start, _ in offsets[1:]] + [len(text)]
        offsets = [
            (start, _with_accents(text, end, limit)) for (start, end), limit in zip(offsets, limits, strict=False)
        ]
    return [(start + begin, end + begin) for start, end in offsets] if begin else offsets


def _with_accents(text: str, end: int, limit: int) -> int:
    while end < limit and unicodedata.category(text[end]) == "Mn":
        end += 1
    return end
