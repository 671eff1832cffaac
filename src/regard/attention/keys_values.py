"""Keys and values: computed once of a source, or grown token by token."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch
from torch import Tensor

LEAST = 32
"""Slots of the smallest room that is made to grow into."""


class Room:
    """Memory for keys and values with slots left over, so that one more token is written and not all of them copied.

    The slots fill up from the front and are never written twice: whoever holds the first n of them goes on seeing the same
    numbers. Only who holds all that are filled may write the next; anyone else, a second continuation of the same prompt or a
    state that was cropped, gets a room of its own.

    Arguments:
        memory: (2, B, G, C, E), keys and values.
        filled: slots of the C that are written.
    """

    __slots__ = ("_filled", "_lock", "memory")

    def __init__(self, memory: Tensor, filled: int) -> None:
        self.memory = memory
        self._filled = filled
        self._lock = threading.Lock()

    @property
    def capacity(self) -> int:
        """C."""
        return self.memory.shape[3]

    def claim(self, length: int, more: int) -> bool:
        """Give the `more` slots after the first `length` to who asks, unless they are taken already or not there."""
        if length + more > self.capacity or (self.memory.is_inference() and not torch.is_inference_mode_enabled()):
            return False
        with self._lock:  # two threads may continue one prompt
            free = self._filled == length
            if free:
                self._filled = length + more
        return free

    def release(self, held: int, length: int) -> None:
        """Give the slots from `length` on back, where who holds the first `held` is the last that claimed any."""
        with self._lock:
            if self._filled == held:
                self._filled = length


@dataclass(frozen=True, slots=True, eq=False)
class KeysValues:
    """Projected keys (B, G, S, E) and values (B, G, S, Ev).

    Arguments:
        room: the memory that both are the first slots of, where there is more of it; both are then of one width.
    """

    key: Tensor
    value: Tensor
    room: Room | None = None

    def select(self, rows: Tensor) -> KeysValues:
        """The batch rows of the index tensor `rows`, in that order."""
        return KeysValues(self.key.index_select(0, rows), self.value.index_select(0, rows))

    def extended(self, later: KeysValues) -> KeysValues:
        """These followed by `later` along the key axis.

        Where no gradient is asked for, room is made for as many again: a text of n tokens costs n writes and log n copies.
        """
        if torch.is_grad_enabled() or self.key.shape[3] != self.value.shape[3]:
            return KeysValues(torch.cat((self.key, later.key), dim=2), torch.cat((self.value, later.value), dim=2))
        length, more = self.key.shape[2], later.key.shape[2]
        longer = self.lengthened(more)
        longer.key[:, :, length:] = later.key
        longer.value[:, :, length:] = later.value
        return longer

    def lengthened(self, more: int) -> KeysValues:
        """These followed by `more` slots that are still to be written, and that nobody else sees."""
        length = self.key.shape[2]
        room = self.room
        if room is None or not room.claim(length, more):
            least = LEAST if room is None else room.capacity
            room = self._copied(max(least, 2 * (length + more)), length + more)
        return _first(room, length + more)

    def reserved(self, slots: int) -> KeysValues:
        """The same with room for so many in all."""
        length = self.key.shape[2]
        if self.room is not None and self.room.capacity >= slots:
            return self
        return _first(self._copied(max(slots, length), length), length)

    def crop(self, length: int) -> KeysValues:
        """The first `length` slots."""
        return KeysValues(self.key[:, :, :length], self.value[:, :, :length], self.room)

    def rewound(self, length: int) -> KeysValues:
        """As `crop`, and what came later is given up: its memory is written over by what is read next.

        For whoever knows that nobody holds the longer ones any more.
        """
        if self.room is not None:
            self.room.release(self.key.shape[2], length)
        return self.crop(length)

    def _copied(self, slots: int, filled: int) -> Room:
        batch, groups, length, width = self.key.shape
        memory = self.key.new_empty(2, batch, groups, slots, width)
        memory[0, :, :, :length] = self.key
        memory[1, :, :, :length] = self.value
        return Room(memory, filled)


def _first(room: Room, length: int) -> KeysValues:
    return KeysValues(room.memory[0, :, :, :length], room.memory[1, :, :, :length], room)
