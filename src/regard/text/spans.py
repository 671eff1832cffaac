"""Where tokens stand in the text they were read from, before normalisation."""

from __future__ import annotations

import unicodedata

import tokenizers

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
