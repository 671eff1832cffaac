"""How text becomes tokens, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerSettings:
    """The `tokenizer` section of a recipe.

    Arguments:
        kind: `bpe`, `byte_bpe` (GPT-2's), `wordpiece`, `bert` (BERT's own WordPiece), `unigram`, `word`, `character`, or
            `spelling` (the bytes of words, ELMo's); for music `performance` or `grid`, as `data.music.events` has it.
        size: the largest vocabulary.
        lowercase: drop case.
        path: a folder, tokenizer.json, vocab.txt or vocab.json (with its merges.txt) to take instead of training one.
        sentinels: how many of T5's sentinels a trained one has, each to stand for a span that was taken out; T5 has 100.
    """

    kind: Literal[
        "bpe", "byte_bpe", "wordpiece", "bert", "unigram", "word", "character", "spelling", "performance", "grid"
    ] = "bpe"
    size: int = 8_000
    lowercase: bool = False
    path: str | None = None
    sentinels: int = 0
