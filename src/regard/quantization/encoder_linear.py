"""The linear maps of a prepared encoder, for many tokens at a time: plain, of bytes, or with all that follows in one kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.quantization.linear import BITS, Precision, QuantizedLinear, in_bytes, linear_for

ActivationFunction = Callable[[Tensor], Tensor]

USUAL_ROWS = 2048
"""The number of tokens for which oneDNN chooses the layout of weights; any other number works too."""


class PackedLinear(Protocol):
    """f(W x + b) + r."""

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Both of x (T, D) and r (T, outputs), where there is one, to (T, outputs)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PlainLinear:
    """Linear layers of one input, what follows them apart.

    Arguments:
        layers: their outputs stand one after another.
        activation: f; None for none.
    """

    layers: tuple[nn.Module, ...]
    activation: ActivationFunction | None = None

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """As `PackedLinear`."""
        outputs = [layer(x) for layer in self.layers]
        return _finished(outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1), self.activation, residual)


@dataclass(frozen=True, slots=True, eq=False)
class ByteLinear:
    """A linear layer of bytes: weights scaled output by output beforehand, activations token by token as they come.

        y = (round(x / s) W8) s w + b,   s = max |x| / 127 of each token

    The scale of a token is its own, so who else is in the batch changes nothing.

    Arguments:
        weight: W8, (D, outputs) int8.
        scale: w, (outputs,) float32.
        bias: b, (outputs,) float32.
        activation: f; None for none.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor
    activation: ActivationFunction | None = None

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """As `PackedLinear`, in float32."""
        bytes_of_x, scale = in_bytes(x)
        product = torch._int_mm(bytes_of_x, self.weight)  # pyright: ignore[reportPrivateImportUsage]
        return _finished(
            torch.addcmul(self.bias, product.float().mul_(scale[:, None]), self.scale), self.activation, residual
        )


@dataclass(frozen=True, slots=True, eq=False)
class FusedLinear:
    """A linear layer whose bias, activation and residual sum are part of oneDNN's matrix product.

    These are the kernels that `torch.compile` chooses on processors; each of the three would else be a pass over the memory.

    Arguments:
        weight: in the layout that oneDNN chose.
        bias: (outputs,).
        fused: the activation's name and algorithm as oneDNN has them; no activation goes with a residual sum.
    """

    weight: Tensor
    bias: Tensor
    fused: tuple[str, str] = ("none", "none")

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """As `PackedLinear`."""
        operation: Any = torch.ops.mkldnn._linear_pointwise
        if residual is not None:
            return operation.binary(x, residual, self.weight, self.bias, "add")
        name, algorithm = self.fused
        return operation(x, self.weight, self.bias, name, [], algorithm)


def packed_linear(
    layers: Sequence[nn.Linear], precision: Precision, activation: ActivationFunction | None = None
) -> PackedLinear:
    """Linear layers of one input as a single one, their outputs one after another."""
    if precision == "int4" or (precision == "int8" and not multiplies_bytes()):
        return PlainLinear(tuple(_quantized(part, precision) for part in layers), activation)
    weight, bias = _joined(layers)
    if precision == "int8":
        return _byte_linear(weight.float(), bias.float(), activation)
    dtype = dtype_of(precision)
    weight, bias = weight.to(dtype), bias.to(dtype)
    fused = _fused_name(activation)
    if dtype != torch.bfloat16 or fused is None or weight.device.type != "cpu" or not fuses():
        return PlainLinear((_with_weights(weight, bias),), activation)
    return FusedLinear(_laid_out(weight), bias, fused)


def dtype_of(precision: Precision) -> torch.dtype:
    """What is between the linear layers."""
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


@functools.cache
def fuses() -> bool:
    """Whether this PyTorch has the kernels of `FusedLinear` and they compute what they ought to."""
    if not torch.backends.mkldnn.is_available():
        return False
    x, weight = (torch.linspace(-1, 1, 24 * 32).reshape(24, 32).roll(shift).bfloat16() for shift in (5, 17))
    bias, residual = torch.linspace(-1, 1, 24).bfloat16(), torch.linspace(-2, 2, 24 * 24).reshape(24, 24).bfloat16()
    plain = F.linear(x.float(), weight.float(), bias.float())
    try:
        laid_out = _laid_out(weight)
        found = [
            FusedLinear(laid_out, bias, fused)(x) for fused in (("none", "none"), ("relu", "none"), ("gelu", "none"))
        ]
        found.append(FusedLinear(laid_out, bias)(x, residual))
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return False
    wanted = [plain, plain.relu(), F.gelu(plain), plain + residual.float()]
    return all(
        torch.allclose(ours.float(), right, rtol=2e-2, atol=2e-2) for ours, right in zip(found, wanted, strict=True)
    )


@functools.cache
def multiplies_bytes() -> bool:
    """Whether this PyTorch's product of matrices of bytes is there and exact on this processor.

    Where the processor has no VNNI, oneDNN adds two products in 16 bits, and large ones have no room there.
    """
    x, weight = torch.full((16, 64), 127, dtype=torch.int8), torch.full((64, 32), 127, dtype=torch.int8)
    x[8:], weight[:, 16:] = -127, -127
    try:
        found = torch._int_mm(x, weight)  # pyright: ignore[reportPrivateImportUsage]
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return torch.equal(found.long(), x.long() @ weight.long())


def _quantized(layer: nn.Module, precision: Precision) -> nn.Module:
    if isinstance(layer, QuantizedLinear) and layer.bits == BITS[precision]:
        return layer
    return linear_for(layer.weight, layer.bias, precision)  # type: ignore[arg-type]


def _joined(layers: Sequence[nn.Linear]) -> tuple[Tensor, Tensor]:
    """Weight (outputs, D) and bias (outputs,) of them all; zeros for a layer that has no bias."""
    weights = [layer.weight.detach() for layer in layers]
    biases = [
        weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.detach()
        for layer, weight in zip(layers, weights, strict=True)
    ]
    return (weights[0], biases[0]) if len(layers) == 1 else (torch.cat(weights), torch.cat(biases))


def _with_weights(weight: Tensor, bias: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.weight, layer.bias = (nn.Parameter(part, requires_grad=False) for part in (weight, bias))
    return layer


def _laid_out(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), USUAL_ROWS)


def _fused_name(activation: ActivationFunction | None) -> tuple[str, str] | None:
    """What oneDNN calls an activation; None where it has none of that kind."""
    if activation is None:
        return "none", "none"
    if activation is F.relu:
        return "relu", "none"
    return ("gelu", "none") if activation is F.gelu else None


def _byte_linear(weight: Tensor, bias: Tensor, activation: ActivationFunction | None) -> ByteLinear:
    bytes_of_weight, scale = in_bytes(weight)
    return ByteLinear(bytes_of_weight.t().contiguous(), scale, bias, activation)


def _finished(y: Tensor, activation: ActivationFunction | None, residual: Tensor | None) -> Tensor:
    if activation is not None:
        y = activation(y)
    return y if residual is None else y.add_(residual)
