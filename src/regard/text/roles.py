"""What a tokenizer file, whoever wrote it, says of itself: which tokens play which part, and which kind it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import tokenizers

from regard.errors import InputError
from regard.text.training import CHARACTER_PATTERN

Kind = Literal["bpe", "wordpiece", "unigram", "word", "character"]

# What each family calls its special tokens, most specific first. GPT's one token plays every part.
PADDING_TOKENS = ("<pad>", "[PAD]", "<|endoftext|>")
START_TOKENS = ("<s>", "[CLS]", "<bos>", "<|endoftext|>")
END_TOKENS = ("</s>", "[SEP]", "<eos>", "<|endoftext|>")
UNKNOWN_TOKENS = ("<unk>", "[UNK]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Roles:
    """How many ids a vocabulary has, and which of them stand for no text.

    Arguments:
        size: the number of ids, special ones included.
        padding_id: fills rows up; where one token plays every part (GPT-2), the same as `end_id`.
        start_id: what a target starts with; padding where there is no token for it (T5, Marian).
        end_id: ends a text.
        unknown_id: stands for what is not in the vocabulary; None where nothing is unknown (byte-level ones).
        special: all of these, and whatever else is marked special.
    """

    size: int
    padding_id: int
    start_id: int
    end_id: int
    unknown_id: int | None
    special: frozenset[int]

    @classmethod
    def of(cls, backend: tokenizers.Tokenizer) -> Roles:
        """The roles in a tokenizer, by the names that the families give them.

        Raises:
            InputError: there is no padding token, no end token, or nothing beside special tokens.
        """
        vocabulary = backend.get_vocab(with_added_tokens=True)
        padding = _first(PADDING_TOKENS, vocabulary)
        end = _first(END_TOKENS, vocabulary)
        if padding is None or end is None:
            role, names = ("padding", PADDING_TOKENS) if padding is None else ("end", END_TOKENS)
            raise InputError(
                f"the tokenizer has no {role} token; add one of {', '.join(names)} to its special tokens, "
                "or train one with Tokenizer.train"
            )
        start = _first(START_TOKENS, vocabulary)
        unknown = _first(UNKNOWN_TOKENS, vocabulary)
        start = padding if start is None else start
        roles = {padding, end, start} | ({unknown} if unknown is not None else set())
        added = {index for index, token in backend.get_added_tokens_decoder().items() if token.special}
        special = frozenset(roles | added)
        if special >= set(vocabulary.values()):
            raise InputError("the tokenizer has no vocabulary beside its special tokens; train it on some text")
        return cls(
            size=max(vocabulary.values()) + 1,
            padding_id=padding,
            start_id=start,
            end_id=end,
            unknown_id=unknown,
            special=special,
        )


def kind_of(layout: dict) -> str | None:
    """Which of the kinds a tokenizer file is; None where it is none of them."""
    model = layout["model"].get("type")
    if model == "WordLevel":
        splitter = layout.get("pre_tokenizer") or {}
        return "character" if splitter.get("pattern") == {"Regex": CHARACTER_PATTERN} else "word"
    kind = str(model).lower()
    return kind if kind in get_args(Kind) else None


def prepends(layout: dict) -> bool:
    """Whether a mark for a space is put before the text."""
    return "Prepend" in _types(layout.get("normalizer"))


def _first(names: Sequence[str], vocabulary: Mapping[str, int]) -> int | None:
    """The id of the first of `names` that the vocabulary has."""
    return next((vocabulary[name] for name in names if name in vocabulary), None)


def _types(part: dict | None) -> set[str]:
    """The names of the steps in one part of a tokenizer's layout."""
    if not part:
        return set()
    steps = part.get("normalizers") or [part]
    return {step.get("type", "") for step in steps}
