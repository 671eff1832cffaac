"""Linear maps of 8 or 4 bits, by the compiled kernels or by PyTorch."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.layers import ACTIVATIONS, Activation
from regard.prepared.interface import LinearStruct
from regard.prepared.native import Kernels
from regard.prepared.quantised import QuantisedWeights

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
    held: tuple[Tensor, ...]

    @classmethod
    def of(cls, weights: QuantisedWeights, bias: Tensor, activation: AfterMap, library: ctypes.CDLL) -> TiledLinear:
        """Lay weights out for the kernel; bias (outputs,)."""
        values, scales = weights.tiled()
        outputs, inputs = weights.values.shape
        offset = F.pad(bias.detach().float(), (0, outputs - len(bias))).contiguous()
        struct = LinearStruct(
            outputs,
            inputs,
            weights.bits,
            AFTER_MAP.index(activation),
            values.data_ptr(),
            scales.data_ptr(),
            offset.data_ptr(),
        )
        held = (values, scales, offset)
        return cls(struct=struct, outputs=weights.shape[0], inputs=weights.shape[1], library=library, held=held)

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


def quantised_linear(
    weight: Tensor, bias: Tensor | None, bits: Literal[8, 4], kernels: Kernels, activation: AfterMap = "none"
) -> QuantisedLinear:
    """A linear map (outputs, inputs) with so many bits a weight, by the kernels where there are any."""
    weights = QuantisedWeights.of(weight, bits)
    offset = weight.new_zeros(len(weight)) if bias is None else bias.detach()
    if kernels.library is not None:
        return TiledLinear.of(weights, offset, activation, kernels.library)
    return RoundedLinear(weight=weights.dequantised().bfloat16(), bias=offset.bfloat16(), activation=activation)
