"""How text becomes an encoder's tokens, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.tasks.tokenizer_settings import TokenizerSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderTokenizerSettings(TokenizerSettings):
    """The `tokenizer` section of a recipe.

    Arguments:
        kind: `bert` is WordPiece with BERT's special tokens, `byte_bpe` GPT-2's, `spelling` ELMo's bytes of words, which it
            always has; the others are `bpe`, `wordpiece`, `unigram`, `word`, `character`.
        size: the largest vocabulary.
        lowercase: drop case, and with kind `bert` accents too.
        path: a folder, tokenizer.json or vocab.txt to take instead of training one; that of `model.pretrained` where there is
            one.
        sentinels: how many of T5's sentinels a trained one has; `bert` has none.
        input_tokens: whether it is given `_start_`, `_delimiter_` and `_classify_`, between which a decoder of GPT's family reads
            its inputs. Filled in by the model.
        sentences: whether a text is parted into sentences, with the token between that ends a text. Filled in by the model.
    """

    kind: Literal["bert", "bpe", "byte_bpe", "wordpiece", "unigram", "word", "character", "spelling"] = "bert"
    lowercase: bool = True
    input_tokens: bool = False
    sentences: bool = False
