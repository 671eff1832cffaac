"""How text becomes an encoder's tokens, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.tasks.tokenizer_settings import TokenizerSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderTokenizerSettings(TokenizerSettings):
    """The `tokenizer` section of a recipe.

    Arguments:
        kind: `bert` is WordPiece with BERT's special tokens; the others are `bpe`, `wordpiece`, `unigram`, `word`, `character`.
        size: the largest vocabulary.
        lowercase: drop case, and with kind `bert` accents too.
        path: a folder, tokenizer.json or vocab.txt to take instead of training one; that of `model.pretrained` where there is
            one.
    """

    kind: Literal["bert", "bpe", "wordpiece", "unigram", "word", "character"] = "bert"
    lowercase: bool = True
