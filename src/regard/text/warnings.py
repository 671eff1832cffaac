"""Warnings about what a model does not read of a text: unknown parts, and the end of one that is too long."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.text.tokenizer import Tokenizer


SHOWN = 8
"""The number of unknown parts that a warning lists."""


LONGEST_SHOWN = 20
"""The largest number of characters of each that a warning shows."""


class UnknownCharacters(UserWarning):
    """Texts for a model have parts that its tokenizer does not know."""


class CutTexts(UserWarning):
    """Texts for a model are longer than it can read.

    Arguments:
        count: the number of cut texts; `total` is that of all texts.
        maximum: the longest text that the model reads, in tokens.
    """

    def __init__(self, count: int, total: int, maximum: int) -> None:
        self.count, self.total, self.maximum = count, total, maximum
        of = "the text is" if count == total == 1 else f"{count:,} of {total:,} texts {'is' if count == 1 else 'are'}"
        super().__init__(
            f"{of} longer than the {maximum:,} tokens that the model reads; the tokens after them were ignored"
        )


def warn_of_cut(cut: Sequence[int], maximum: int) -> None:
    """Warn (`CutTexts`) about all texts from which tokens were cut off, with one warning.

    Arguments:
        cut: the number of tokens cut off from each text.
        maximum: the longest text that the model reads, in tokens.
    """
    count = sum(tokens > 0 for tokens in cut)
    if count:
        warnings.warn(CutTexts(count, len(cut), maximum), stacklevel=4)


def unknown_in(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[str]:
    """The parts of a text that became the unknown token, in order.

    Arguments:
        ids: of the text's tokens.

    >>> from regard.text import Tokenizer
    >>> tokenizer = Tokenizer.train(["abc"], kind="character", size=20)
    >>> unknown_in(tokenizer, "a?b!", tokenizer.encode("a?b!"))
    ['?', '!']
    """
    if tokenizer.unknown_id is None or tokenizer.unknown_id not in ids:
        return []
    spans = zip(tokenizer.encode(text), tokenizer.spans(text), strict=False)
    return [text[start:end] for index, (start, end) in spans if index == tokenizer.unknown_id]


def warn_of_unknown(tokenizer: Tokenizer, texts: Sequence[str], encoded: Sequence[Sequence[int]]) -> None:
    """Warn (`UnknownCharacters`) about texts with parts that the tokenizer does not know, and list the parts."""
    found: dict[str, None] = {}
    count = 0
    for text, ids in zip(texts, encoded, strict=True):
        parts = unknown_in(tokenizer, text, ids)
        count += bool(parts)
        found.update(dict.fromkeys(parts))
    if not count:
        return
    named = ", ".join(map(_shown, list(found)[:SHOWN])) + (
        f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    )
    texts_have = "1 text has" if count == 1 else f"{count:,} texts have"
    warnings.warn(
        f"{texts_have} characters or words that the tokenizer does not know, which the model reads as unknown: {named}",
        UnknownCharacters,
        stacklevel=3,
    )


def _shown(part: str) -> str:
    """An unknown part in quotes, shortened if it is long."""
    if len(part) <= LONGEST_SHOWN:
        return repr(part)
    return f"{part[:LONGEST_SHOWN]!r}... ({len(part):,} characters)"
