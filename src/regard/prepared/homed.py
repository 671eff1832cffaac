"""Keys and values that stay where they are while the sources they are about leave and change places."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from regard.attention import KeysValues
from regard.prepared.interface import CacheStruct


@dataclass(frozen=True, slots=True, eq=False)
class Homed:
    """Keys and values of what was written about R sources, in a memory of perhaps more.

    A source that leaves a search leaves its row behind, and nothing is copied for it.

    Arguments:
        held: (P, G, C, E).
        homes: (R,) int64, the row of `held` that is each source's, no two alike; None where they stand in order.

    >>> import torch
    >>> written = Homed(KeysValues(torch.arange(3.0).view(3, 1, 1, 1), torch.zeros(3, 1, 1, 1)))
    >>> fewer = written.select(torch.tensor([2, 0]))
    >>> fewer.held is written.held, fewer.settled().key.flatten().tolist()
    (True, [2.0, 0.0])
    """

    held: KeysValues
    homes: Tensor | None = None

    def select(self, rows: Tensor) -> Homed:
        """Of these sources, in that order; one that is wanted twice gets a row of its own each time."""
        homes = rows if self.homes is None else self.homes.index_select(0, rows)
        if len(homes.unique()) < len(homes):
            return Homed(self.held.select(homes))
        return Homed(self.held, homes.contiguous())

    def lengthened(self, more: int) -> Homed:
        """With room for `more` columns that are still to be written."""
        return Homed(self.held.lengthened(more), self.homes)

    def reserved(self, columns: int) -> Homed:
        """With room for so many columns in all."""
        return Homed(self.held.reserved(columns), self.homes)

    def crop(self, columns: int) -> Homed:
        """The first columns."""
        return Homed(self.held.crop(columns), self.homes)

    def rewound(self, columns: int) -> Homed:
        """As `crop`, and the later columns are given up, as `KeysValues.rewound` does."""
        return Homed(self.held.rewound(columns), self.homes)

    def settled(self) -> KeysValues:
        """(R, G, C, E), each source in its own row."""
        return self.held if self.homes is None else self.held.select(self.homes)

    def struct(self) -> CacheStruct:
        """What the kernel is given; it points into the tensors here, which have to be in a room."""
        room = self.held.room
        if room is None:
            raise RuntimeError("the kernel was called without a room")
        homes = None if self.homes is None else self.homes.data_ptr()
        rows, columns = room.memory.shape[1], self.held.key.shape[2]
        return CacheStruct(room.memory.data_ptr(), homes, rows, room.capacity, columns)
