"""Byte pair encoding of GPT-2 and RoBERTa (bytes) and of GPT (letters), their two-file format, and ELMo's words as bytes.

GPT-2's tokenizer is byte-level (Radford et al. 2019, section 2.2): its pieces are sequences of UTF-8 bytes, so no text is
unknown. The 256 bytes are written as 256 printable letters, and merges of these are learned. Text is pre-tokenized as in GPT-2:
contractions, words and numbers with the space before them, punctuation marks, runs of white space.

ELMo's tokenizer (Peters et al. 2018) represents each word by its UTF-8 bytes, with a space before each word. Nothing is learned
and no word is unknown. Words are separated by white space, so punctuation should be split off first, as in ELMo's training
texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.errors import InputError
from regard.reading import read_json, read_text
from regard.text.sampling import learn

END_OF_TEXT = "<|endoftext|>"
"""GPT-2's only special token: it starts and ends a text, and fills padding."""

BYTES = 256
"""The number of byte values."""


def byte_level_backend(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> tokenizers.Tokenizer:
    """GPT-2's tokenizer with a vocabulary and its merges.

    Raises:
        InputError: for a merge of pieces that are not in the vocabulary, or a vocabulary without `<|endoftext|>`.
    """
    if END_OF_TEXT not in vocabulary:
        raise InputError(f"the vocabulary has no {END_OF_TEXT}, GPT-2's end token; give GPT-2's own vocabulary")
    tokenizer = _around(_model(vocabulary, merges))
    tokenizer.add_special_tokens([END_OF_TEXT])
    return tokenizer


ROBERTA_FIRST, ROBERTA_MASK = ("<s>", "<pad>", "</s>", "<unk>"), "<mask>"
"""RoBERTa's special tokens: four with the first ids, and one with the last id."""


def roberta_backend(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> tokenizers.Tokenizer:
    """RoBERTa's tokenizer with a vocabulary and its merges: GPT-2's, with `<s>` and `</s>` around a text.

    Raises:
        InputError: for a merge of pieces that are not in the vocabulary, or a vocabulary that lacks one of the five special
            tokens.

    >>> pieces = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "ab", "<mask>"]
    >>> roberta_backend({piece: index for index, piece in enumerate(pieces)}, [("a", "b")]).encode("ab", "b").tokens
    ['<s>', 'ab', '</s>', '</s>', 'b', '</s>']
    """
    missing = [token for token in (*ROBERTA_FIRST, ROBERTA_MASK) if token not in vocabulary]
    if missing:
        raise InputError(f"the vocabulary has no {missing[0]}, which RoBERTa needs; give RoBERTa's own vocabulary")
    return with_roberta_tokens(_around(_model(vocabulary, merges)))


def with_roberta_tokens(tokenizer: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Add RoBERTa's special tokens, where `<mask>` includes the space before it, and `<s>` and `</s>` around texts."""
    tokenizer.add_special_tokens([*ROBERTA_FIRST, tokenizers.AddedToken(ROBERTA_MASK, lstrip=True, special=True)])
    ids = tokenizer.get_vocab(with_added_tokens=True)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=True, add_prefix_space=False
    )
    return tokenizer


def is_roberta(vocabulary: Mapping[str, int]) -> bool:
    """Whether a vocabulary is RoBERTa's; it may have `<|endoftext|>` too, which is not used."""
    return {*ROBERTA_FIRST, ROBERTA_MASK} <= vocabulary.keys()


def train_byte_level(texts: Iterator[str], size: int, first: Sequence[str] = ()) -> tokenizers.Tokenizer:
    """Train a byte-level tokenizer with at most `size` pieces: the special tokens `first`, the 256 bytes, and learned pieces."""
    tokenizer = _around(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=list(first),
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


MOST_IDS = 2**24
"""The most ids of a vocabulary. Real ones have up to a million; the library allocates memory for all ids up to the largest."""


def check_ids(vocabulary: Mapping[str, int]) -> None:
    """Check that all ids of a vocabulary are in [0, MOST_IDS).

    Raises:
        InputError: for the first piece with another id.
    """
    for piece, index in vocabulary.items():
        if not 0 <= index < MOST_IDS:
            raise InputError(
                f"the piece {piece[:40]!r} has the id {index}; ids must be from 0 to {MOST_IDS - 1:,}; copy the file again"
            )


def _model(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]], **settings: Any) -> models.BPE:
    check_ids(vocabulary)
    try:
        return models.BPE(vocab=dict(vocabulary), merges=list(merges), **settings)
    except Exception as error:  # the library raises a bare Exception for any fault
        raise InputError(
            f"the merges do not fit the vocabulary ({error}); give the two files of one tokenizer"
        ) from None


def _around(model: models.BPE) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


# GPT's tokenizer (Radford et al. 2018, section 4.1): lower case, and pieces at the end of a word marked with `</w>`.
#
# Text is split into words as in BERT: at white space and around every punctuation mark and Chinese character, with control
# characters and accents removed. The authors used spaCy's rules after repairs by ftfy; other libraries also use BERT's rules
# if these packages are not installed.

GPT_UNKNOWN = "<unk>"
"""GPT's only special token; there is none for the end of a text or for padding."""

END_OF_WORD = "</w>"


def gpt_backend(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> tokenizers.Tokenizer:
    """GPT's tokenizer with a vocabulary and its merges.

    Raises:
        InputError: for a merge of pieces that are not in the vocabulary, or a vocabulary without `<unk>`.

    >>> pieces = {"<unk>": 0, "a": 1, "b</w>": 2, "ab</w>": 3, "a</w>": 4, ".</w>": 5}
    >>> gpt_backend(pieces, [("a", "b</w>")]).encode("AB a.").tokens
    ['ab</w>', 'a</w>', '.</w>']
    """
    if GPT_UNKNOWN not in vocabulary:
        raise InputError(
            f"the vocabulary has no {GPT_UNKNOWN}, GPT's token for unknown characters; give GPT's own vocabulary"
        )
    tokenizer = tokenizers.Tokenizer(_model(vocabulary, merges, unk_token=GPT_UNKNOWN, end_of_word_suffix=END_OF_WORD))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix=END_OF_WORD)
    tokenizer.add_special_tokens([GPT_UNKNOWN])
    return tokenizer


def marks_ends(vocabulary: Mapping[str, int]) -> bool:
    """Whether a vocabulary is GPT's: some pieces are marked as ends of words, and it is not GPT-2's."""
    return END_OF_TEXT not in vocabulary and any(piece.endswith(END_OF_WORD) for piece in vocabulary)


def is_gpt(layout: Mapping[str, object]) -> bool:
    """Whether the content of a tokenizer.json is GPT's: BPE with marked ends of words, after BERT's normaliser and splitter."""
    parts = [layout.get(part) or {} for part in ("model", "normalizer", "pre_tokenizer")]
    types = [part.get("type") for part in parts if isinstance(part, Mapping)]
    model = parts[0]
    return (
        types == ["BPE", "BertNormalizer", "BertPreTokenizer"]
        and isinstance(model, Mapping)
        and model.get("end_of_word_suffix") == END_OF_WORD
    )


# The two-file format of these tokenizers: pieces with their ids, and merges.

MERGE_FILES = (
    ("vocab.json", "merges.txt"),
    ("encoder.json", "vocab.bpe"),
    ("encoder_bpe_40000.json", "vocab_40000.bpe"),
)
"""The names of the files of pieces and of merges: in other libraries, and by the authors of GPT-2 and of GPT."""

MERGE_NAMES = frozenset(name for pair in MERGE_FILES for name in pair)


def merge_files_in(folder: Path) -> tuple[Path, Path] | None:
    """The two files in a folder; None if it does not have both."""
    for names in MERGE_FILES:
        vocabulary, merges = (folder / name for name in names)
        if vocabulary.is_file() and merges.is_file():
            return vocabulary, merges
    return None


def read_merge_files(vocabulary: Path, merges: Path) -> tokenizers.Tokenizer:
    """The tokenizer in two files: RoBERTa's if it has its special tokens, GPT's if pieces mark ends of words, else GPT-2's.

    Raises:
        InputError: if a file is missing, damaged, or of another tokenizer; the message has the line of an invalid merge.
    """
    ids = read_json(vocabulary, "copy the file again")
    if not isinstance(ids, dict) or not all(type(index) is int for index in ids.values()):
        raise InputError(f"{vocabulary}: does not map pieces to ids; give GPT-2's {vocabulary.name}")
    if len(set(ids.values())) < len(ids):
        twice = next(index for index, count in Counter(ids.values()).items() if count > 1)
        raise InputError(f"{vocabulary}: several pieces have the id {twice}; copy the file again")
    backend_of = roberta_backend if is_roberta(ids) else gpt_backend if marks_ends(ids) else byte_level_backend
    try:
        return backend_of(ids, _merges(merges))
    except InputError as error:
        raise InputError(f"{error}" if str(error).startswith(str(merges)) else f"{vocabulary}: {error}") from None


def _merges(path: Path) -> list[tuple[str, str]]:
    lines = read_text(path, f"give GPT-2's {path.name}").split("\n")
    found: list[tuple[str, str]] = []
    for number, line in enumerate(lines, start=1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, space, right = line.rstrip("\r").partition(" ")
        if not (left and space and right) or " " in right:
            raise InputError(
                f"{path}, line {number}: is not a merge of two pieces ({line[:40]!r}); copy the file again"
            )
        found.append((left, right))
    return found


START, END, PADDING = "<s>", "</s>", "<pad>"
"""The special tokens of `spelling_backend`; their ids are the first three after the bytes."""

SPELLING_SIZE = BYTES + 3
"""The size of the vocabulary of `spelling_backend`."""

MARK = 0x20
"""The byte before each word, a space, which does not occur inside words."""


def byte_letters() -> list[str]:
    """The printable letter that represents each byte in byte-level vocabularies.

    >>> byte_letters()[0x20], byte_letters()[0x41]
    ('Ġ', 'A')
    """
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, BYTES)]
    others = [byte for byte in range(BYTES) if byte not in plain]
    return [chr(byte) if byte in plain else chr(BYTES + others.index(byte)) for byte in range(BYTES)]


def spelling_backend(*, lowercase: bool = False) -> tokenizers.Tokenizer:
    """ELMo's tokenizer, which represents words by their bytes; the id of a byte is its value.

    >>> spelling_backend().encode("Öl 7").ids
    [32, 195, 150, 108, 32, 55]
    """
    tokenizer = tokenizers.Tokenizer(
        models.BPE(vocab={letter: byte for byte, letter in enumerate(byte_letters())}, merges=[])
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
    """Whether the content of a tokenizer.json is that of `spelling_backend`."""
    model, splitter = layout.get("model"), layout.get("pre_tokenizer")
    if not isinstance(model, dict) or not isinstance(splitter, dict):
        return False
    steps = [step.get("type") for step in splitter.get("pretokenizers", ())]
    return model.get("type") == "BPE" and not model.get("merges") and steps == ["WhitespaceSplit", "ByteLevel"]


def spelling_word_table() -> tuple[np.ndarray, np.ndarray]:
    """Two (V,) bool arrays: whether a byte continues a word (all except the mark do), and whether it can be continued."""
    going_on, open_ended = np.zeros(SPELLING_SIZE, dtype=bool), np.zeros(SPELLING_SIZE, dtype=bool)
    going_on[:BYTES] = open_ended[:BYTES] = True
    going_on[MARK] = False
    return going_on, open_ended
