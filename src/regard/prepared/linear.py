"""Linear maps of 8 or 4 bits, by the compiled kernels or by PyTorch."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.layers import ACTIVATIONS, Activation
from regard.prepared.interface import LinearStruct
from regard.prepared.native import Kernels, kernels
from regard.prepared.quantised import GROUP, UNIT, QuantisedWeights

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
