"""Linear maps with weights of 8 or 4 bits: how weights are rounded, and maps by the compiled kernels or by PyTorch."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError
from regard.layers import ACTIVATIONS, Activation
from regard.quantization.interface import LinearStruct
from regard.quantization.native import Kernels, kernels

QuantisedPrecision = Literal["int8", "int4"]
"""Weights of 8 bits, one scale for each output; or of 4, one for each output and 32 inputs."""

BITS: Mapping[QuantisedPrecision, Literal[8, 4]] = MappingProxyType({"int8": 8, "int4": 4})
"""Of each weight."""


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


# The maps.

AfterMap = Activation | Literal["none"]
"""What follows a linear map."""

AFTER_MAP: tuple[AfterMap, ...] = ("none", "relu", "gelu_tanh", "gelu", "swish")
"""In the order of `kernels/numbers.h`."""


def activation_name(function: object) -> Activation | None:
    """What an activation is called; None where it is none of `ACTIVATIONS`, which the kernels all have."""
    return next((name for name, own in ACTIVATIONS.items() if function is own), None)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TiledLinear:
    """f(W x + b) by the compiled kernel: weights in whole numbers, activations in bytes as they come.

    Arguments:
        struct: what the kernel is given.
        outputs: real ones, without the filling.
        inputs: likewise.
        library: the kernels.
        held: tensors that the struct points into.
    """

    struct: LinearStruct
    outputs: int
    inputs: int
    library: ctypes.CDLL
    held: tuple[Tensor, Tensor, Tensor]

    @classmethod
    def of(cls, weights: QuantisedWeights, bias: Tensor, activation: AfterMap, library: ctypes.CDLL) -> TiledLinear:
        """Lay weights out for the kernel; bias (outputs,)."""
        offset = F.pad(bias.detach().float(), (0, len(weights.values) - len(bias))).contiguous()
        return cls._holding((*weights.tiled(), offset), weights.shape, weights.bits, activation, library)

    @classmethod
    def _holding(
        cls,
        held: tuple[Tensor, Tensor, Tensor],
        shape: tuple[int, int],
        bits: int,
        activation: AfterMap,
        library: ctypes.CDLL,
    ) -> TiledLinear:
        outputs, inputs = (size + -size % unit for size, unit in zip(shape, (UNIT, GROUP), strict=True))
        places = (tensor.data_ptr() for tensor in held)
        struct = LinearStruct(outputs, inputs, bits, AFTER_MAP.index(activation), *places)
        return cls(struct=struct, outputs=shape[0], inputs=shape[1], library=library, held=held)

    def __reduce__(self) -> tuple[Any, ...]:
        activation = AFTER_MAP[self.struct.activation]
        held = tuple(
            tensor.clone() for tensor in self.held
        )  # multiprocessing moves those it sends, and the struct points here
        return _again, (held, (self.outputs, self.inputs), self.struct.bits, activation)

    def __call__(self, x: Tensor) -> Tensor:
        """(T, inputs) float32 to (T, outputs) float32."""
        x = F.pad(x.float(), (0, self.struct.inputs - self.inputs)).contiguous()
        y = torch.empty(len(x), self.outputs)
        scratch = torch.empty(self.library.regard_linear_scratch(self.struct, len(x)), dtype=torch.uint8)
        self.library.regard_linear(self.struct, x.data_ptr(), len(x), y.data_ptr(), self.outputs, scratch.data_ptr())
        return y


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RoundedLinear:
    """f(W x + b) by PyTorch, with the numbers that quantised weights stand for: as exact as those, as fast as bfloat16.

    Arguments:
        weight: (outputs, inputs) bfloat16.
        bias: (outputs,) bfloat16.
        activation: f.
    """

    weight: Tensor
    bias: Tensor
    activation: AfterMap

    def __call__(self, x: Tensor) -> Tensor:
        """(T, inputs) float32 to (T, outputs) float32."""
        y = F.linear(x.to(self.weight.dtype), self.weight, self.bias).float()
        return y if self.activation == "none" else ACTIVATIONS[self.activation](y)


QuantisedLinear = TiledLinear | RoundedLinear


def _again(
    held: tuple[Tensor, Tensor, Tensor], shape: tuple[int, int], bits: Literal[8, 4], activation: AfterMap
) -> QuantisedLinear:
    """A `TiledLinear` in another process, which has kernels of its own, or none."""
    library = kernels().library
    if library is not None:
        return TiledLinear._holding(held, shape, bits, activation, library)
    values, scales, offset = held
    weight = QuantisedWeights.of_tiles(values, scales, shape, bits).dequantised().bfloat16()
    return RoundedLinear(weight=weight, bias=offset[: shape[0]].bfloat16(), activation=activation)


def quantised_linear(
    weight: Tensor, bias: Tensor | None, bits: Literal[8, 4], built: Kernels, activation: AfterMap = "none"
) -> QuantisedLinear:
    """A linear map (outputs, inputs) with so many bits a weight, by the kernels where there are any."""
    weights = QuantisedWeights.of(weight, bits)
    offset = weight.new_zeros(len(weight)) if bias is None else bias.detach()
    if built.library is not None:
        return TiledLinear.of(weights, offset, activation, built.library)
    return RoundedLinear(weight=weights.dequantised().bfloat16(), bias=offset.bfloat16(), activation=activation)
