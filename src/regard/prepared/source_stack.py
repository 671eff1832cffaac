"""All blocks, with quantised weights, of a decoder that attends to a source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention import KeysValues, KVCache, Room
from regard.prepared.homed import Homed
from regard.prepared.kernel import BlocksKernel, SourceRead
from regard.prepared.native import Kernels, kernels
from regard.prepared.source_block import PreparedSourceBlock
from regard.prepared.source_state import PreparedState
from regard.prepared.stack import CACHE


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
        return _again, (self.blocks, self.asked)

    def memory(self, source: Tensor) -> KeysValues:
        """Keys and values for all blocks (R, blocks * H, S, E) of an encoder's output (R, S, D)."""
        first, (rows, length) = self.blocks[0], source.shape[:2]
        memory = torch.empty(2, rows, len(self.blocks) * first.heads, length, first.head_width, dtype=CACHE)
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
            nothing = torch.empty(len(state.homes), heads, 0, width, dtype=CACHE)
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


def _again(blocks: Sequence[PreparedSourceBlock], asked: int) -> PreparedSourceStack:
    """In another process, by its kernels."""
    return PreparedSourceStack(blocks, kernels(), asked)


def _part(whole: KeysValues, heads: slice) -> KeysValues:
    return KeysValues(whole.key[:, heads], whole.value[:, heads])
