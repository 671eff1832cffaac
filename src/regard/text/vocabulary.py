"""The vocabulary of a tokenizer: its tokens, their roles, and its kind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
import tokenizers
from tokenizers import decoders, models

from regard.errors import InputError
from regard.text.bert import is_bert
from regard.text.bpe import check_ids, is_byte_level, is_gpt, is_spelling, spelling_word_table
from regard.text.events import events_in
from regard.text.training import CHARACTER_PATTERN, SENTINEL

CLEANED = ("bert", "gpt")
"""The kinds that normalise and split a text as BERT does."""

NO_NAMES: Mapping[str, str] = MappingProxyType({})
"""No roles of special tokens from a tokenizer_config.json."""


class Vocabulary:
    """Ids, their tokens and the roles of special tokens: the part of `Tokenizer` without encoding and decoding.

    Arguments:
        backend: it is copied, so later changes by the caller have no effect.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._adopt(backend.to_str())

    def _adopt(self, text: str, names: Mapping[str, str] = NO_NAMES) -> None:
        backend = tokenizers.Tokenizer.from_str(text)
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True  # not part of the file, so set here
        layout = json.loads(text)
        self._backend = backend
        self._roles = Roles.of(backend, names)
        # Kept only if the roles do not follow from the vocabulary; the tokenizer is then saved with them.
        self._names = dict(names) if names and _unnamed(backend) != self._roles else {}
        self._kind = kind_of(layout)
        self._prepends = prepends(layout)
        # An added token that is not special may contain spaces, and a text must not be split inside it.
        added = backend.get_added_tokens_decoder()
        whole = any(not token.special for token in added.values())
        self._cuts = self._kind in CLEANED and not whole
        self._takes_space = {index: (token.lstrip, token.rstrip) for index, token in added.items()}

    @property
    def names_start(self) -> bool:
        """Whether a tokenizer_config.json names the start token."""
        return self._names.get("start") == self.tokens([self._roles.start_id])[0]

    @property
    def size(self) -> int:
        """The number of ids, with special tokens: the number of rows of an embedding."""
        return self._roles.size

    @property
    def padding_id(self) -> int:
        """The id of padding; for tokenizers with a single special token (GPT-2) it is `end_id`."""
        return self._roles.padding_id

    @property
    def start_id(self) -> int:
        """The id that starts a target; padding if there is none (T5, Marian). For BERT it is `[CLS]`."""
        return self._roles.start_id

    @property
    def end_id(self) -> int:
        """The id that ends a text; for BERT it is `[SEP]`."""
        return self._roles.end_id

    @property
    def separator_id(self) -> int:
        """The id between two texts of one input; `end_id` if there is no other. BERT's `[SEP]` is both."""
        return self._roles.separator_id

    @property
    def separators(self) -> tuple[int, ...]:
        """The ids between two texts of one input: usually one token, for RoBERTa `</s></s>`."""
        return self._roles.separators

    @property
    def surrounds(self) -> bool:
        """Whether other programs add the start and end tokens to each text, by the tokenizer.json."""
        around = [self._roles.start_id, self._roles.end_id]
        return self._backend.encode("", add_special_tokens=True).ids == around

    @property
    def unknown_id(self) -> int | None:
        """The id of the unknown token; None for byte-level tokenizers, which have none."""
        return self._roles.unknown_id

    @property
    def mask_id(self) -> int | None:
        """The id of the mask token of a masked language model; None if there is none."""
        return self._roles.mask_id

    @property
    def sentinels(self) -> tuple[int, ...]:
        """The ids of T5's sentinels, `<extra_id_0>` first; each replaces a removed span. Empty if there are none."""
        return self._roles.sentinels

    @property
    def cuts(self) -> bool:
        """Whether a long text gives the same tokens in parts, as `regard.text.tokenizer` divides it."""
        return self._cuts

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of special tokens."""
        return self._roles.special

    @property
    def extra_tokens(self) -> tuple[str, ...]:
        """The special tokens without padding, start, end, unknown and mask, in the order of their ids."""
        roles = self._roles
        named = {
            roles.padding_id,
            roles.start_id,
            roles.end_id,
            roles.separator_id,
            roles.unknown_id,
            roles.mask_id,
        }
        return tuple(self.tokens(sorted(roles.special - named)))

    @property
    def adds_end(self) -> bool:
        """Whether other programs add the end token to each text, by the tokenizer.json."""
        with_it, without = (self._backend.encode("", add_special_tokens=adding).ids for adding in (True, False))
        return with_it == [*without, self._roles.end_id]

    @property
    def added_before(self) -> tuple[int, ...]:
        """The special tokens that other programs add before each text, by the tokenizer.json; usually none."""
        text = "a"
        with_them, without = (self._backend.encode(text, add_special_tokens=adding).ids for adding in (True, False))
        place = next((i for i in range(len(with_them)) if with_them[i : i + len(without)] == without), 0)
        return tuple(with_them[:place])

    @property
    def kind(self) -> str | None:
        """The kind, one of those of `train`, or `gpt`; None for a loaded tokenizer of another kind."""
        return self._kind

    @property
    def layout(self) -> dict[str, Any]:
        """The content of the tokenizer.json, as a new copy."""
        return json.loads(self._backend.to_str())

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens as strings, for display: "▁" is a space, "##" continues a word.

        Raises:
            InputError: an id is not in the vocabulary.
        """
        return [self._token(int(index)) for index in ids]

    def id_of(self, token: str) -> int:
        """The id of a special token, such as `<2de>`. Encoding a text never gives special tokens.

        Raises:
            InputError: the vocabulary has no such special token.
        """
        index = self._backend.token_to_id(token)
        if index is None or index not in self._roles.special:
            known = ", ".join(self.tokens(sorted(self._roles.special)))
            raise InputError(f"{token!r} is not a special token of this tokenizer; it has {known}")
        return index

    def find(self, token: str) -> int | None:
        """The id of a token, special or not, as it is in the vocabulary, such as `##able`; None if there is none."""
        return self._backend.token_to_id(token)

    def continues(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Whether each piece continues the word of the previous piece, for merging pieces and masking whole words.

        Special tokens and the first piece of a row continue nothing, and nothing continues a special token. In vocabularies
        without `##`, a piece of letters or digits continues a piece that ends with a letter or digit, unless there is a mark
        for a space between them.

        Arguments:
            ids: (L,), or any shape whose last axis is the text.

        Returns:
            bool, of the same shape.

        Raises:
            InputError: an id is not in the vocabulary.

        >>> from regard.text import Tokenizer
        >>> tokenizer = Tokenizer.from_vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##able"])
        >>> tokenizer.continues([2, 4, 5, 4, 3]).tolist()
        [False, False, True, False, False]
        """
        array = np.asarray(ids, dtype=np.int64)
        if array.size and not 0 <= array.min() <= array.max() < self._roles.size:
            self.tokens(array.ravel())
        going_on, open_ended = self._word_table
        found = going_on[array]
        if array.ndim:
            found[..., 1:] &= open_ended[array[..., :-1]]
            found[..., :1] = False
        return found

    def __len__(self) -> int:
        return self._roles.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self._roles == other._roles and self.layout == other.layout

    def __hash__(self) -> int:
        return hash((self._kind, self._roles.size))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kind={self._kind!r}, size={self._roles.size})"

    @cached_property
    def _word_table(self) -> tuple[np.ndarray, np.ndarray]:
        """Two (V,) bool arrays: whether a piece can continue a word, and whether it can be continued."""
        return spelling_word_table() if self._kind == "spelling" else word_table(self._backend, self._roles)

    def _token(self, index: int) -> str:
        token = self._backend.id_to_token(index) if index >= 0 else None
        if token is None:
            raise InputError(
                f"token id {index} is not in this tokenizer of {self._roles.size} tokens; "
                "are model and tokenizer from the same folder?"
            )
        return token


# Roles: the roles of special tokens in tokenizer files from any program, and the kinds of tokenizers.

Kind = Literal[
    "bpe",
    "byte_bpe",
    "roberta",
    "wordpiece",
    "bert",
    "unigram",
    "word",
    "character",
    "spelling",
    "performance",
    "grid",
]

# The names of special tokens in different families, most specific first. GPT's single special token has all roles.
PADDING_TOKENS = ("<pad>", "[PAD]", "<|endoftext|>")
START_TOKENS = ("<s>", "[CLS]", "<bos>", "<|endoftext|>")
END_TOKENS = ("</s>", "[SEP]", "<eos>", "<|endoftext|>")
UNKNOWN_TOKENS = ("<unk>", "[UNK]")
MASK_TOKENS = ("[MASK]", "<mask>")
INPUT_TOKENS = START, SEPARATOR, EXTRACT = ("_start_", "_delimiter_", "_classify_")
"""The special tokens around the inputs of a fine-tuned GPT, with the names of its authors."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Roles:
    """The number of ids of a vocabulary, and its special tokens.

    Arguments:
        size: the number of ids, with special tokens.
        padding_id: of padding; with a single special token (GPT-2) it is `end_id`.
        start_id: starts a target; padding if there is no such token (T5, Marian).
        end_id: ends a text.
        separator_id: is between two texts of one input; the end token if there is no such token.
        separators: all ids between two texts: the separator, once or repeated, by the tokenizer.json.
        unknown_id: of the unknown token; None for byte-level tokenizers.
        mask_id: of the mask token of a masked language model; None if there is none.
        sentinels: of T5, each replacing a removed span, in the order of their use; empty if there are none.
        special: all of these, and all others that are marked special.
    """

    size: int
    padding_id: int
    start_id: int
    end_id: int
    separator_id: int
    separators: tuple[int, ...]
    unknown_id: int | None
    mask_id: int | None
    sentinels: tuple[int, ...]
    special: frozenset[int]

    @classmethod
    def of(cls, backend: tokenizers.Tokenizer, names: Mapping[str, str] = NO_NAMES) -> Roles:
        """The roles in a tokenizer, by the names that the families give them.

        Arguments:
            backend: the tokenizer.
            names: the tokens named in the tokenizer_config.json next to it: `start`, `end`, `padding` and `mask`. If it names
                an end token and there is no padding token, padding is the end token.

        Raises:
            InputError: there is no padding token, no end token, no ordinary token, or an id that no model has.
        """
        vocabulary = backend.get_vocab(with_added_tokens=True)
        check_ids(vocabulary)
        added = {index for index, token in backend.get_added_tokens_decoder().items() if token.special}
        between = {token: vocabulary[token] for token in INPUT_TOKENS if vocabulary.get(token) in added}
        unknown = _first(UNKNOWN_TOKENS, vocabulary)
        # GPT's vocabulary has only this special token, which then has all roles.
        alone = unknown if getattr(backend.model, "end_of_word_suffix", None) else None
        named = {role: vocabulary[token] for role, token in names.items() if token in vocabulary}
        end = between.get(EXTRACT, named.get("end", _first(END_TOKENS, vocabulary, alone)))
        padding = named.get("padding", _first(PADDING_TOKENS, vocabulary, alone))
        padding = named.get("end") if padding is None else padding
        if padding is None or end is None:
            role, usual = ("padding", PADDING_TOKENS) if padding is None else ("end", END_TOKENS)
            raise InputError(
                f"the tokenizer has no {role} token; add one of {', '.join(usual)} to its special tokens, "
                "or train one with Tokenizer.train"
            )
        start = between.get(START, named.get("start", _first(START_TOKENS, vocabulary)))
        mask = named.get("mask", _first(MASK_TOKENS, vocabulary))
        start = padding if start is None else start
        separators = (between[SEPARATOR],) if SEPARATOR in between else _between_texts(backend, start, end)
        roles = {padding, end, start} | {each for each in (unknown, mask) if each is not None}
        special = frozenset(roles | added)
        if special >= set(vocabulary.values()):
            raise InputError("the tokenizer has no vocabulary besides its special tokens; train it on some text")
        return cls(
            size=max(vocabulary.values()) + 1,
            padding_id=padding,
            start_id=start,
            end_id=end,
            separator_id=separators[0],
            separators=separators,
            unknown_id=unknown,
            mask_id=mask,
            sentinels=_sentinels(vocabulary, special),
            special=special,
        )


def _between_texts(backend: tokenizers.Tokenizer, start: int, end: int) -> tuple[int, ...]:
    """The ids between two texts, if the tokenizer.json adds start and end tokens; else the end token."""
    ids = backend.encode("", "", add_special_tokens=True).ids
    between = tuple(ids[1:-1])
    around = len(ids) > 2 and (ids[0], ids[-1]) == (start, end)
    return between if around and set(between) == {end} else (end,)


def _unnamed(backend: tokenizers.Tokenizer) -> Roles | None:
    """The roles without a tokenizer_config.json; None if they cannot be determined."""
    try:
        return Roles.of(backend)
    except InputError:
        return None


def kind_of(layout: dict) -> str | None:
    """The kind of a tokenizer file; None for another kind."""
    model = layout["model"].get("type")
    if is_bert(layout):
        return "bert"
    if is_gpt(layout):
        return "gpt"
    if is_byte_level(layout):
        return "roberta" if (layout.get("post_processor") or {}).get("type") == "RobertaProcessing" else "byte_bpe"
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
    """Two (V,) bool arrays: whether a piece can continue a word, and whether a piece can be continued.

    Arguments:
        backend: the tokenizer; WordPiece uses its prefix `##`, other models the marks for spaces.
        roles: with the special tokens, which are not part of words.
    """
    prefix = getattr(backend.model, "continuing_subword_prefix", None)
    # The letters that represent white space in byte-level vocabularies.
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
    """Whether a mark for a space is added before the text."""
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
