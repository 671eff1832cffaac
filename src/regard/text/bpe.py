"""Byte pair encoding of GPT-2 and RoBERTa (bytes) and of GPT (letters), the two files of these, and ELMo's words as bytes.

GPT-2's is byte-level (Radford et al. 2019, section 2.2): pieces of UTF-8 bytes, so that no text is unknown. The 256 bytes are
written as 256 letters that can be seen; what is learned are merges of these. Text is cut beforehand where GPT-2 cuts it:
contractions, words and numbers with the space before them, marks of punctuation, runs of white space.

ELMo spells words (Peters et al. 2018): every word is the bytes of its letters, a mark before each word. Nothing is learned and
no word is unknown. Words are what is between white space: split punctuation off first, as in the texts that ELMo was trained
on.
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
"""GPT-2's one special token: it ends a text, is before the first of one, and fills up."""

BYTES = 256
"""Values of a byte."""


def byte_level_backend(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> tokenizers.Tokenizer:
    """GPT-2's tokenizer around a vocabulary and its merges.

    Raises:
        InputError: for a merge of what is not in the vocabulary, or a vocabulary without `<|endoftext|>`.
    """
    if END_OF_TEXT not in vocabulary:
        raise InputError(f"the vocabulary has no {END_OF_TEXT}, which ends GPT-2's texts; give its own vocabulary")
    tokenizer = _around(_model(vocabulary, merges))
    tokenizer.add_special_tokens([END_OF_TEXT])
    return tokenizer


ROBERTA_FIRST, ROBERTA_MASK = ("<s>", "<pad>", "</s>", "<unk>"), "<mask>"
"""RoBERTa's special tokens: those with the first ids, and the one with the last."""


def roberta_backend(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> tokenizers.Tokenizer:
    """RoBERTa's tokenizer around a vocabulary and its merges: GPT-2's, with `<s>` and `</s>` around a text.

    Raises:
        InputError: for a merge of what is not in the vocabulary, or a vocabulary without one of the five special tokens.

    >>> pieces = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "ab", "<mask>"]
    >>> roberta_backend({piece: index for index, piece in enumerate(pieces)}, [("a", "b")]).encode("ab", "b").tokens
    ['<s>', 'ab', '</s>', '</s>', 'b', '</s>']
    """
    missing = [token for token in (*ROBERTA_FIRST, ROBERTA_MASK) if token not in vocabulary]
    if missing:
        raise InputError(f"the vocabulary has no {missing[0]}, which RoBERTa's has; give its own vocabulary")
    return with_roberta_tokens(_around(_model(vocabulary, merges)))


def with_roberta_tokens(tokenizer: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The same tokenizer with RoBERTa's special tokens, `<mask>` taking the space before it, and with `<s>` and `</s>` around."""
    tokenizer.add_special_tokens([*ROBERTA_FIRST, tokenizers.AddedToken(ROBERTA_MASK, lstrip=True, special=True)])
    ids = tokenizer.get_vocab(with_added_tokens=True)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=True, add_prefix_space=False
    )
    return tokenizer


def is_roberta(vocabulary: Mapping[str, int]) -> bool:
    """Whether a vocabulary is of RoBERTa's kind; it may have `<|endoftext|>` too, as a piece that no text has."""
    return {*ROBERTA_FIRST, ROBERTA_MASK} <= vocabulary.keys()


def train_byte_level(texts: Iterator[str], size: int, first: Sequence[str] = ()) -> tokenizers.Tokenizer:
    """A tokenizer of at most `size` pieces, the 256 bytes among them and no special token but those that come `first`."""
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
"""Ids of a vocabulary at most. Real ones have up to a million; for a larger id a library makes room for all below it."""


def check_ids(vocabulary: Mapping[str, int]) -> None:
    """Refuse a vocabulary with an id that no model has a row for.

    Raises:
        InputError: naming the piece and its id.
    """
    for piece, index in vocabulary.items():
        if not 0 <= index < MOST_IDS:
            raise InputError(
                f"the piece {piece[:40]!r} has the id {index}, and ids are from 0 to {MOST_IDS - 1:,}; copy the file again"
            )


def _model(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]], **settings: Any) -> models.BPE:
    check_ids(vocabulary)
    try:
        return models.BPE(vocab=dict(vocabulary), merges=list(merges), **settings)
    except Exception as error:  # the library raises bare Exception for every fault
        raise InputError(
            f"the merges do not fit the vocabulary ({error}); give the two files of one tokenizer"
        ) from None


def _around(model: models.BPE) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


# GPT's tokenizer (Radford et al. 2018, section 4.1): letters in lower case, pieces at the end of a word marked `</w>`.
#
# Text is cut into words as BERT's is: at white space and around every mark of punctuation and Chinese character, control
# characters and accents taken out. The authors cut it by another program's rules (spaCy's, after ftfy's repairs); this way is
# that of other libraries where these are not installed.

GPT_UNKNOWN = "<unk>"
"""GPT's one special token: there is none for ends of texts, nor for padding."""

END_OF_WORD = "</w>"


def gpt_backend(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> tokenizers.Tokenizer:
    """GPT's tokenizer around a vocabulary and its merges.

    Raises:
        InputError: for a merge of what is not in the vocabulary, or a vocabulary without `<unk>`.

    >>> pieces = {"<unk>": 0, "a": 1, "b</w>": 2, "ab</w>": 3, "a</w>": 4, ".</w>": 5}
    >>> gpt_backend(pieces, [("a", "b</w>")]).encode("AB a.").tokens
    ['ab</w>', 'a</w>', '.</w>']
    """
    if GPT_UNKNOWN not in vocabulary:
        raise InputError(
            f"the vocabulary has no {GPT_UNKNOWN}, which GPT reads other characters as; give its own vocabulary"
        )
    tokenizer = tokenizers.Tokenizer(_model(vocabulary, merges, unk_token=GPT_UNKNOWN, end_of_word_suffix=END_OF_WORD))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix=END_OF_WORD)
    tokenizer.add_special_tokens([GPT_UNKNOWN])
    return tokenizer


def marks_ends(vocabulary: Mapping[str, int]) -> bool:
    """Whether a vocabulary is of GPT's kind: some pieces are marked as ends of words, and it is not GPT-2's."""
    return END_OF_TEXT not in vocabulary and any(piece.endswith(END_OF_WORD) for piece in vocabulary)


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


# The two files of either tokenizer: pieces with their ids, and the merges that make them.

MERGE_FILES = (
    ("vocab.json", "merges.txt"),
    ("encoder.json", "vocab.bpe"),
    ("encoder_bpe_40000.json", "vocab_40000.bpe"),
)
"""The pieces and the merges, as other libraries call them, and as the authors of GPT-2 and of GPT did."""

MERGE_NAMES = frozenset(name for pair in MERGE_FILES for name in pair)


def merge_files_in(folder: Path) -> tuple[Path, Path] | None:
    """The two files where a folder has them."""
    for names in MERGE_FILES:
        vocabulary, merges = (folder / name for name in names)
        if vocabulary.is_file() and merges.is_file():
            return vocabulary, merges
    return None


def read_merge_files(vocabulary: Path, merges: Path) -> tokenizers.Tokenizer:
    """The tokenizer of two files: GPT's where pieces mark the ends of words, RoBERTa's by its special tokens, else GPT-2's.

    Raises:
        InputError: for one that is missing, damaged, or of another tokenizer, naming the line of a merge.
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
            raise InputError(f"{path}, line {number}: is no merge of two pieces ({line[:40]!r}); copy the file again")
        found.append((left, right))
    return found


START, END, PADDING = "<s>", "</s>", "<pad>"
"""The special tokens of `spelling_backend`; their ids are the first three after the bytes."""

SPELLING_SIZE = BYTES + 3
"""Of the vocabulary of `spelling_backend`."""

MARK = 0x20
"""The byte that no word has in it: a space, which is before each."""


def byte_letters() -> list[str]:
    """The letter by which each byte is written where it is to be seen, as byte-level vocabularies do it.

    >>> byte_letters()[0x20], byte_letters()[0x41]
    ('Ġ', 'A')
    """
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, BYTES)]
    others = [byte for byte in range(BYTES) if byte not in plain]
    return [chr(byte) if byte in plain else chr(BYTES + others.index(byte)) for byte in range(BYTES)]


def spelling_backend(*, lowercase: bool = False) -> tokenizers.Tokenizer:
    """ELMo's tokenizer of words as they are spelt: the id of a byte is the byte itself.

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
    """Whether the content of a tokenizer.json is this tokenizer."""
    model, splitter = layout.get("model"), layout.get("pre_tokenizer")
    if not isinstance(model, dict) or not isinstance(splitter, dict):
        return False
    steps = [step.get("type") for step in splitter.get("pretokenizers", ())]
    return model.get("type") == "BPE" and not model.get("merges") and steps == ["WhitespaceSplit", "ByteLevel"]


def spelling_word_table() -> tuple[np.ndarray, np.ndarray]:
    """(V,) bool twice: whether a byte continues a word, as all but the mark do, and whether bytes can follow it."""
    going_on, open_ended = np.zeros(SPELLING_SIZE, dtype=bool), np.zeros(SPELLING_SIZE, dtype=bool)
    going_on[:BYTES] = open_ended[:BYTES] = True
    going_on[MARK] = False
    return going_on, open_ended
