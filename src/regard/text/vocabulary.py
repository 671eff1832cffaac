"""What a tokenizer knows of its ids without reading any text: tokens, their roles, which kind it is."""

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
"""The kinds that clean and split a text as BERT does."""

NO_NAMES: Mapping[str, str] = MappingProxyType({})
"""Of no special token does a tokenizer_config.json say which part it plays."""


class Vocabulary:
    """Ids and their tokens, and which of them play which part: what `Tokenizer` is besides reading and writing text.

    Arguments:
        backend: is copied, so what the caller does to it later does not reach this one.
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
        # Kept where the vocabulary does not say it by itself: the tokenizer is then saved with them.
        self._names = dict(names) if names and _unnamed(backend) != self._roles else {}
        self._kind = kind_of(layout)
        self._prepends = prepends(layout)
        # An added token that is no special one may have spaces in it, and must be met whole.
        added = backend.get_added_tokens_decoder()
        whole = any(not token.special for token in added.values())
        self._cuts = self._kind in CLEANED and not whole
        self._takes_space = {index: (token.lstrip, token.rstrip) for index, token in added.items()}

    @property
    def names_start(self) -> bool:
        """Whether a tokenizer_config.json named the token that starts a text."""
        return self._names.get("start") == self.tokens([self._roles.start_id])[0]

    @property
    def size(self) -> int:
        """The number of ids, special ones included: the rows an embedding needs."""
        return self._roles.size

    @property
    def padding_id(self) -> int:
        """The id that fills rows up; where one token plays every part (GPT-2), the same as `end_id`."""
        return self._roles.padding_id

    @property
    def start_id(self) -> int:
        """The id a target starts with; a tokenizer without one (T5, Marian) starts with padding. BERT's is `[CLS]`."""
        return self._roles.start_id

    @property
    def end_id(self) -> int:
        """The id that ends a text; BERT's is `[SEP]`."""
        return self._roles.end_id

    @property
    def separator_id(self) -> int:
        """The id between two texts that are read together; `end_id` where there is no other, as BERT's `[SEP]` is both."""
        return self._roles.separator_id

    @property
    def separators(self) -> tuple[int, ...]:
        """The ids between two texts that are read together: one token for most, `</s></s>` for RoBERTa."""
        return self._roles.separators

    @property
    def surrounds(self) -> bool:
        """Whether other programs put the start before each text and the end behind it, as the tokenizer.json says."""
        around = [self._roles.start_id, self._roles.end_id]
        return self._backend.encode("", add_special_tokens=True).ids == around

    @property
    def unknown_id(self) -> int | None:
        """The id of what is not in the vocabulary; None where nothing is unknown (byte-level ones)."""
        return self._roles.unknown_id

    @property
    def mask_id(self) -> int | None:
        """The id that stands for what a masked language model is to tell; None where there is none."""
        return self._roles.mask_id

    @property
    def sentinels(self) -> tuple[int, ...]:
        """The ids of T5's sentinels, `<extra_id_0>` first; each stands for a span taken out. Empty where there are none."""
        return self._roles.sentinels

    @property
    def cuts(self) -> bool:
        """Whether a long text gives the same tokens when it is read in parts, as `regard.text.tokenizer` cuts it."""
        return self._cuts

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids that stand for no text."""
        return self._roles.special

    @property
    def extra_tokens(self) -> tuple[str, ...]:
        """The special tokens besides padding, start, end, unknown and mask, in the order of their ids."""
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
        """Whether the end token follows each text where another program opens the tokenizer.json."""
        with_it, without = (self._backend.encode("", add_special_tokens=adding).ids for adding in (True, False))
        return with_it == [*without, self._roles.end_id]

    @property
    def added_before(self) -> tuple[int, ...]:
        """Special tokens that another program puts before each text, as the tokenizer.json says; most have none."""
        text = "a"
        with_them, without = (self._backend.encode(text, add_special_tokens=adding).ids for adding in (True, False))
        place = next((i for i in range(len(with_them)) if with_them[i : i + len(without)] == without), 0)
        return tuple(with_them[:place])

    @property
    def kind(self) -> str | None:
        """Which of the kinds of `train` this is, or `gpt`; None where a loaded one is none of them."""
        return self._kind

    @property
    def layout(self) -> dict[str, Any]:
        """The content of the tokenizer.json, to be looked into; a fresh copy each time."""
        return json.loads(self._backend.to_str())

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens as strings, for display: "▁" is a space, "##" continues a word.

        Raises:
            InputError: an id is not in the vocabulary.
        """
        return [self._token(int(index)) for index in ids]

    def id_of(self, token: str) -> int:
        """The id of a special token, such as `<2de>`: the only way to one, since encoding a text gives none.

        Raises:
            InputError: the vocabulary has no such special token.
        """
        index = self._backend.token_to_id(token)
        if index is None or index not in self._roles.special:
            known = ", ".join(self.tokens(sorted(self._roles.special)))
            raise InputError(f"{token!r} is no special token of this tokenizer; it has {known}")
        return index

    def find(self, token: str) -> int | None:
        """The id of a token, special or not, spelt as the vocabulary spells it, such as `##able`; None where it has no such."""
        return self._backend.token_to_id(token)

    def continues(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Whether each piece continues the word of the piece before it: for merging pieces, and masking whole words.

        A special token continues nothing, and nothing continues it; nor does the first piece of a row continue one. Where pieces
        bear no `##`, a piece of letters or digits continues one that ends in a letter or digit, unless a mark for a space
        is between them.

        Arguments:
            ids: (L,), or any shape of which the last axis is the text.

        Returns:
            Of the same shape, bool.

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
        """(V,) twice: whether a piece can continue a word, and whether a piece can continue its."""
        return spelling_word_table() if self._kind == "spelling" else word_table(self._backend, self._roles)

    def _token(self, index: int) -> str:
        token = self._backend.id_to_token(index) if index >= 0 else None
        if token is None:
            raise InputError(
                f"token id {index} is not in this tokenizer of {self._roles.size} tokens; "
                "are model and tokenizer from the same folder?"
            )
        return token


# Roles: which tokens of a tokenizer file, whoever wrote it, play which part, and which kind it is.

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
        separator_id: is between two texts that are read together; the end where there is no token for it.
        separators: all that is between two texts: the separator, once or as often as the tokenizer.json says.
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
            names: the tokens that the tokenizer_config.json next to it names: `start`, `end`, `padding` and `mask`. Where it
                names an end and there is no padding token, the end fills rows up.

        Raises:
            InputError: there is no padding token, no end token, nothing besides special tokens, or an id that no model has.
        """
        vocabulary = backend.get_vocab(with_added_tokens=True)
        check_ids(vocabulary)
        added = {index for index, token in backend.get_added_tokens_decoder().items() if token.special}
        between = {token: vocabulary[token] for token in INPUT_TOKENS if vocabulary.get(token) in added}
        unknown = _first(UNKNOWN_TOKENS, vocabulary)
        # GPT's vocabulary has no special token but this one, which then plays every part.
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
    """What is between two texts where the tokenizer.json puts a start and an end around them; else the end."""
    ids = backend.encode("", "", add_special_tokens=True).ids
    between = tuple(ids[1:-1])
    around = len(ids) > 2 and (ids[0], ids[-1]) == (start, end)
    return between if around and set(between) == {end} else (end,)


def _unnamed(backend: tokenizers.Tokenizer) -> Roles | None:
    """The roles without a tokenizer_config.json; None where they cannot be told."""
    try:
        return Roles.of(backend)
    except InputError:
        return None


def kind_of(layout: dict) -> str | None:
    """Which of the kinds a tokenizer file is; None where it is none of them."""
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
    """(V,) bool twice: whether a piece can continue the word of a piece before it, and whether a piece can continue its.

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
