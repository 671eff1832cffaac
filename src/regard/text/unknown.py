"""Characters that a tokenizer does not know: a model reads them as one unknown token, whatever they are."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from regard.text.tokenizer import Tokenizer

SHOWN = 8
"""How many are named."""


class UnknownCharacters(UserWarning):
    """A model is asked about texts that hold what its tokenizer does not know."""


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
    named = ", ".join(map(repr, list(found)[:SHOWN])) + (
        f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    )
    texts_hold = "1 text holds" if count == 1 else f"{count:,} texts hold"
    warnings.warn(
        f"{texts_hold} what the tokenizer does not know, and the model reads it as unknown: {named}",
        UnknownCharacters,
        stacklevel=3,
    )
