"""All blocks with quantised weights of a decoder, and the keys and values that they keep.

A token of each row goes through all blocks in one call of the compiled kernel (`BlocksKernel`); without kernels it goes block by
block. `PreparedStack` is a language model's; `PreparedSourceStack` also attends to sources, and `PreparedState` is what it
carries from step to step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor

from regard.attention import KeysValues, KVCache, Mask, Room
from regard.layers import CACHE, LAST_STEP, SOURCE, DecoderState
from regard.layers.state import side_by_side
from regard.quantization.blocks import PreparedBlock, PreparedSourceBlock
from regard.quantization.interface import BlockStruct, CacheStruct, Pointer
from regard.quantization.native import Kernels, kernels

CACHE_DTYPE = torch.bfloat16
"""What keys and values are kept in: they are read again with every token, and are no more exact than what they came from."""


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


@dataclass(frozen=True, slots=True, eq=False)
class SourceRead:
    """What a step attends to besides its own past.

    Arguments:
        held: keys and values of the sources.
        visible: (R, S) bool, True = may be attended to.
        asked: the block whose queries are wanted.
        queries: (N, H, E) float32, where they are written.
    """

    held: Homed
    visible: Tensor
    asked: int
    queries: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class BlocksKernel:
    """One token of each row through blocks of one shape, which hold what the structs point into.

    Arguments:
        library: the compiled kernels.
        structs: the blocks, as the kernel is given them.
    """

    library: ctypes.CDLL
    structs: ctypes.Array[BlockStruct]

    @classmethod
    def of(cls, blocks: Sequence[PreparedBlock], kernels: Kernels) -> Self | None:
        """The kernel for these blocks; None where there is none, or it takes no such block."""
        structs = [block.struct for block in blocks if block.struct is not None]
        if kernels.library is None or not structs or len(structs) < len(blocks):
            return None
        return cls(kernels.library, (BlockStruct * len(structs))(*structs))

    def __call__(
        self,
        x: Tensor,
        past: Homed,
        visible: Sequence[Tensor | None],
        *,
        beside: int = 1,
        source: SourceRead | None = None,
    ) -> Tensor:
        """(N, D) float32 to the same; the keys and values of these tokens are written into the last columns of `past`.

        Arguments:
            past: of the tokens before and these, `beside` columns for these.
            visible: of each block (N, C) bool, contiguous, True = may be attended to; None = all.
            beside: how many rows there are about each text, next to one another.
            source: what is attended to besides.
        """
        y = x.clone(memory_format=torch.contiguous_format)  # which the kernel changes in place
        own, read = past.struct(), None if source is None else source.held.struct()
        columns = own.columns if read is None else max(own.columns, read.columns)
        scratch = torch.empty(self.library.regard_blocks_scratch(self.structs, len(x), columns), dtype=torch.uint8)
        about: tuple[Any, ...] = (None, None, -1, None)
        if source is not None:
            about = (read, source.visible.data_ptr(), source.asked, source.queries.data_ptr())
        places = [None if seen is None else seen.data_ptr() for seen in visible]
        self.library.regard_blocks(
            self.structs,
            len(self.structs),
            y.data_ptr(),
            len(x),
            beside,
            own,
            (Pointer * len(places))(*places),
            *about,
            scratch.data_ptr(),
        )
        return y


class PreparedStack:
    """Blocks one after another. A token alone goes through all of them in one call of the kernel.

    Arguments:
        blocks: of one shape.
        built: the compiled ones, or none.
    """

    def __init__(self, blocks: Sequence[PreparedBlock], built: Kernels) -> None:
        self.blocks = tuple(blocks)
        self.kernel = BlocksKernel.of(blocks, built)

    def __reduce__(self) -> tuple[Any, ...]:
        return _stack_again, (self.blocks,)

    def __call__(
        self, x: Tensor, masks: Sequence[Mask | None], past: KeysValues | None, *, width: int = 1
    ) -> tuple[Tensor, KeysValues]:
        """(B, L, D) float32 through all blocks.

        Arguments:
            masks: of each block over (B, H, L, past + L), True = may attend.
            past: (B, blocks * H, S, E), those of the first block first; None before the first token.
            width: above 1 where x is (R, W, D), a token of each of W hypotheses about R texts, which do not follow one another.

        Returns:
            (B, L, D); keys and values of past and present tokens.
        """
        rows, length = x.shape[:2]
        first = self.blocks[0]
        if past is None:
            nothing = torch.empty(rows, len(self.blocks) * first.heads, 0, first.head_width, dtype=CACHE_DTYPE)
            past = KeysValues(nothing, nothing)
        present = past.lengthened(length)
        if length == width and self.kernel is not None:
            return self._token(self.kernel, x, masks, present), present
        for index, (block, mask) in enumerate(zip(self.blocks, masks, strict=True)):
            own = slice(index * block.heads, (index + 1) * block.heads)
            before = KeysValues(past.key[:, own], past.value[:, own])
            x = block(x, mask, before, KeysValues(present.key[:, own], present.value[:, own]))
        return x, present

    def _token(self, kernel: BlocksKernel, x: Tensor, masks: Sequence[Mask | None], present: KeysValues) -> Tensor:
        """One token of each row by the kernel: (R, W, D) to (R, W, D)."""
        columns = present.key.shape[2]
        seen = {id(mask): self._visible(mask, x, columns) for mask in masks if mask is not None}
        visible = [None if mask is None else seen[id(mask)] for mask in masks]
        return kernel(x.flatten(0, 1), Homed(present), visible, beside=x.shape[1]).view_as(x)

    @staticmethod
    def _visible(mask: Mask, x: Tensor, columns: int) -> Tensor:
        texts, width = x.shape[:2]
        seen = mask.dense(batch=texts, heads=1, queries=width, keys=columns, device=x.device)
        return seen.expand(texts, 1, width, columns).reshape(texts * width, columns).contiguous()


def _stack_again(blocks: Sequence[PreparedBlock]) -> PreparedStack:
    """In another process, by its kernels."""
    return PreparedStack(blocks, kernels())


# A decoder that attends to a source.


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedState(DecoderState):
    """N hypotheses about R of the P sources that were read together, as `TransformerState` has them.

    Arguments:
        memory: keys and values of all P sources, those of the first block first (P, blocks * H, S, E) bfloat16. They stay
            where they are.
        homes: (R,) int64, which of the P each source is.
        cache: all that was written about each source so far, the tokens of all its hypotheses side by side: one `Homed` of all
            blocks, (P, blocks * H, C, E).
        query: (N, H, E), the alignment block's last query over the source; None before the first step.
    """

    memory: KeysValues
    homes: Tensor = field(metadata=SOURCE)
    cache: KVCache = field(default_factory=KVCache, metadata=CACHE)
    query: Tensor | None = field(default=None, metadata=LAST_STEP)

    @classmethod
    def _joined(cls, states: Sequence[Any]) -> Self:
        """As `DecoderState`, each source's keys and values in a row of its own."""
        settled = [
            replace(state, cache=replace(state.cache, layers=tuple(part.settled() for part in state.cache.layers)))
            for state in states
        ]
        joined = super()._joined(settled)
        cache = replace(joined.cache, layers=tuple(Homed(part) for part in joined.cache.layers))
        memory = side_by_side([state.memory.select(state.homes) for state in states])
        return replace(
            joined,
            cache=cache,
            homes=torch.arange(len(joined.source_valid)),
            memory=memory.reserved(memory.key.shape[2]),  # in a room, as the kernel wants it
        )


class PreparedSourceStack:
    """Blocks one after another. A token of every hypothesis goes through all of them in one call of the kernel.

    Arguments:
        blocks: of one shape.
        built: the compiled ones, or none.
        asked: the block whose queries over the source are wanted.
    """

    def __init__(self, blocks: Sequence[PreparedSourceBlock], built: Kernels, asked: int) -> None:
        self.blocks = tuple(blocks)
        self.kernel = BlocksKernel.of(blocks, built)
        self.asked = asked % len(blocks)

    def __reduce__(self) -> tuple[Any, ...]:
        return _source_stack_again, (self.blocks, self.asked)

    def memory(self, source: Tensor) -> KeysValues:
        """Keys and values for all blocks (R, blocks * H, S, E) of an encoder's output (R, S, D)."""
        first, (rows, length) = self.blocks[0], source.shape[:2]
        memory = torch.empty(2, rows, len(self.blocks) * first.heads, length, first.head_width, dtype=CACHE_DTYPE)
        for index, block in enumerate(self.blocks):
            memory[0, :, self._own(index)], memory[1, :, self._own(index)] = block.memory(source)
        return KeysValues(memory[0], memory[1], Room(memory, length))

    def __call__(self, x: Tensor, state: PreparedState, cache: KVCache) -> tuple[Tensor, KVCache, Tensor]:
        """The newest tokens (N, D) float32 through all blocks.

        Arguments:
            state: what they read and wrote before.
            cache: with columns for the newest tokens.

        Returns:
            (N, D); the cache, filled; the asked block's queries (N, H, E).
        """
        if cache.layers:
            past: Homed = cache.layers[0]
        else:
            heads, _, width = state.memory.key.shape[1:]
            nothing = torch.empty(len(state.homes), heads, 0, width, dtype=CACHE_DTYPE)
            past = Homed(KeysValues(nothing, nothing))
        if self.kernel is None:
            return self._by_blocks(x, state, cache, past.settled())
        present = past.lengthened(state.width)
        query = torch.empty(len(x), self.blocks[0].heads, self.blocks[0].head_width)
        source = SourceRead(Homed(state.memory, state.homes), state.source_valid.contiguous(), self.asked, query)
        seen = None if cache.seen is None else cache.seen.contiguous()
        y = self.kernel(x, present, [seen] * len(self.blocks), beside=state.width, source=source)
        return y, cache.filled([present]), query

    def _by_blocks(
        self, x: Tensor, state: PreparedState, cache: KVCache, past: KeysValues
    ) -> tuple[Tensor, KVCache, Tensor]:
        """The same block by block: the hypotheses about one source are so many queries."""
        present = past.lengthened(state.width)
        memory = state.memory.select(state.homes)
        visible = state.source_valid[:, None, None]
        mask, queries = cache.mask(state.width), []
        x = state.by_source(x)
        for index, block in enumerate(self.blocks):
            own, new, read = (_part(whole, self._own(index)) for whole in (past, present, memory))
            x, asked = block.about(x, mask, own, new, read, visible)
            queries.append(asked)
        query = queries[self.asked].transpose(1, 2).flatten(0, 1)
        return x.flatten(0, 1), cache.filled([Homed(present)]), query

    def _own(self, index: int) -> slice:
        """The heads of one block among those of all."""
        heads = self.blocks[0].heads
        return slice(index * heads, (index + 1) * heads)


def _source_stack_again(blocks: Sequence[PreparedSourceBlock], asked: int) -> PreparedSourceStack:
    """In another process, by its kernels."""
    return PreparedSourceStack(blocks, kernels(), asked)


def _part(whole: KeysValues, heads: slice) -> KeysValues:
    return KeysValues(whole.key[:, heads], whole.value[:, heads])
