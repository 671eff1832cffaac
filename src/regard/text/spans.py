"""Where tokens are in the text that they were read from, before normalisation; and where long texts are divided.

Very long texts are tokenized in parts, which needs much less memory; they are divided where this does not change the tokens.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import tokenizers

LONGEST = 1 << 14
"""The number of characters in a part."""

AT_ONCE = 1 << 20
"""The number of characters in one call of the library."""

# BERT's tokenizer always splits before these characters, and never composes them with the preceding character.
_BREAK = re.compile(r"[\t\n\r !-/:-@\[-`{-~]")


class Part(NamedTuple):
    """A part of a text.

    Arguments:
        row: the index of its text.
        start: its first character in the text.
        text: the part itself.
    """

    row: int
    start: int
    text: str


def parts(texts: Iterable[str], *, cut: bool) -> Iterator[Part]:
    """The texts, with `cut` divided into parts of about `LONGEST` characters that begin where BERT's tokenizer splits."""
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


Span = tuple[int, int]


def spans_of(encoding: tokenizers.Encoding, text: str, *, prepends: bool) -> list[Span]:
    """The spans of tokens that cover the whole text, with spaces.

    Arguments:
        encoding: of the text, by the library.
        prepends: whether a mark for a space was added before the text.
    """
    offsets: list[Span] = encoding.offsets
    spans: list[Span] = []
    for index, (start, end) in enumerate(offsets):
        following = offsets[index + 1][0] if index + 1 < len(offsets) else len(text)
        # The library's offsets leave out a character that is composed with the one before it (e + U+0301).
        while start < end < following and not text[end].isspace():
            end += 1
        spans.append((start, end))
    if prepends and spans and encoding.tokens[0] == "▁":
        spans[0] = (0, 0)
    return spans


def bert_spans(encoding: tokenizers.Encoding, text: str, begin: int = 0) -> list[Span]:
    """The spans of BERT's tokens, without spaces and control characters.

    A stripped accent belongs to the letter before it.

    Arguments:
        text: the encoded text.
        begin: the first character of this text in the text of the spans.
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
