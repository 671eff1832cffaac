"""The cache of keys and values: what was passed, computed once, and which of it belongs to which row of a batch.

`KeysValues` are one layer's projections, of a source or grown token by token; `KVCache` is what a whole stack keeps of what was
read or written so far, for recurrent memories, Transformers and language models alike.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.attention.inputs import Dense, Mask

LEAST = 32
"""Slots of the smallest buffer."""


@dataclass(frozen=True, slots=True, eq=False)
class KVCache:
    """Keys and values of all that N rows have passed, block by block, and which columns belong to which row.

    The rows of a batch are hypotheses about R texts, W about each, next to one another: N = R * W. Keys and values are kept once
    for each text: R rows of C columns, and every step adds a column for each of its W hypotheses. `seen` is the beam index: it
    says which columns are a hypothesis' own past. When hypotheses branch, change places or leave, only this table follows; the
    keys and values, which are a thousand times its size, stay. In attention the W hypotheses about a text are so many queries
    over one memory.

    Arguments:
        layers: of each block `KeysValues` (R, G, C, E); none before the first token.
        widths: how many columns came with each slot; in a slot every row takes one token, or padding.
        seen: (N, C) bool, True = a token of the row's own past; None where every column is.
        places: (R, C) int64, where each column's token is in its text; None where that is its column.
        capacity: columns to make room for when `layers` are first filled; 0 leaves that to how they grow.

    >>> cache = KVCache().extended(rows=1, width=1).reorder(torch.tensor([0, 0])).extended(rows=2, width=2)
    >>> cache.reorder(torch.tensor([1, 1])).seen.tolist(), cache.places.tolist()
    ([[True, False, True], [True, False, True]], [[0, 1, 1]])
    """

    layers: tuple[Any, ...] = ()
    widths: tuple[int, ...] = ()
    seen: Tensor | None = None
    places: Tensor | None = None
    capacity: int = 0

    @property
    def columns(self) -> int:
        """C."""
        return sum(self.widths)

    def extended(
        self,
        *,
        rows: int,
        width: int,
        slots: int = 1,
        valid: Tensor | None = None,
        lengths: Tensor | None = None,
        device: torch.device | str | None = None,
    ) -> KVCache:
        """The table with new columns for each row: W for one slot, or one for each of several; `layers` are still to grow.

        Arguments:
            rows: N.
            width: W, hypotheses about each text; 1 where several slots are added.
            slots: tokens that each row takes.
            valid: (N, slots) bool, which of them are real, where W is 1; None where all are.
            lengths: (R,) int64, the real tokens that each text had before; None where it had one in every slot.
        """
        widths = (*self.widths, *(width,) * slots)
        if width == 1 and self.seen is None and valid is None:
            return replace(self, widths=widths)
        columns, texts = self.columns, rows // width
        seen = torch.ones(rows, columns, dtype=torch.bool, device=device) if self.seen is None else self.seen
        places = torch.arange(columns, device=device).expand(texts, -1) if self.places is None else self.places
        if width > 1:
            own = torch.eye(width, dtype=torch.bool, device=device).repeat(texts, 1)
            counted = torch.zeros(texts, width, dtype=torch.long, device=device)
        else:
            own = torch.ones(rows, slots, dtype=torch.bool, device=device) if valid is None else valid
            counted = own.long().cumsum(dim=1) - 1
        passed = len(self.widths) if lengths is None else lengths[:, None]
        here = (counted + passed).clamp_min(0)  # padding before the first token is with it
        return replace(self, widths=widths, seen=torch.cat((seen, own), dim=1), places=torch.cat((places, here), dim=1))

    def filled(self, layers: Sequence[Any]) -> KVCache:
        """The same with keys and values of all its columns, block by block."""
        if self.capacity and not self.layers and not torch.is_grad_enabled():
            layers = [layer.reserved(self.capacity) for layer in layers]
        return replace(self, layers=tuple(layers))

    def reserved(self, columns: int) -> KVCache:
        """The same with room for so many columns more, so that none that is there is copied before they are full."""
        capacity = self.columns + columns
        return replace(self, capacity=capacity, layers=tuple(layer.reserved(capacity) for layer in self.layers))

    def select(self, rows: Tensor, width: int = 1) -> KVCache:
        """The cache of these rows, each with its text to itself: rows may leave, repeat or change places.

        Arguments:
            rows: (M,) int64, the row each new row continues.
            width: W, the hypotheses that there were about each text.
        """
        return self.reorder(rows, rows if width == 1 else rows // width)

    def reorder(self, rows: Tensor, texts: Tensor | None = None) -> KVCache:
        """Each new row continues the past of row `rows[i]`, which stands among those about its own text.

        Arguments:
            rows: (M,) int64, in groups of equal size, one group for each text.
            texts: (Q,) int64, the texts that stay, in their order; all where None, and then no key or value is copied.
        """
        seen = None if self.seen is None else self.seen.index_select(0, rows)
        if texts is None:
            return replace(self, seen=seen)
        places = None if self.places is None else self.places.index_select(0, texts)
        return replace(self, layers=tuple(layer.select(texts) for layer in self.layers), seen=seen, places=places)

    def crop(self, length: int) -> KVCache:
        """As it was after `length` slots."""
        return self._cut(length, "crop")

    def rewound(self, length: int) -> KVCache:
        """As `crop`, and what came later is given up: its memory is written over by what is read next.

        For whoever knows that nobody holds the longer one any more.
        """
        return self._cut(length, "rewound")

    @staticmethod
    def joined(caches: Sequence[KVCache], rows: Sequence[int]) -> KVCache:
        """The rows of several caches in one, for any lengths: all end in the last column.

        What no row sees any more, of hypotheses that left, is left out.

        Arguments:
            caches: of the same blocks, each row with its text to itself (W is 1); those before their first token are empty.
            rows: N of each.
        """
        device = next((part.key.device for cache in caches for part in cache.layers), None)
        seen = [
            torch.ones(count, cache.columns, dtype=torch.bool, device=device) if cache.seen is None else cache.seen
            for cache, count in zip(caches, rows, strict=True)
        ]
        lengths = torch.cat([part.sum(dim=1) for part in seen])
        columns = int(lengths.max()) if len(lengths) else 0
        # Of each cache as many columns as its longest row has: the row's own in order at the end, before them others that it
        # does not see.
        kept = [
            part.int().argsort(dim=1, stable=True)[:, part.shape[1] - int(part.sum(dim=1).max()) :] for part in seen
        ]
        blocks = max(len(cache.layers) for cache in caches)
        layers = [
            KeysValues.joined(
                [
                    (cache.layers[block].gathered(order) if cache.seen is not None else cache.layers[block])
                    if cache.layers
                    else count
                    for cache, count, order in zip(caches, rows, kept, strict=True)
                ],
                columns,
                max(LEAST, 2 * columns),
            )
            for block in range(blocks)
        ]
        widths = (1,) * columns
        missing = columns - lengths[:, None]
        if not bool(missing.any()):
            return KVCache(tuple(layers), widths)
        here = torch.arange(columns, device=missing.device)
        return KVCache(tuple(layers), widths, here >= missing, (here - missing).clamp_min(0))

    def lengths(self, texts: int) -> Tensor | None:
        """(R,) int64: how many real tokens each text has; None where it has one in every slot."""
        return None if self.seen is None else self.seen.unflatten(0, (texts, -1))[:, 0].sum(dim=1)

    def mask(self, width: int) -> Mask | None:
        """Over (R, H, W, C), True = may attend: the W hypotheses about a text are so many queries; None = all to all."""
        return None if self.seen is None else Dense(self.seen.unflatten(0, (-1, width)).unsqueeze(1))

    def _cut(self, length: int, how: str) -> KVCache:
        widths = self.widths[:length]
        columns = sum(widths)
        return replace(
            self,
            layers=tuple(getattr(layer, how)(columns) for layer in self.layers),
            widths=widths,
            seen=None if self.seen is None else self.seen[:, :columns],
            places=None if self.places is None else self.places[:, :columns],
        )


@dataclass(frozen=True, slots=True, eq=False)
class KeysValues:
    """Projected keys (B, G, S, E) and values (B, G, S, Ev).

    Arguments:
        buffer: the memory that both are the first slots of, where there is more of it; both are then of one width.
    """

    key: Tensor
    value: Tensor
    buffer: KVBuffer | None = None

    def select(self, rows: Tensor) -> KeysValues:
        """The batch rows of the index tensor `rows`, in that order."""
        length = self.key.shape[2]
        if self.buffer is None or torch.is_grad_enabled():
            return KeysValues(self.key.index_select(0, rows), self.value.index_select(0, rows))
        # As large as growing would make it, which would copy it once more.
        slots = min(self.buffer.capacity, max(LEAST, 2 * length))
        return _first(KVBuffer(self.buffer.memory[:, :, :, :slots].index_select(1, rows), length), length)

    def gathered(self, columns: Tensor) -> KeysValues:
        """Of each row b the slots `columns[b]`, (B, n), in that order."""

        def of(part: Tensor) -> Tensor:
            return part.gather(2, columns[:, None, :, None].expand(-1, part.shape[1], -1, part.shape[3]))

        return KeysValues(of(self.key), of(self.value))

    @staticmethod
    def joined(parts: Sequence[KeysValues | int], length: int, slots: int) -> KeysValues:
        """The rows of several in one, each behind as many zeros as it is shorter than `length`.

        Arguments:
            parts: with the same heads and widths; a number for so many rows of nothing.
            length: S, of the longest.
            slots: of the buffer.
        """
        like = next(part for part in parts if isinstance(part, KeysValues))
        rows = [part if isinstance(part, int) else len(part.key) for part in parts]

        def empty(made: Tensor) -> Tensor:
            return made.new_zeros(sum(rows), made.shape[1], slots, made.shape[3])

        buffer: KVBuffer | None = None
        if like.key.shape[3] == like.value.shape[3]:
            buffer = KVBuffer(like.key.new_zeros(2, sum(rows), like.key.shape[1], slots, like.key.shape[3]), length)
        key, value = (empty(like.key), empty(like.value)) if buffer is None else (buffer.memory[0], buffer.memory[1])
        first = 0
        for part, count in zip(parts, rows, strict=True):
            if isinstance(part, KeysValues):
                own = slice(length - part.key.shape[2], length)
                key[first : first + count, :, own] = part.key
                value[first : first + count, :, own] = part.value
            first += count
        return KeysValues(key[:, :, :length], value[:, :, :length], buffer)

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
        buffer = self.buffer
        if buffer is None or not buffer.claim(length, more):
            least = LEAST if buffer is None else buffer.capacity
            buffer = self._copied(max(least, 2 * (length + more)), length + more)
        return _first(buffer, length + more)

    def reserved(self, slots: int) -> KeysValues:
        """The same with room for so many in all."""
        length = self.key.shape[2]
        widths_differ = self.key.shape[3] != self.value.shape[3]
        if widths_differ or (self.buffer is not None and self.buffer.capacity >= slots):
            return self
        return _first(self._copied(max(slots, length), length), length)

    def crop(self, length: int) -> KeysValues:
        """The first `length` slots."""
        return KeysValues(self.key[:, :, :length], self.value[:, :, :length], self.buffer)

    def rewound(self, length: int) -> KeysValues:
        """As `crop`, and what came later is given up: its memory is written over by what is read next.

        For whoever knows that nobody holds the longer ones any more.
        """
        if self.buffer is not None:
            self.buffer.release(self.key.shape[2], length)
        return self.crop(length)

    def _copied(self, slots: int, filled: int) -> KVBuffer:
        batch, groups, length, width = self.key.shape
        memory = self.key.new_empty(2, batch, groups, slots, width)
        memory[0, :, :, :length] = self.key
        memory[1, :, :, :length] = self.value
        return KVBuffer(memory, filled)


class KVBuffer:
    """Memory for keys and values with slots left over, so that one more token is written and not all of them copied.

    The slots fill up from the front and are never written twice: whoever holds the first n of them continues seeing the same
    numbers. Only who holds all that are filled may write the next; anyone else, a second continuation of the same prompt or a
    state that was cropped, gets a buffer of its own.

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


def _first(buffer: KVBuffer, length: int) -> KeysValues:
    return KeysValues(buffer.memory[0, :, :, :length], buffer.memory[1, :, :, :length], buffer)
