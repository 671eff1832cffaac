"""The order that one round of hashing puts tokens in, cut into chunks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LOW = -1e30
"""In place of a score that is not to be: finite, so that a query that sees nothing stays finite too."""


@dataclass(frozen=True, slots=True, eq=False)
class HashedOrder:
    """The S tokens of G sequences, each a head of a row, in the order of one round: n chunks of m places.

    Arguments:
        slots: (G, (k + n) m) int64, which token stands in each place, with those that stand before the first chunk in front; the
            last token stands in for those that fill the last chunk.
        places: (G, S), where each token stands, counted from the first chunk.
        buckets: (G, n m), of each place, never falling; any higher number where a place only fills the last chunk.
        chunk: m.
        reach: k, chunks that a query looks back, besides its own; a window has w = (k + 1) m places.
    """

    slots: Tensor
    places: Tensor
    buckets: Tensor
    chunk: int
    reach: int

    @property
    def chunks(self) -> int:
        """How many chunks there are, n."""
        return self.buckets.shape[1] // self.chunk

    @property
    def ahead(self) -> int:
        """How many places stand in front of the first chunk, k m."""
        return self.reach * self.chunk

    def of(self, part: Part) -> HashedOrder:
        """The order of some of the sequences."""
        these = slice(part.first, part.last)
        return HashedOrder(self.slots[these], self.places[these], self.buckets[these], self.chunk, self.reach)

    def asked(self) -> Tensor:
        """(G, n m), the token whose query stands in each place."""
        return self.slots[:, self.ahead :]

    def offered(self) -> Tensor:
        """(G, (k + n) m), the token whose key stands in each place; S where a place only fills the last chunk."""
        length, keys = self.buckets.shape[1], self.places.shape[1]
        if length == keys:
            return self.slots
        place = torch.arange(-self.ahead, length, device=self.slots.device)
        # The last chunk of the round before is as full as this one's.
        return self.slots.where(place % length < keys, keys)

    def cut(self, x: Tensor, part: Part) -> Tensor:
        """The chunks of a part of what is told of each place: x (G, n m) to (g, c, m)."""
        return x[part.first : part.last].unflatten(1, (-1, self.chunk))[:, part.begin : part.end]

    def windows(self, x: Tensor, part: Part) -> Tensor:
        """The windows of the chunks of a part: x (G, (k + n) m, ...) to (g, c, w, ...), without a copy."""
        return windows(x[part.first : part.last], self.chunk, self.reach)[:, part.begin : part.end]

    def bounds(self, part: Part) -> tuple[Tensor, Tensor]:
        """Where a query's own bucket begins and ends in its window, counted from the window's first place: (g, c, m) each."""
        buckets = self.buckets[part.first : part.last].contiguous()
        chunk = torch.arange(buckets.shape[1], device=buckets.device) // self.chunk * self.chunk
        begin = chunk - self.ahead
        first = torch.searchsorted(buckets, buckets).maximum(begin) - begin
        last = torch.searchsorted(buckets, buckets, right=True).minimum(chunk + self.chunk) - 1 - begin
        return (bound.unflatten(1, (-1, self.chunk))[:, part.begin : part.end] for bound in (first, last))  # type: ignore[return-value]

    def holds(self, asked: Tensor, offered: Tensor, part: Part) -> Tensor:
        """Whether tokens stand in the windows, and the buckets, of others in this round.

        Arguments:
            asked: (g, c, m), queries.
            offered: (g, c, w), keys.

        Returns:
            (g, c, m, w) bool.
        """
        whole = Part(part.first, part.last, 0, self.chunks)
        chunk = torch.arange(self.buckets.shape[1], device=asked.device) // self.chunk * self.chunk - self.ahead
        places = self.places[part.first : part.last]
        first, last = ((bound.flatten(1) + chunk).gather(1, places) for bound in self.bounds(whole))
        first, last = (bound.gather(1, asked.flatten(1)).view(asked.shape).unsqueeze(-1) for bound in (first, last))
        place = places.gather(1, offered.flatten(1)).view(offered.shape).unsqueeze(-2)
        return (place >= first) & (place <= last)


@dataclass(frozen=True, slots=True)
class Part:
    """Some chunks of some sequences: the sequences from `first` to before `last`, the chunks from `begin` to before `end`."""

    first: int
    last: int
    begin: int
    end: int


def windows(x: Tensor, chunk: int, reach: int) -> Tensor:
    """Each chunk with those before it in front: x (g, (n + k) m, ...) to (g, n, (k + 1) m, ...), without a copy.

    >>> windows(torch.arange(8).view(1, 8), chunk=2, reach=1).tolist()
    [[[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]]
    """
    found = x.unfold(1, (reach + 1) * chunk, chunk)
    return found if x.dim() == 2 else found.movedim(-1, 2)
