"""Byte-level BPE (Radford et al. 2019, section 2.2): pieces of UTF-8 bytes, so that no text is unknown.

The 256 bytes are written as 256 letters that can be seen; what is learnt are merges of these. Text is cut beforehand where GPT-2
cuts it: contractions, words and numbers with the space before them, marks of punctuation, runs of white space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from regard.errors import InputError
from regard.text.feeding import learn

END_OF_TEXT = "<|endoftext|>"
"""GPT-2's one special token: it ends a text, stands before the first of one, and fills up."""

BYTES = 256


def backend_of(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> tokenizers.Tokenizer:
    """GPT-2's tokenizer around a vocabulary and its merges.

    Raises:
        InputError: for a merge of what is not in the vocabulary, or a vocabulary without `<|endoftext|>`.
    """
    if END_OF_TEXT not in vocabulary:
        raise InputError(f"the vocabulary has no {END_OF_TEXT}, which ends GPT-2's texts; give its own vocabulary")
    try:
        tokenizer = _around(models.BPE(vocab=dict(vocabulary), merges=list(merges)))
    except Exception as error:  # the library raises bare Exception for every fault
        raise InputError(
            f"the merges do not fit the vocabulary ({error}); give the two files of one tokenizer"
        ) from None
    tokenizer.add_special_tokens([END_OF_TEXT])
    return tokenizer


def train(texts: Iterator[str], size: int) -> tokenizers.Tokenizer:
    """A tokenizer of at most `size` pieces, the 256 bytes among them and no special token yet."""
    tokenizer = _around(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    learn(tokenizer, texts, trainer)
    return tokenizer


def is_byte_level(layout: Mapping[str, object]) -> bool:
    """Whether the content of a tokenizer.json is byte-level BPE."""
    model, splitter = layout.get("model"), layout.get("pre_tokenizer")
    return (
        isinstance(model, dict)
        and model.get("type") == "BPE"
        and isinstance(splitter, dict)
        and splitter.get("type") == "ByteLevel"
    )


def _around(model: models.BPE) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer
