"""Batches of token ids with their padding mask, the reading order of tokens, and the sentences of documents."""

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
    """A batch of sources: `Tokens` for most models, `Images` for captioners."""

    @property
    def lengths(self) -> Tensor:
        """(B,) int64, the length of each: the number of real tokens, or of frames."""
        ...

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        ...

    def select(self, rows: Tensor) -> Self:
        """The rows of the index tensor `rows`, in that order."""
        ...

    def __len__(self) -> int:
        """B."""
        ...


PaddingSide = Literal["nowhere", "right", "somewhere"]
"""The side of padding in a batch, if it is known."""

PADDING_SIDES = get_args(PaddingSide)


@renamed(padded="padding_side", parted="with_documents")
@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """A padded batch of token sequences.

    Arguments:
        ids: (B, L) int64; ids at padding are ignored.
        valid: (B, L) bool, True = a real token, False = padding. Padding can be on either side.
        padding_side: the side of padding, if it is known without reading `valid`, which on a GPU would synchronise. Causal models
            need no mask for padding on the right.
        documents: (B, L) integers in ascending order, the document of each token, if a row holds several documents that must not
            see each other; None = one document per row. For models whose `separates_documents` is true.

    Raises:
        ValueError: if the shapes differ, a dtype is wrong, or `padding_side` is unknown.
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
                f"padding_side is {self.padding_side!r}; give nowhere, right, or somewhere (if it is not known)"
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
        """A padded batch of sequences of different lengths.

        Raises:
            ValueError: for an unknown side.

        >>> Tokens.pad([[5, 6], [7]], side="left").ids.tolist()
        [[5, 6], [0, 7]]
        """
        if side not in ("left", "right"):
            raise ValueError(f"side is {side!r}; give left or right")
        lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
        columns = np.arange(lengths.max(initial=0))
        # In NumPy, because a tensor operation per row would take as long as a step of a small model.
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

    def with_documents(self, end_id: int) -> Tokens:
        """The same tokens, with each row divided into documents: a document begins at every end token.

        >>> Tokens.pad([[7, 8, 2, 5, 6, 2, 9]]).with_documents(2).documents.tolist()
        [[0, 0, 1, 1, 1, 2, 2]]
        """
        return Tokens(self.ids, self.valid, self.padding_side, (self.ids == end_id).cumsum(dim=1))

    @property
    def places(self) -> Tensor | None:
        """(B, L) int64, the position of each token in its sequence; None if it is known to be the column for all real tokens."""
        return positions_of(self.valid) if self.padding_side == "somewhere" else None

    @property
    def lengths(self) -> Tensor:
        """(B,) int64, the number of real tokens in each row."""
        return self.valid.sum(dim=1)

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.ids.device

    def __len__(self) -> int:
        return self.ids.shape[0]


def reading_order(valid: Tensor, *, backwards: bool = False) -> Tensor | None:
    """The columns of each row's tokens in reading order; padding, on either side, comes last.

    With `backwards` only real tokens are reversed: reversing a padded row would move the padding to the front.

    Arguments:
        valid: (B, S) bool, True = a real token.
        backwards: read from the last real token to the first.

    Returns:
        (B, S) int64, a permutation of each row's columns; None if the batch is already in this order.

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
    """Reorder x (B, S, ...) by the columns in `order` (B, S); x itself if `order` is None."""
    if order is None:
        return x
    rows = torch.arange(len(order), device=order.device).unsqueeze(1) * order.shape[1]
    # One index_select on flat rows: its backward pass is twice as fast as that of `gather`.
    return x.flatten(0, 1).index_select(0, (rows + order).flatten()).view(x.shape)


def put_back(x: Tensor, order: Tensor | None) -> Tensor:
    """The inverse of `in_order`."""
    return x if order is None else in_order(x, order.argsort(dim=1))


def chosen(x: Tensor, at: Tensor | None) -> Tensor:
    """The vectors at some positions of a batch: x (B, L, D) to (M, D), or x itself without `at`.

    Arguments:
        x: (B, L, D).
        at: (M,) int64, indices into B x L; None = all.
    """
    return x if at is None else x.flatten(0, 1).index_select(0, at)


@dataclass(frozen=True, slots=True, eq=False)
class SentencesOf:
    """The sentences of a batch of documents.

    Arguments:
        words: (B, L) bool, True = a word: a real token that is not a boundary between sentences.
        number: (B, L) int64, the sentence of each word, from 0; without meaning elsewhere.
        places: (B, L) int64, the position of each word in its sentence, from 0; without meaning elsewhere.
        counts: (B,) int64, the number of sentences of each document; no sentence is empty.

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
        """The sentences of documents with boundary tokens.

        Arguments:
            tokens: (B, L), padding on either side.
            boundaries: the ids of boundary tokens, which are not words; a sentence is the words between two of them.
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
        """(B, S, L) bool, True = the word belongs to the sentence."""
        sentences = torch.arange(self.valid.shape[1], device=self.number.device)
        return (self.number.unsqueeze(1) == sentences.unsqueeze(1)) & self.words.unsqueeze(1)

    def read(self, x: Tensor, reader: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Apply a reader to each sentence separately: x (B, L, D) to (B, L, H), zeros where there is no word.

        Sentences of similar length are batched together, to keep padding small.

        Arguments:
            x: (B, L, D).
            reader: a function from N padded sentences (N, W, D) and their mask (N, W) bool, True = a word, to (N, W, H).
        """
        here = self.words.flatten().nonzero().squeeze(1)
        sentence, place = self._sentence_of_each()
        # On flat rows, because the backward passes of index_select and index_copy are faster than those of indexing.
        words, flat = x.flatten(0, 1).index_select(0, here), [here[:0]]
        found = [reader(words[:0].unsqueeze(0)[:0], self.words[:0, :0]).flatten(0, 1)]
        for rows, longest in _of_like_length(sentence.bincount()):
            number = torch.full((int(sentence.max()) + 1,), -1, device=rows.device).index_copy(
                0, rows, torch.arange(len(rows), device=rows.device)
            )
            own = (number[sentence] >= 0).nonzero().squeeze(1)
            there = number[sentence[own]] * longest + place[own]
            padded = words.new_zeros(len(rows) * longest, words.shape[1])
            padded = padded.index_copy(0, there, words.index_select(0, own)).view(len(rows), longest, -1)
            real = self.words.new_zeros(len(rows) * longest).index_fill(0, there, True).view(len(rows), longest)
            found.append(reader(padded, real).flatten(0, 1).index_select(0, there))
            flat.append(here[own])
        states = torch.cat(found)
        every = states.new_zeros(self.words.numel(), states.shape[1]).index_copy(0, torch.cat(flat), states)
        return every.view(*self.words.shape, states.shape[1])

    def _sentence_of_each(self) -> tuple[Tensor, Tensor]:
        """For each word of the batch, in order: the number of its sentence in the batch, and its position there."""
        before = self.counts.cumsum(dim=0) - self.counts
        return (before.unsqueeze(1) + self.number)[self.words], self.places[self.words]


def _of_like_length(lengths: Tensor) -> list[tuple[Tensor, int]]:
    """Groups of rows by length: up to 16, then up to 32, 64 and so on, each with the longest length in it.

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
