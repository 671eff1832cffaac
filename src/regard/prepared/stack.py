"""All blocks of a decoder with quantised weights, and one memory for the keys and values of them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention import KeysValues, Mask
from regard.prepared.block import PreparedBlock
from regard.prepared.homed import Homed
from regard.prepared.kernel import BlocksKernel
from regard.prepared.native import Kernels, kernels

CACHE = torch.bfloat16
"""What keys and values are kept in: they are read again with every token, and are no more exact than what they came from."""


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
        return _again, (self.blocks,)

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
            nothing = torch.empty(rows, len(self.blocks) * first.heads, 0, first.head_width, dtype=CACHE)
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


def _again(blocks: Sequence[PreparedBlock]) -> PreparedStack:
    """In another process, by its kernels."""
    return PreparedStack(blocks, kernels())
