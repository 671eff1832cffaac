"""What a tokenizer knows of its ids, without reading any text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import tokenizers

from regard.errors import InputError
from regard.text import spelling
from regard.text.roles import Roles, kind_of, prepends, word_table

CLEANED = ("bert", "gpt")
"""The kinds that clean and split a text as BERT does."""


class Vocabulary:
    """Ids and their tokens, and which of them play which part: what `Tokenizer` is beside reading and writing text.

    Arguments:
        backend: is copied, so what the caller does to it later does not reach this one.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._adopt(backend.to_str())

    def _adopt(self, text: str) -> None:
        backend = tokenizers.Tokenizer.from_str(text)
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True  # not part of the file, so set here
        layout = json.loads(text)
        self._backend = backend
        self._roles = Roles.of(backend)
        self._kind = kind_of(layout)
        self._prepends = prepends(layout)
        # An added token that is no special one may have spaces in it, and must be met whole.
        whole = any(not token.special for token in backend.get_added_tokens_decoder().values())
        self._cuts = self._kind in CLEANED and not whole

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
        """Whether a long text gives the same tokens when it is read in parts, as `regard.text.parts` cuts it."""
        return self._cuts

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids that stand for no text."""
        return self._roles.special

    @property
    def extra_tokens(self) -> tuple[str, ...]:
        """The special tokens beside padding, start, end, unknown and mask, in the order of their ids."""
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
        """Whether each piece goes on with the word of the piece before it: for merging pieces, and masking whole words.

        A special token continues nothing, and nothing continues it; nor does the first piece of a row continue one. Where pieces
        bear no `##`, a piece of letters or digits goes on with one that ends in a letter or digit, unless a mark for a space
        stands between them.

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
        return self.layout == other.layout

    def __hash__(self) -> int:
        return hash((self._kind, self._roles.size))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kind={self._kind!r}, size={self._roles.size})"

    @cached_property
    def _word_table(self) -> tuple[np.ndarray, np.ndarray]:
        """(V,) twice: whether a piece can go on with a word, and whether a piece can go on with its."""
        return spelling.word_table() if self._kind == "spelling" else word_table(self._backend, self._roles)

    def _token(self, index: int) -> str:
        token = self._backend.id_to_token(index) if index >= 0 else None
        if token is None:
            raise InputError(
                f"token id {index} is not in this tokenizer of {self._roles.size} tokens; "
                "are model and tokenizer from the same folder?"
            )
        return token
