"""Linear layers of a packed encoder, for many tokens at a time: plain, or fused with what follows in one kernel of oneDNN."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.quantization.linear import BITS, Precision, QuantizedLinear, linear_for

ActivationFunction = Callable[[Tensor], Tensor]

USUAL_ROWS = 2048
"""The number of tokens for which oneDNN chooses the weights' layout; any other number works too."""


class PackedLinear(Protocol):
    """f(W x + b) + r, with an activation f and a residual r."""

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """From x (T, D) and an optional r (T, outputs) to (T, outputs)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PlainLinear:
    """Linear layers with the same input; activation and residual are applied separately.

    Arguments:
        layers: their outputs are concatenated.
        activation: f; None for none.
    """

    layers: tuple[nn.Module, ...]
    activation: ActivationFunction | None = None

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """As `PackedLinear`."""
        outputs = [layer(x) for layer in self.layers]
        return _finished(outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1), self.activation, residual)


@dataclass(frozen=True, slots=True, eq=False)
class FusedLinear:
    """A linear layer whose bias, activation and residual are fused into oneDNN's matrix product.

    These are the kernels that `torch.compile` chooses on CPUs; unfused, each of the three would pass over the memory once more.

    Arguments:
        weight: in the layout that oneDNN chose.
        bias: (outputs,).
        fused: oneDNN's name and algorithm for the activation; an activation and a residual cannot be fused together.
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
    """Several linear layers with the same input as one layer, whose outputs are concatenated, in a precision."""
    if precision in BITS:
        return PlainLinear(tuple(_quantized(part, precision) for part in layers), activation)
    weight, bias = _joined(layers)
    dtype = dtype_of(precision)
    weight, bias = weight.to(dtype), bias.to(dtype)
    fused = _fused_name(activation)
    if dtype != torch.bfloat16 or fused is None or weight.device.type != "cpu" or not fuses():
        return PlainLinear((_with_weights(weight, bias),), activation)
    return FusedLinear(_laid_out(weight), bias, fused)


def dtype_of(precision: Precision) -> torch.dtype:
    """The dtype between the linear layers."""
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


@functools.cache
def fuses() -> bool:
    """Whether this PyTorch has the kernels of `FusedLinear`, and they compute correct results."""
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


def _quantized(layer: nn.Module, precision: Precision) -> nn.Module:
    if isinstance(layer, QuantizedLinear) and layer.bits == BITS[precision]:
        return layer
    return linear_for(layer.weight, layer.bias, precision)  # type: ignore[arg-type]


def _joined(layers: Sequence[nn.Linear]) -> tuple[Tensor, Tensor]:
    """The concatenated weight (outputs, D) and bias (outputs,); zeros for layers without a bias."""
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
    """The name and algorithm of an activation in oneDNN; None where it has none."""
    if activation is None:
        return "none", "none"
    if activation is F.relu:
        return "relu", "none"
    return ("gelu", "none") if activation is F.gelu else None


def _finished(y: Tensor, activation: ActivationFunction | None, residual: Tensor | None) -> Tensor:
    if activation is not None:
        y = activation(y)
    return y if residual is None else y.add_(residual)
