"""Which tokens of a document are words, and of which of its sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.layers.tokens import Tokens


@dataclass(frozen=True, slots=True, eq=False)
class SentencesOf:
    """The sentences of a batch of documents.

    Arguments:
        words: (B, L) bool, True = a word: a real token that does not stand between sentences.
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
            boundaries: ids that are no words: a sentence is what stands between two of them.
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
        """What a reader makes of every sentence by itself, beside its words: x (B, L, D) to (B, L, H), zeros elsewhere.

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
