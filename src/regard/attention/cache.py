"""The KV cache: keys and values of past tokens, and which of them belong to which row of a batch.

`KeysValues` holds the projected keys and values of one layer, of a source or of the tokens so far. `KVCache` holds those of all
layers of a model; recurrent memories, Transformers and language models share it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.attention.masks import Dense, Mask

LEAST = 32
"""Slots of the smallest buffer."""


@dataclass(frozen=True, slots=True, eq=False)
class KVCache:
    """Keys and values of the past tokens of N rows, for each layer, and which columns belong to which row.

    The rows of a batch are W hypotheses for each of R texts, grouped by text: N = R * W. Keys and values are stored once per
    text, as R rows of C columns; every step adds one column for each of the W hypotheses. `seen` is the beam index: it marks the
    columns that are the past of a hypothesis. When hypotheses branch, are reordered or end, only this table changes. Keys and
    values, which are about a thousand times larger, are not copied. In attention the W hypotheses of a text are W queries over
    the same keys.

    Arguments:
        layers: `KeysValues` (R, G, C, E) of each layer; empty before the first token.
        widths: the number of columns that each slot added; in a slot every row takes one token, or padding.
        seen: (N, C) bool, True = a token of the row's own past; None = all columns.
        places: (R, C) int64, the position of each column's token in its text; None if it is the column's index.
        capacity: columns to allocate when `layers` are first filled; with 0 the buffer grows as needed.

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
        """The cache with new columns in `seen` and `places`: W for one slot, or one per slot. `layers` do not change.

        Arguments:
            rows: N.
            width: W, hypotheses per text; 1 if several slots are added.
            slots: tokens per row.
            valid: (N, slots) bool, True = a real token, if W is 1; None = all.
            lengths: (R,) int64, the number of real tokens that each text had before; None if every slot held a real token.
        """
        widths = (*self.widths, *(width,) * slots)
        if width == 1 and self.seen is None and valid is None:
            return replace(self, widths=widths)
        columns, texts = self.columns, rows // width
        seen = torch.ones(rows, columns, dtype=torch.bool, device=device) if self.seen is None else self.seen
        places = torch.arange(columns, device=device).expand(texts, -1) if self.places is None else self.places
        if width > 1:
            own = torch.eye(width, dtype=torch.bool, device=device).expand(texts, width, width).reshape(rows, width)
            counted = torch.zeros(texts, width, dtype=torch.long, device=device)
        else:
            own = torch.ones(rows, slots, dtype=torch.bool, device=device) if valid is None else valid
            counted = own.long().cumsum(dim=1) - 1
        passed = len(self.widths) if lengths is None else lengths[:, None]
        here = (counted + passed).clamp_min(0)  # padding before the first token has its position
        return replace(self, widths=widths, seen=torch.cat((seen, own), dim=1), places=torch.cat((places, here), dim=1))

    def filled(self, layers: Sequence[Any]) -> KVCache:
        """The cache with these keys and values of all its columns, one `KeysValues` for each layer."""
        if self.capacity and not self.layers and not torch.is_grad_enabled():
            layers = [layer.reserved(self.capacity) for layer in layers]
        return replace(self, layers=tuple(layers))

    def reserved(self, columns: int) -> KVCache:
        """The cache with memory allocated for this many more columns, so that nothing is copied until they are full."""
        capacity = self.columns + columns
        return replace(self, capacity=capacity, layers=tuple(layer.reserved(capacity) for layer in self.layers))

    def select(self, rows: Tensor, width: int = 1) -> KVCache:
        """The cache of these rows, each with its own copy of the keys and values. Rows may be dropped, repeated or reordered.

        Arguments:
            rows: (M,) int64, the old row that each new row continues.
            width: W, the number of hypotheses per text so far.
        """
        return self.reorder(rows, rows if width == 1 else rows // width)

    def reorder(self, rows: Tensor, texts: Tensor | None = None) -> KVCache:
        """New row i continues the past of row `rows[i]`, a hypothesis of the same text.

        Arguments:
            rows: (M,) int64, in groups of equal size, one group per text.
            texts: (Q,) int64, the texts to keep, in order; None = all, and then no key or value is copied.
        """
        seen = None if self.seen is None else self.seen.index_select(0, rows)
        if texts is None:
            return replace(self, seen=seen)
        places = None if self.places is None else self.places.index_select(0, texts)
        return replace(self, layers=tuple(layer.select(texts) for layer in self.layers), seen=seen, places=places)

    def crop(self, length: int) -> KVCache:
        """The cache as it was after `length` slots."""
        return self._cut(length, "crop")

    def rewound(self, length: int) -> KVCache:
        """As `crop`, but the memory of the later slots is reused and overwritten by the next tokens.

        Use it only if no other code still uses the longer cache.
        """
        return self._cut(length, "rewound")

    @staticmethod
    def joined(caches: Sequence[KVCache], rows: Sequence[int]) -> KVCache:
        """One cache with the rows of several, of any lengths, aligned at the last column.

        Columns that no row sees any more, of hypotheses that were dropped, are left out.

        Arguments:
            caches: of the same layers, with W = 1; a cache before its first token is empty.
            rows: N of each cache.
        """
        device = next((part.key.device for cache in caches for part in cache.layers), None)
        seen = [
            torch.ones(count, cache.columns, dtype=torch.bool, device=device) if cache.seen is None else cache.seen
            for cache, count in zip(caches, rows, strict=True)
        ]
        lengths = torch.cat([part.sum(dim=1) for part in seen])
        columns = int(lengths.max()) if len(lengths) else 0
        # Keep as many columns of each cache as its longest row has: for each row its own columns, in order, at the end; before
        # them columns that the row does not see.
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
        """(R,) int64, the number of real tokens of each text; None if every slot holds a real token."""
        return None if self.seen is None else self.seen.unflatten(0, (texts, -1))[:, 0].sum(dim=1)

    def mask(self, width: int) -> Mask | None:
        """The mask over (R, H, W, C), True = may attend, with the W hypotheses of a text as queries; None = all to all."""
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
        buffer: the larger allocation whose first slots they are, if there is one; keys and values then have the same width.
    """

    key: Tensor
    value: Tensor
    buffer: KVBuffer | None = None

    def select(self, rows: Tensor) -> KeysValues:
        """The batch rows of the index tensor `rows`, in that order."""
        length = self.key.shape[2]
        if self.buffer is None or torch.is_grad_enabled():
            return KeysValues(self.key.index_select(0, rows), self.value.index_select(0, rows))
        # The size to which `extended` would grow the buffer: this saves one copy.
        slots = min(self.buffer.capacity, max(LEAST, 2 * length))
        return _first(KVBuffer(self.buffer.memory[:, :, :, :slots].index_select(1, rows), length), length)

    def gathered(self, columns: Tensor) -> KeysValues:
        """The slots `columns[b]`, (B, n), of each row b, in that order."""

        def of(part: Tensor) -> Tensor:
            return part.gather(2, columns[:, None, :, None].expand(-1, part.shape[1], -1, part.shape[3]))

        return KeysValues(of(self.key), of(self.value))

    @staticmethod
    def joined(parts: Sequence[KeysValues | int], length: int, slots: int) -> KeysValues:
        """The rows of several in one, each padded with zeros on the left to `length`.

        Arguments:
            parts: with the same heads and widths; an integer means that many empty rows.
            length: S of the longest.
            slots: the size of the buffer.
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
        """These keys and values followed by `later` along the key axis.

        Without gradients the buffer doubles when it is full: a text of n tokens takes n writes and log n copies.
        """
        if torch.is_grad_enabled() or self.key.shape[3] != self.value.shape[3]:
            return KeysValues(torch.cat((self.key, later.key), dim=2), torch.cat((self.value, later.value), dim=2))
        length, more = self.key.shape[2], later.key.shape[2]
        longer = self.lengthened(more)
        longer.key[:, :, length:] = later.key
        longer.value[:, :, length:] = later.value
        return longer

    def lengthened(self, more: int) -> KeysValues:
        """These keys and values followed by `more` slots that are not written yet and that no other `KeysValues` shares."""
        length = self.key.shape[2]
        buffer = self.buffer
        if buffer is None or not buffer.claim(length, more):
            least = LEAST if buffer is None else buffer.capacity
            buffer = self._copied(max(least, 2 * (length + more)), length + more)
        return _first(buffer, length + more)

    def reserved(self, slots: int) -> KeysValues:
        """The same with a buffer of this many slots in total."""
        length = self.key.shape[2]
        widths_differ = self.key.shape[3] != self.value.shape[3]
        if widths_differ or (self.buffer is not None and self.buffer.capacity >= slots):
            return self
        return _first(self._copied(max(slots, length), length), length)

    def crop(self, length: int) -> KeysValues:
        """The first `length` slots."""
        return KeysValues(self.key[:, :, :length], self.value[:, :, :length], self.buffer)

    def rewound(self, length: int) -> KeysValues:
        """As `crop`, but the memory of the later slots is reused and overwritten by the next tokens.

        Use it only if no other code still uses the longer ones.
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
    """Preallocated memory for keys and values: a new token is written into a free slot, and no earlier token is copied.

    Slots are filled in order and never overwritten, so `KeysValues` over the first n slots keep their values. Only a `KeysValues`
    over all filled slots may write the next slot. Any other one, such as a second continuation of a prompt or a cropped state,
    gets a buffer of its own.

    Arguments:
        memory: (2, B, G, C, E), keys and values.
        filled: the number of the C slots that are written.
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
        """Reserve the `more` slots after the first `length` for the caller; returns whether they were free and exist."""
        if length + more > self.capacity or (self.memory.is_inference() and not torch.is_inference_mode_enabled()):
            return False
        with self._lock:  # two threads may continue one prompt
            free = self._filled == length
            if free:
                self._filled = length + more
        return free

    def release(self, held: int, length: int) -> None:
        """Free the slots from `length` on, if the holder of the first `held` slots was the last to claim any."""
        with self._lock:
            if self._filled == held:
                self._filled = length


def _first(buffer: KVBuffer, length: int) -> KeysValues:
    filled = buffer.memory.narrow(3, 0, length)
    return KeysValues(filled[0], filled[1], buffer)
