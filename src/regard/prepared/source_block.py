"""One block, with quantised weights, of a decoder that attends to a source."""

from __future__ import annotations

from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor

from regard.attention import KeysValues, Mask
from regard.attention.layer import merge_heads, split_heads
from regard.layers import DecoderBlock
from regard.prepared.block import PreparedBlock, joined, mapped, norms_of, product_scale, structs_of
from regard.prepared.interface import BlockStruct
from regard.prepared.native import Kernels


class PreparedSourceBlock(PreparedBlock):
    """A `DecoderBlock` with quantised weights: `PreparedBlock`, and between its two sub-layers attention over a source.

    Arguments:
        block: the block, as `obstacle_in` lets it pass.
        bits: of each weight.
        kernels: the compiled ones, or none.
    """

    def __init__(self, block: DecoderBlock, bits: Literal[8, 4], kernels: Kernels) -> None:
        super().__init__(block, bits, kernels)
        attention = block.cross_attention
        self.source_query = mapped(attention.query, bits, kernels)
        self.source_memory = joined([attention.key, attention.value], bits, kernels)
        self.source_output = mapped(attention.output, bits, kernels)
        self.source_scale = product_scale(attention, self.head_width)
        self.source_norms = norms_of(block.cross_residual)
        self.struct = self._with_source(self.struct)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.struct = self._with_source(self.struct)

    def memory(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (R, H, S, E) of an encoder's output (R, S, D)."""
        key, value = self.source_memory(source.flatten(0, 1)).unflatten(0, source.shape[:2]).chunk(2, dim=-1)
        return split_heads(key, self.heads), split_heads(value, self.heads)

    def about(
        self,
        x: Tensor,
        mask: Mask | None,
        past: KeysValues,
        present: KeysValues,
        memory: KeysValues,
        source_visible: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """(R, W, D) float32 to the same and the queries (R, H, W, E) over the source; of W hypotheses about each source.

        Arguments:
            mask, past, present: as `forward`, a column for each hypothesis.
            memory: keys and values of the sources (R, H, S, E).
            source_visible: (R, 1, 1, S) bool, True = may attend.
        """
        x = self._attended(x, mask, past, present)
        before, after = self.source_norms
        shape = x.shape[:2]
        query = split_heads(self.source_query(before(x).flatten(0, 1)).unflatten(0, shape), self.heads)
        gathered = F.scaled_dot_product_attention(
            query, memory.key.float(), memory.value.float(), attn_mask=source_visible, scale=self.source_scale
        )
        x = after(x + self.source_output(merge_heads(gathered).flatten(0, 1)).unflatten(0, shape))
        return self._fed(x), query

    def _with_source(self, struct: BlockStruct | None) -> BlockStruct | None:
        maps = structs_of((self.source_query, self.source_output))
        if struct is None or maps is None:
            return None
        struct.source_query, struct.source_output = maps
        struct.source_before, struct.source_after = (norm.struct() for norm in self.source_norms)
        struct.source_scale = self.source_scale
        return struct
