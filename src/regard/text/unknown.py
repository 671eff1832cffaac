"""What a model does not read of texts: what its tokenizer does not know, read as one unknown token, and the end of long ones."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from regard.text.tokenizer import Tokenizer

SHOWN = 8
"""How many are named."""


LONGEST_SHOWN = 20
"""The most characters of each that are shown."""


class UnknownCharacters(UserWarning):
    """A model is asked about texts that hold what its tokenizer does not know."""


class CutTexts(UserWarning):
    """A model is asked about texts that are longer than what it reads.

    Arguments:
        count: of the cut texts; `total` of all.
        maximum: tokens that the model reads.
    """

    def __init__(self, count: int, total: int, maximum: int) -> None:
        self.count, self.total, self.maximum = count, total, maximum
        of = "the text is" if count == total == 1 else f"{count:,} of {total:,} texts {'is' if count == 1 else 'are'}"
        super().__init__(
            f"{of} longer than the {maximum:,} tokens that the model reads; what was cut off did not count in the answer"
        )


def warn_of_cut(cut: Sequence[int], maximum: int) -> None:
    """Warn (`CutTexts`) of texts of which tokens were cut off, once for all.

    Arguments:
        cut: how many tokens of each.
        maximum: tokens that the model reads.
    """
    count = sum(tokens > 0 for tokens in cut)
    if count:
        warnings.warn(CutTexts(count, len(cut), maximum), stacklevel=4)


def unknown_in(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[str]:
    """The parts of a text that became the unknown token, in their order.

    Arguments:
        ids: of the text's tokens.

    >>> tokenizer = Tokenizer.train(["abc"], kind="character", size=20)
    >>> unknown_in(tokenizer, "a?b!", tokenizer.encode("a?b!"))
    ['?', '!']
    """
    if tokenizer.unknown_id is None or tokenizer.unknown_id not in ids:
        return []
    spans = zip(tokenizer.encode(text), tokenizer.spans(text), strict=False)
    return [text[start:end] for index, (start, end) in spans if index == tokenizer.unknown_id]


def warn_of_unknown(tokenizer: Tokenizer, texts: Sequence[str], encoded: Sequence[Sequence[int]]) -> None:
    """Warn (`UnknownCharacters`) of texts with parts that the tokenizer does not know, naming the parts."""
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
    texts_hold = "1 text holds" if count == 1 else f"{count:,} texts hold"
    warnings.warn(
        f"{texts_hold} what the tokenizer does not know, and the model reads it as unknown: {named}",
        UnknownCharacters,
        stacklevel=3,
    )


def _shown(part: str) -> str:
    """An unknown part between quotes, cut where it is long, such as a word that is as long as the text."""
    if len(part) <= LONGEST_SHOWN:
        return repr(part)
    return f"{part[:LONGEST_SHOWN]!r}... ({len(part):,} characters)"
