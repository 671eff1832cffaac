"""What a tokenizer file, whoever wrote it, says of itself: which tokens play which part, and which kind it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import tokenizers
from tokenizers import decoders, models

from regard.errors import InputError
from regard.text.bert import is_bert
from regard.text.byte_level import is_byte_level
from regard.text.events import events_in
from regard.text.gpt import is_gpt
from regard.text.spelling import is_spelling
from regard.text.training import CHARACTER_PATTERN, SENTINEL

Kind = Literal[
    "bpe", "byte_bpe", "wordpiece", "bert", "unigram", "word", "character", "spelling", "performance", "grid"
]

# What each family calls its special tokens, most specific first. GPT's one token plays every part.
PADDING_TOKENS = ("<pad>", "[PAD]", "<|endoftext|>")
START_TOKENS = ("<s>", "[CLS]", "<bos>", "<|endoftext|>")
END_TOKENS = ("</s>", "[SEP]", "<eos>", "<|endoftext|>")
UNKNOWN_TOKENS = ("<unk>", "[UNK]")
MASK_TOKENS = ("[MASK]", "<mask>")
INPUT_TOKENS = START, SEPARATOR, EXTRACT = ("_start_", "_delimiter_", "_classify_")
"""What a decoder that is fine-tuned reads its inputs between, as GPT's authors called the three: they go before all else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Roles:
    """How many ids a vocabulary has, and which of them stand for no text.

    Arguments:
        size: the number of ids, special ones included.
        padding_id: fills rows up; where one token plays every part (GPT-2), the same as `end_id`.
        start_id: what a target starts with; padding where there is no token for it (T5, Marian).
        end_id: ends a text.
        separator_id: stands between two texts that are read together; the end where there is no token for it.
        unknown_id: stands for what is not in the vocabulary; None where nothing is unknown (byte-level ones).
        mask_id: stands for what a masked language model is to tell; None where there is none.
        sentinels: T5's, each standing for a span that was taken out, in the order of their use; empty where there are none.
        special: all of these, and whatever else is marked special.
    """

    size: int
    padding_id: int
    start_id: int
    end_id: int
    separator_id: int
    unknown_id: int | None
    mask_id: int | None
    sentinels: tuple[int, ...]
    special: frozenset[int]

    @classmethod
    def of(cls, backend: tokenizers.Tokenizer) -> Roles:
        """The roles in a tokenizer, by the names that the families give them.

        Raises:
            InputError: there is no padding token, no end token, or nothing beside special tokens.
        """
        vocabulary = backend.get_vocab(with_added_tokens=True)
        added = {index for index, token in backend.get_added_tokens_decoder().items() if token.special}
        between = {token: vocabulary[token] for token in INPUT_TOKENS if vocabulary.get(token) in added}
        unknown = _first(UNKNOWN_TOKENS, vocabulary)
        # GPT's vocabulary has no special token but this one, which then plays every part.
        alone = unknown if getattr(backend.model, "end_of_word_suffix", None) else None
        padding = _first(PADDING_TOKENS, vocabulary, alone)
        end = between.get(EXTRACT, _first(END_TOKENS, vocabulary, alone))
        if padding is None or end is None:
            role, names = ("padding", PADDING_TOKENS) if padding is None else ("end", END_TOKENS)
            raise InputError(
                f"the tokenizer has no {role} token; add one of {', '.join(names)} to its special tokens, "
                "or train one with Tokenizer.train"
            )
        start = between.get(START, _first(START_TOKENS, vocabulary))
        mask = _first(MASK_TOKENS, vocabulary)
        start = padding if start is None else start
        roles = {padding, end, start} | {each for each in (unknown, mask) if each is not None}
        special = frozenset(roles | added)
        if special >= set(vocabulary.values()):
            raise InputError("the tokenizer has no vocabulary beside its special tokens; train it on some text")
        return cls(
            size=max(vocabulary.values()) + 1,
            padding_id=padding,
            start_id=start,
            end_id=end,
            separator_id=between.get(SEPARATOR, end),
            unknown_id=unknown,
            mask_id=mask,
            sentinels=_sentinels(vocabulary, special),
            special=special,
        )


def kind_of(layout: dict) -> str | None:
    """Which of the kinds a tokenizer file is; None where it is none of them."""
    model = layout["model"].get("type")
    if is_bert(layout):
        return "bert"
    if is_gpt(layout):
        return "gpt"
    if is_byte_level(layout):
        return "byte_bpe"
    if is_spelling(layout):
        return "spelling"
    if model == "WordLevel" and (music := events_in(layout)) is not None:
        return music
    if model == "WordLevel":
        splitter = layout.get("pre_tokenizer") or {}
        return "character" if splitter.get("pattern") == {"Regex": CHARACTER_PATTERN} else "word"
    kind = str(model).lower()
    return kind if kind in get_args(Kind) else None


def word_table(backend: tokenizers.Tokenizer, roles: Roles) -> tuple[np.ndarray, np.ndarray]:
    """(V,) bool twice: whether a piece can go on with the word of a piece before it, and whether a piece can go on with its.

    Arguments:
        backend: where the pieces are; with the prefix of WordPiece's model all is said by it, otherwise by the marks for spaces.
        roles: whose special tokens are no part of a word.
    """
    prefix = getattr(backend.model, "continuing_subword_prefix", None)
    # Letters by which byte-level vocabularies write a space and its kind.
    spaces = "ĠĊĉč" if isinstance(backend.decoder, decoders.ByteLevel) else ""
    going_on, open_ended = np.zeros(roles.size, dtype=bool), np.zeros(roles.size, dtype=bool)
    for piece, index in backend.get_vocab(with_added_tokens=True).items():
        if index in roles.special:
            continue
        if prefix and isinstance(backend.model, models.WordPiece):
            going_on[index], open_ended[index] = len(piece) > len(prefix) and piece.startswith(prefix), True
        else:
            going_on[index] = _wordlike(piece[:1], spaces)
            open_ended[index] = _wordlike(piece[-1:], spaces) or piece[-1:] in ("▁", spaces[:1])
    return going_on, open_ended


def _wordlike(character: str, spaces: str) -> bool:
    return character.isalnum() and character not in spaces


def prepends(layout: dict) -> bool:
    """Whether a mark for a space is put before the text."""
    return "Prepend" in _types(layout.get("normalizer"))


def _first(names: Sequence[str], vocabulary: Mapping[str, int], otherwise: int | None = None) -> int | None:
    """The id of the first of `names` that the vocabulary has."""
    return next((vocabulary[name] for name in names if name in vocabulary), otherwise)


def _sentinels(vocabulary: Mapping[str, int], special: frozenset[int]) -> tuple[int, ...]:
    """The ids of `<extra_id_0>`, `<extra_id_1>` and so on, as far as they are special tokens."""
    found: list[int] = []
    while (index := vocabulary.get(SENTINEL.format(len(found)))) is not None and index in special:
        found.append(index)
    return tuple(found)


def _types(part: dict | None) -> set[str]:
    """The names of the steps in one part of a tokenizer's layout."""
    if not part:
        return set()
    steps = part.get("normalizers") or [part]
    return {step.get("type", "") for step in steps}
