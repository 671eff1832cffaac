"""Words by how they are spelt (Peters et al. 2018): every word as the bytes of its letters, a mark before each word.

Nothing is learnt and no word is unknown. Words are what stands between white space: whoever wants punctuation apart splits it off
first, as the texts that ELMo was trained on have it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

BYTES = 256
MARK = 0x20
"""The byte that no word has in it: a space, which stands before each."""

START, END, PADDING = "<s>", "</s>", "<pad>"
"""The special tokens; their ids are the first three after the bytes."""

SIZE = BYTES + 3
"""Of the vocabulary."""


def letters() -> list[str]:
    """The letter by which each byte is written where it is to be seen, as byte-level vocabularies do it.

    >>> letters()[0x20], letters()[0x41]
    ('Ġ', 'A')
    """
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, BYTES)]
    others = [byte for byte in range(BYTES) if byte not in plain]
    return [chr(byte) if byte in plain else chr(BYTES + others.index(byte)) for byte in range(BYTES)]


def backend(*, lowercase: bool = False) -> tokenizers.Tokenizer:
    """The tokenizer; the id of a byte is the byte itself.

    >>> backend().encode("Öl 7").ids
    [32, 195, 150, 108, 32, 55]
    """
    tokenizer = tokenizers.Tokenizer(
        models.BPE(vocab={letter: byte for byte, letter in enumerate(letters())}, merges=[])
    )
    if lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)]
    )
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([START, END, PADDING])
    return tokenizer


def is_spelling(layout: Mapping[str, object]) -> bool:
    """Whether the content of a tokenizer.json is this tokenizer."""
    model, splitter = layout.get("model"), layout.get("pre_tokenizer")
    if not isinstance(model, dict) or not isinstance(splitter, dict):
        return False
    steps = [step.get("type") for step in splitter.get("pretokenizers", ())]
    return model.get("type") == "BPE" and not model.get("merges") and steps == ["WhitespaceSplit", "ByteLevel"]


def word_table() -> tuple[np.ndarray, np.ndarray]:
    """(V,) bool twice: whether a byte goes on with a word, as all but the mark do, and whether bytes can follow it."""
    going_on, open_ended = np.zeros(SIZE, dtype=bool), np.zeros(SIZE, dtype=bool)
    going_on[:BYTES] = open_ended[:BYTES] = True
    going_on[MARK] = False
    return going_on, open_ended
