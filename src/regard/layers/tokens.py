"""What models read: a batch of token ids and which of them are real, the order they are read in, the sentences among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self, get_args

import numpy as np
import torch
from torch import Tensor

from regard.attention import positions_of
from regard.structure import renamed


class Source(Protocol):
    """A batch of what answers are about: `Tokens` for most models, `Pictures` for captioners."""

    @property
    def lengths(self) -> Tensor:
        """(B,) int64, how long each is: real tokens, or frames."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it is."""
        ...

    def select(self, rows: Tensor) -> Self:
        """The rows of the index tensor `rows`, in that order."""
        ...

    def __len__(self) -> int:
        """B."""
        ...


PaddingSide = Literal["nowhere", "right", "somewhere"]
"""Where padding is in a batch, as far as its maker knows."""

PADDING_SIDES = get_args(PaddingSide)


@renamed(padded="padding_side")
@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """A padded batch of token sequences.

    Arguments:
        ids: (B, L) int64; what is at padding is never looked at.
        valid: (B, L) bool, True = a real token, False = padding. Padding may be on either side.
        padding_side: where padding stands, as far as is known without reading `valid`, which on a GPU would mean to
            wait. What reads from the left needs no mask where padding only follows.
        documents: (B, L) integers that never fall, the document that each token is of, where several are in one row and none is
            to see another; None where a row is one. For models whose `parts_documents` is true.

    Raises:
        ValueError: where the two shapes differ, a dtype is wrong, or `padding_side` is none of the three.
    """

    ids: Tensor
    valid: Tensor
    padding_side: PaddingSide = "somewhere"
    documents: Tensor | None = None

    def __post_init__(self) -> None:
        if self.ids.shape != self.valid.shape or self.ids.dim() != 2 or self.valid.dtype != torch.bool:
            raise ValueError(
                "Tokens takes ids (B, L) and valid (B, L) bool, True = real token, not "
                f"{tuple(self.ids.shape)} and {self.valid.dtype} {tuple(self.valid.shape)}"
            )
        if self.padding_side not in PADDING_SIDES:
            raise ValueError(
                f"padding_side is {self.padding_side!r}; give nowhere, right, or somewhere, which any batch is"
            )

    @classmethod
    def pad(
        cls,
        sequences: Sequence[Sequence[int]],
        *,
        padding_id: int = 0,
        side: Literal["left", "right"] = "right",
        device: torch.device | str | None = None,
    ) -> Tokens:
        """Sequences of different lengths side by side.

        Raises:
            ValueError: for another side.

        >>> Tokens.pad([[5, 6], [7]], side="left").ids.tolist()
        [[5, 6], [0, 7]]
        """
        if side not in ("left", "right"):
            raise ValueError(f"side is {side!r}; give left or right")
        lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
        columns = np.arange(lengths.max(initial=0))
        # In numpy: a tensor operation for each row would take as long as a small model's step.
        valid = columns >= (len(columns) - lengths)[:, None] if side == "left" else columns < lengths[:, None]
        ids = np.full(valid.shape, padding_id, dtype=np.int64)
        if lengths.sum():
            ids[valid] = np.concatenate([np.asarray(sequence, dtype=np.int64) for sequence in sequences])
        padding_side: PaddingSide = "nowhere" if valid.all() else "right" if side == "right" else "somewhere"
        return cls(torch.from_numpy(ids).to(device), torch.from_numpy(valid).to(device), padding_side)

    def to(self, device: torch.device | str) -> Tokens:
        """The same tokens on another device."""
        documents = None if self.documents is None else self.documents.to(device)
        return Tokens(self.ids.to(device), self.valid.to(device), self.padding_side, documents)

    def select(self, rows: Tensor) -> Tokens:
        """The rows of the index tensor `rows`, in that order."""
        documents = None if self.documents is None else self.documents.index_select(0, rows)
        return Tokens(self.ids.index_select(0, rows), self.valid.index_select(0, rows), self.padding_side, documents)

    def parted(self, end_id: int) -> Tokens:
        """The same tokens, each row parted into documents: one begins at every end token, which is before its first.

        >>> Tokens.pad([[7, 8, 2, 5, 6, 2, 9]]).parted(2).documents.tolist()
        [[0, 0, 1, 1, 1, 2, 2]]
        """
        return Tokens(self.ids, self.valid, self.padding_side, (self.ids == end_id).cumsum(dim=1))

    @property
    def places(self) -> Tensor | None:
        """(B, L) int64, where each token is in its sequence; None where that is known to be its column, or it is padding."""
        return positions_of(self.valid) if self.padding_side == "somewhere" else None

    @property
    def lengths(self) -> Tensor:
        """(B,) int64, real tokens in each row."""
        return self.valid.sum(dim=1)

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.ids.device

    def __len__(self) -> int:
        return self.ids.shape[0]


def reading_order(valid: Tensor, *, backwards: bool = False) -> Tensor | None:
    """For every row the places of its tokens in the order they are read; padding, on whichever side it stands, last.

    Only real tokens are turned round by `backwards`: reversing a padded row as it stands would put the padding in front.

    Arguments:
        valid: (B, S) bool, True = a real token.
        backwards: from the last real token to the first.

    Returns:
        (B, S) int64, a permutation of each row's places; None where the batch is in that order already.

    >>> valid = torch.tensor([[True, True, True], [False, True, True]])
    >>> reading_order(valid, backwards=True).tolist()
    [[2, 1, 0], [2, 1, 0]]
    >>> reading_order(valid).tolist()
    [[0, 1, 2], [1, 2, 0]]
    """
    if not backwards and bool((valid[:, 1:] <= valid[:, :-1]).all()):
        return None
    length = valid.shape[1]
    place = torch.arange(length, device=valid.device)
    return torch.where(valid, length - 1 - place if backwards else place, length + place).argsort(dim=1)


def in_order(x: Tensor, order: Tensor | None) -> Tensor:
    """What is at the places of `order` (B, S), in that order: x (B, S, ...) to the same shape; x itself where it is None."""
    if order is None:
        return x
    rows = torch.arange(len(order), device=order.device).unsqueeze(1) * order.shape[1]
    # One index_select on flat rows: its backward pass is twice as fast as that of `gather`.
    return x.flatten(0, 1).index_select(0, (rows + order).flatten()).view(x.shape)


def put_back(x: Tensor, order: Tensor | None) -> Tensor:
    """The inverse of `in_order`."""
    return x if order is None else in_order(x, order.argsort(dim=1))


@dataclass(frozen=True, slots=True, eq=False)
class SentencesOf:
    """The sentences of a batch of documents.

    Arguments:
        words: (B, L) bool, True = a word: a real token that does not be between sentences.
        number: (B, L) int64, the sentence that each word is of, from 0; of no meaning elsewhere.
        places: (B, L) int64, the place of each word in its sentence, from 0; of no meaning elsewhere.
        counts: (B,) int64, sentences of each document; none is empty.

    >>> tokens = Tokens.pad([[1, 7, 8, 2, 9, 2], [1, 5, 2]])
    >>> found = SentencesOf.tokens(tokens, boundaries=(1, 2))
    >>> found.members()[0].int().tolist()
    [[0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0]]
    >>> found.members()[1].int().tolist()
    [[0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]
    """

    words: Tensor
    number: Tensor
    places: Tensor
    counts: Tensor

    @classmethod
    def tokens(cls, tokens: Tokens, boundaries: Sequence[int]) -> SentencesOf:
        """The sentences of documents in which some tokens part them.

        Arguments:
            tokens: (B, L), padding on either side.
            boundaries: ids that are no words: a sentence is what is between two of them.
        """
        words = tokens.valid & ~torch.isin(tokens.ids, torch.tensor(boundaries, device=tokens.ids.device))
        begins = words.clone()
        begins[:, 1:] &= ~words[:, :-1]
        number = begins.cumsum(dim=1) - 1
        place = torch.arange(words.shape[1], device=words.device).expand_as(number)
        begun = place.where(begins, 0).cummax(dim=1).values
        return cls(words, number, place - begun, begins.sum(dim=1))

    @property
    def valid(self) -> Tensor:
        """(B, S) bool, True = a sentence; S is at least 1."""
        most = max(1, int(self.counts.max())) if len(self.counts) else 1
        return torch.arange(most, device=self.counts.device) < self.counts.unsqueeze(1)

    def members(self) -> Tensor:
        """(B, S, L) bool, True = the word is of the sentence."""
        sentences = torch.arange(self.valid.shape[1], device=self.number.device)
        return (self.number.unsqueeze(1) == sentences.unsqueeze(1)) & self.words.unsqueeze(1)

    def read(self, x: Tensor, reader: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """What a reader makes of every sentence by itself, next to its words: x (B, L, D) to (B, L, H), zeros elsewhere.

        Sentences of like length are read together, so that a long one does not make all others as long.

        Arguments:
            reader: sentences (N, W, D) and which of them are words (N, W) bool, True = a word, to (N, W, H).
        """
        here = self.words.flatten().nonzero().squeeze(1)
        sentence, place = self._sentence_of_each()
        # Of flat rows: the backward passes of index_select and index_copy are quicker than those of indexing.
        words, flat = x.flatten(0, 1).index_select(0, here), [here[:0]]
        found = [reader(words[:0].unsqueeze(0)[:0], self.words[:0, :0]).flatten(0, 1)]
        for rows, longest in _of_like_length(sentence.bincount()):
            number = torch.full((int(sentence.max()) + 1,), -1, device=rows.device).index_copy(
                0, rows, torch.arange(len(rows), device=rows.device)
            )
            own = (number[sentence] >= 0).nonzero().squeeze(1)
            there = number[sentence[own]] * longest + place[own]
            side = words.new_zeros(len(rows) * longest, words.shape[1])
            side = side.index_copy(0, there, words.index_select(0, own)).view(len(rows), longest, -1)
            real = self.words.new_zeros(len(rows) * longest).index_fill(0, there, True).view(len(rows), longest)
            found.append(reader(side, real).flatten(0, 1).index_select(0, there))
            flat.append(here[own])
        states = torch.cat(found)
        beside = states.new_zeros(self.words.numel(), states.shape[1]).index_copy(0, torch.cat(flat), states)
        return beside.view(*self.words.shape, states.shape[1])

    def _sentence_of_each(self) -> tuple[Tensor, Tensor]:
        """Of each word, documents in their order: the number of its sentence among all of the batch, and its place there."""
        before = self.counts.cumsum(dim=0) - self.counts
        return (before.unsqueeze(1) + self.number)[self.words], self.places[self.words]


def _of_like_length(lengths: Tensor) -> list[tuple[Tensor, int]]:
    """Rows of like length: up to 16 together, then up to 32, 64 and so on, each group with its longest.

    >>> [(rows.tolist(), longest) for rows, longest in _of_like_length(torch.tensor([3, 40, 16, 17]))]
    [([0, 2], 16), ([3], 17), ([1], 40)]
    """
    groups, below, to = [], 0, 16
    most = int(lengths.max()) if len(lengths) else 0
    while below < most:
        rows = ((lengths > below) & (lengths <= to)).nonzero().squeeze(1)
        if len(rows):
            groups.append((rows, int(lengths[rows].max())))
        below, to = to, 2 * to
    return groups
