"""All blocks, with quantised weights, of a decoder that attends to a source."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention import KeysValues
from regard.attention.keys_values import Room
from regard.layers import Ancestry
from regard.prepared.homed import Homed
from regard.prepared.native import BlockStruct, CacheStruct, Kernels, Pointer
from regard.prepared.source_block import PreparedSourceBlock
from regard.prepared.source_state import PreparedState
from regard.prepared.stack import CACHE


class PreparedSourceStack:
    """Blocks one after another. A token of every hypothesis goes through all of them in one call of the kernel.

    Arguments:
        blocks: of one shape.
        kernels: the compiled ones, or none.
        asked: the block whose queries over the source are wanted.
    """

    def __init__(self, blocks: Sequence[PreparedSourceBlock], kernels: Kernels, asked: int) -> None:
        self.blocks = tuple(blocks)
        self.library = kernels.library
        self.asked = asked % len(blocks)
        structs = [block.struct for block in blocks if block.struct is not None]
        self.structs = (BlockStruct * len(structs))(*structs) if len(structs) == len(blocks) else None

    def memory(self, source: Tensor) -> KeysValues:
        """Keys and values for all blocks (R, blocks * H, S, E) of an encoder's output (R, S, D)."""
        first, (rows, length) = self.blocks[0], source.shape[:2]
        memory = torch.empty(2, rows, len(self.blocks) * first.heads, length, first.head_width, dtype=CACHE)
        for index, block in enumerate(self.blocks):
            memory[0, :, self._own(index)], memory[1, :, self._own(index)] = block.memory(source)
        return KeysValues(memory[0], memory[1], Room(memory, length))

    def __call__(self, x: Tensor, state: PreparedState, ancestry: Ancestry) -> tuple[Tensor, Homed, Tensor]:
        """The newest tokens (N, D) float32 through all blocks.

        Arguments:
            state: what they read and wrote before.
            ancestry: with the newest tokens.

        Returns:
            (N, D); keys and values with those of the newest tokens; the asked block's queries (N, H, E).
        """
        past = state.past
        if past is None:
            heads, _, width = state.memory.key.shape[1:]
            nothing = torch.empty(len(state.homes), heads, 0, width, dtype=CACHE)
            past = Homed(KeysValues(nothing, nothing))
        if self.structs is None:
            return self._by_blocks(x, state, ancestry, past.settled())
        present = past.lengthened(state.width)
        return self._by_kernel(x, state, ancestry, present)

    def _by_kernel(
        self, x: Tensor, state: PreparedState, ancestry: Ancestry, present: Homed
    ) -> tuple[Tensor, Homed, Tensor]:
        if self.library is None:
            raise RuntimeError("the kernel was called without a library")
        rows, first = len(x), self.blocks[0]
        y = x.clone(memory_format=torch.contiguous_format)  # which the kernel changes in place
        query = torch.empty(rows, first.heads, first.head_width)
        homes = None if present.homes is None else present.homes.contiguous()
        source_homes, source_valid = state.homes.contiguous(), state.source_valid.contiguous()
        seen = None if ancestry.seen is None else ancestry.seen.contiguous()
        written, read = _cache(present.held, homes), _cache(state.memory, source_homes)
        columns = max(written.columns, read.columns)
        scratch = torch.empty(self.library.regard_blocks_scratch(self.structs, rows, columns), dtype=torch.uint8)
        visible = (Pointer * len(self.blocks))(*[None if seen is None else seen.data_ptr()] * len(self.blocks))
        self.library.regard_blocks(
            self.structs,
            len(self.blocks),
            y.data_ptr(),
            rows,
            state.width,
            written,
            visible,
            read,
            source_valid.data_ptr(),
            self.asked,
            query.data_ptr(),
            scratch.data_ptr(),
        )
        return y, present, query

    def _by_blocks(
        self, x: Tensor, state: PreparedState, ancestry: Ancestry, past: KeysValues
    ) -> tuple[Tensor, Homed, Tensor]:
        """The same block by block: the hypotheses about one source are so many queries."""
        present = past.lengthened(state.width)
        memory = state.memory.select(state.homes)
        visible = state.source_valid[:, None, None]
        mask, queries = ancestry.mask(state.width), []
        x = state.by_source(x)
        for index, block in enumerate(self.blocks):
            own, new, read = (_part(whole, self._own(index)) for whole in (past, present, memory))
            x, query = block.about(x, mask, own, new, read, visible)
            queries.append(query)
        return x.flatten(0, 1), Homed(present), queries[self.asked].transpose(1, 2).flatten(0, 1)

    def _own(self, index: int) -> slice:
        """The heads of one block among those of all."""
        heads = self.blocks[0].heads
        return slice(index * heads, (index + 1) * heads)


def _part(whole: KeysValues, heads: slice) -> KeysValues:
    return KeysValues(whole.key[:, heads], whole.value[:, heads])


def _cache(held: KeysValues, homes: Tensor | None) -> CacheStruct:
    room = held.room
    if room is None:
        raise RuntimeError("the kernel was called without a room")
    place = None if homes is None else homes.data_ptr()
    return CacheStruct(room.memory.data_ptr(), place, room.memory.shape[1], room.capacity, held.key.shape[2])
