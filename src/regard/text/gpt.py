"""GPT's tokenizer (Radford et al. 2018, section 4.1): BPE over letters in lower case, pieces at the end of a word marked `</w>`.

Text is cut into words as BERT's is: at white space and around every mark of punctuation and Chinese character, control characters
and accents taken out. The authors cut it by another program's rules (spaCy's, after ftfy's repairs); this way is that of other
libraries where these are not installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.errors import InputError

UNKNOWN = "<unk>"
"""GPT's one special token: there is none for ends of texts, nor for padding."""

END_OF_WORD = "</w>"
GPT2_END = "<|endoftext|>"


def backend_of(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> tokenizers.Tokenizer:
    """GPT's tokenizer around a vocabulary and its merges.

    Raises:
        InputError: for a merge of what is not in the vocabulary, or a vocabulary without `<unk>`.

    >>> pieces = {"<unk>": 0, "a": 1, "b</w>": 2, "ab</w>": 3, "a</w>": 4, ".</w>": 5}
    >>> backend_of(pieces, [("a", "b</w>")]).encode("AB a.").tokens
    ['ab</w>', 'a</w>', '.</w>']
    """
    if UNKNOWN not in vocabulary:
        raise InputError(
            f"the vocabulary has no {UNKNOWN}, which GPT reads other characters as; give its own vocabulary"
        )
    try:
        model = models.BPE(
            vocab=dict(vocabulary), merges=list(merges), unk_token=UNKNOWN, end_of_word_suffix=END_OF_WORD
        )
    except Exception as error:  # the library raises bare Exception for every fault
        raise InputError(
            f"the merges do not fit the vocabulary ({error}); give the two files of one tokenizer"
        ) from None
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix=END_OF_WORD)
    tokenizer.add_special_tokens([UNKNOWN])
    return tokenizer


def marks_ends(vocabulary: Mapping[str, int]) -> bool:
    """Whether a vocabulary is of GPT's kind: some pieces are marked as ends of words, and it is not GPT-2's."""
    return GPT2_END not in vocabulary and any(piece.endswith(END_OF_WORD) for piece in vocabulary)


def is_gpt(layout: Mapping[str, object]) -> bool:
    """Whether the content of a tokenizer.json is GPT's: BPE with ends of words behind BERT's way to clean and split text."""
    parts = [layout.get(part) or {} for part in ("model", "normalizer", "pre_tokenizer")]
    types = [part.get("type") for part in parts if isinstance(part, Mapping)]
    model = parts[0]
    return (
        types == ["BPE", "BertNormalizer", "BertPreTokenizer"]
        and isinstance(model, Mapping)
        and model.get("end_of_word_suffix") == END_OF_WORD
    )
