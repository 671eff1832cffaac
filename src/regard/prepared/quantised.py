"""Weights of 8 or 4 bits, and the tiles in which a processor reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError

GROUP = 32
"""Inputs that share a scale: of the activations always, of weights of 4 bits too."""

TILE = 16
"""Outputs that stand together."""

UNIT = 32
"""What the number of outputs is filled up to a multiple of."""

NARROWINGS = torch.linspace(0.7, 1.0, 13)
"""Shares of the largest magnitude that are tried as the end of a 4-bit scale: cutting a rare large weight off may make all others
finer."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class QuantisedWeights:
    """A weight (outputs, inputs) in whole numbers and their scales.

        W_ok ~ w_o Q_ok,  Q in [-127, 127], w_o = max_k |W_ok| / 127                      8 bits
        W_ok ~ w_og Q_ok,  Q in [-8, 7], w_og for each group g of 32 inputs               4 bits

    The scale of a 4-bit group is that of `NARROWINGS` with the least squared error, in bfloat16.

    Arguments:
        values: (outputs, inputs) int8, both filled up with zeros to multiples of `UNIT` and `GROUP`.
        scales: (outputs,) float32, or (outputs, inputs / GROUP) bfloat16.
        shape: (outputs, inputs) without the filling.
        bits: 8 or 4.

    >>> weights = QuantisedWeights.of(torch.tensor([[1.0, -0.5, 0.25]]), 8)
    >>> [round(x, 2) for x in weights.dequantised()[0].tolist()]
    [1.0, -0.5, 0.25]
    """

    values: Tensor
    scales: Tensor
    shape: tuple[int, int]
    bits: Literal[8, 4]

    @classmethod
    def of(cls, weight: Tensor, bits: Literal[8, 4]) -> QuantisedWeights:
        """The nearest such weights, (outputs, inputs) in any floating dtype.

        Raises:
            InputError: for weights that hold NaN or an infinite number, which no whole number stands for.
        """
        if not weight.isfinite().all():
            raise InputError(
                f"weights that hold NaN or infinite numbers cannot be rounded to {bits} bits; take an earlier checkpoint"
            )
        outputs, inputs = weight.shape
        filled = F.pad(weight.detach().float(), (0, -inputs % GROUP, 0, -outputs % UNIT))
        quantise = _of_bytes if bits == 8 else _of_nibbles
        values, scales = quantise(filled)
        return cls(values=values, scales=scales, shape=(outputs, inputs), bits=bits)

    def dequantised(self) -> Tensor:
        """(outputs, inputs) float32: what the numbers stand for."""
        outputs, inputs = self.shape
        scales = self.scales.float()
        if self.bits == 8:
            return (self.values * scales[:, None])[:outputs, :inputs]
        return (self.values.unflatten(1, (-1, GROUP)) * scales[..., None]).flatten(1)[:outputs, :inputs]

    def tiled(self) -> tuple[Tensor, Tensor]:
        """Values and scales as `kernels/linear.h` reads them: 16 outputs together, four inputs after one another, unsigned.

        Of 4 bits, two such fours share their bytes: the first in the low half, the second in the high one.
        """
        outputs, inputs = self.values.shape
        if self.bits == 8:
            values = (self.values.short() + 128).to(torch.uint8).view(outputs // TILE, TILE, inputs // 4, 4)
            return values.permute(0, 2, 1, 3).contiguous(), self.scales.contiguous()
        values = (self.values + 8).to(torch.uint8).view(outputs // TILE, TILE, inputs // 8, 2, 4).permute(0, 2, 3, 1, 4)
        scales = self.scales.view(outputs // TILE, TILE, inputs // GROUP).transpose(1, 2)
        return (values[:, :, 0] | values[:, :, 1] << 4).contiguous(), scales.contiguous()

    @classmethod
    def of_tiles(cls, values: Tensor, scales: Tensor, shape: tuple[int, int], bits: Literal[8, 4]) -> QuantisedWeights:
        """The weights whose `tiled` these are.

        >>> weights = QuantisedWeights.of(torch.linspace(-1, 1, 70).view(2, 35), 4)
        >>> again = QuantisedWeights.of_tiles(*weights.tiled(), weights.shape, 4)
        >>> torch.equal(again.values, weights.values), torch.equal(again.scales, weights.scales)
        (True, True)
        """
        outputs = len(values) * TILE
        if bits == 8:
            plain = values.permute(0, 2, 1, 3).reshape(outputs, -1).short() - 128
        else:
            both = torch.stack([values & 15, values >> 4], dim=2).permute(0, 3, 1, 2, 4)
            plain, scales = both.reshape(outputs, -1).short() - 8, scales.transpose(1, 2).reshape(outputs, -1)
        return cls(values=plain.to(torch.int8), scales=scales, shape=shape, bits=bits)


def _of_bytes(weight: Tensor) -> tuple[Tensor, Tensor]:
    scales = weight.abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / 127
    return (weight / scales[:, None]).round_().to(torch.int8), scales


def _of_nibbles(weight: Tensor) -> tuple[Tensor, Tensor]:
    groups = weight.unflatten(1, (-1, GROUP))
    # The number of the largest magnitude becomes -8, the one end of the range that has no counterpart.
    place = groups.abs().argmax(dim=2, keepdim=True)
    widest = groups.gather(2, place).squeeze(2) / -8
    best = torch.full_like(widest, torch.inf)
    scales = torch.zeros_like(widest)
    for share in NARROWINGS.tolist():
        tried = (widest * share).bfloat16().float()
        error = (groups - _nibbles(groups, tried) * tried[..., None]).square().sum(dim=2)
        better = error < best
        best, scales = torch.where(better, error, best), torch.where(better, tried, scales)
    return _nibbles(groups, scales).to(torch.int8).flatten(1), scales.bfloat16()


def _nibbles(groups: Tensor, scales: Tensor) -> Tensor:
    inverse = torch.where(scales == 0, 0.0, 1 / scales)
    return (groups * inverse[..., None]).round_().clamp_(-8, 7)
