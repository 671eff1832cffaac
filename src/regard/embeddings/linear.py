"""The linear maps of a prepared encoder: plain, of bytes, or with all that follows them in one kernel; and their precisions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError, nearest

Precision = Literal["float32", "bfloat16", "int8"]
"""`int8` is weights of one byte, in float32 for everything between the matrices."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def dtype_of(precision: Precision) -> torch.dtype:
    """What is between the linear maps."""
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def check_precision(precision: str) -> Precision:
    """The precision of that name.

    Raises:
        InputError: where there is none, with the nearest.
    """
    for known in PRECISIONS:
        if precision == known:
            return known
    raise InputError(f"precision is {precision!r}; {nearest(precision, PRECISIONS)}")


Activation = Callable[[Tensor], Tensor]

LARGEST = 127
"""Of the numbers that stand for weights and activations in `int8`; -128 has no counterpart."""

USUAL_ROWS = 2048
"""Tokens that weights are laid out for; others are read too."""


class Linear(Protocol):
    """f(W x + b) + r."""

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Both of x (T, D) and r (T, outputs), where there is one, to (T, outputs)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PlainLinear:
    """A linear map in the weight's own dtype.

    Arguments:
        weight: (outputs, D).
        bias: (outputs,).
        activation: f; None for none.
    """

    weight: Tensor
    bias: Tensor
    activation: Activation | None = None

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """As `Linear`."""
        return _finished(F.linear(x, self.weight, self.bias), self.activation, residual)


@dataclass(frozen=True, slots=True, eq=False)
class ByteLinear:
    """A linear map of bytes: weights scaled output by output beforehand, activations token by token as they come.

        y = (round(x / s) W8) s w + b,   s = max |x| / 127 of each token

    The scale of a token is its own, so who else is in the batch changes nothing.

    Arguments:
        weight: W8, (D, outputs) int8.
        scale: w, (outputs,) float32.
        bias: b, (outputs,) float32.
        activation: as in `PlainLinear`.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor
    activation: Activation | None = None

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """As `Linear`, in float32."""
        scale = x.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny) / LARGEST
        bytes_of_x = (x / scale).round_().to(torch.int8)
        product = torch._int_mm(bytes_of_x, self.weight)  # pyright: ignore[reportPrivateImportUsage]
        return _finished(torch.addcmul(self.bias, product.float().mul_(scale), self.scale), self.activation, residual)


@dataclass(frozen=True, slots=True, eq=False)
class FusedLinear:
    """A linear map whose bias, activation and residual sum are part of oneDNN's matrix product.

    These are the kernels that `torch.compile` chooses on processors; each of the three would else be a pass over the memory.

    Arguments:
        weight: laid out by oneDNN.
        bias: (outputs,).
        fused: the activation's name and algorithm as oneDNN has them; no activation goes with a residual sum.
    """

    weight: Tensor
    bias: Tensor
    fused: tuple[str, str] = ("none", "none")

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """As `Linear`."""
        operation: Any = torch.ops.mkldnn._linear_pointwise
        if residual is not None:
            return operation.binary(x, residual, self.weight, self.bias, "add")
        name, algorithm = self.fused
        return operation(x, self.weight, self.bias, name, [], algorithm)


def linear(layers: Sequence[nn.Linear], precision: Precision, activation: Activation | None = None) -> Linear:
    """Linear layers that read the same as one map, their outputs one after another.

    Raises:
        InputError: where this PyTorch multiplies no bytes.
    """
    weight = torch.cat([layer.weight.detach() for layer in layers]) if len(layers) > 1 else layers[0].weight.detach()
    bias = torch.cat([_bias(layer) for layer in layers]) if len(layers) > 1 else _bias(layers[0])
    if precision == "int8":
        return _of_bytes(weight.float(), bias.float(), activation)
    dtype = dtype_of(precision)
    weight, bias = weight.to(dtype), bias.to(dtype)
    fused = _fused_name(activation)
    if dtype != torch.bfloat16 or fused is None or weight.device.type != "cpu" or not fuses():
        return PlainLinear(weight, bias, activation)
    return FusedLinear(_laid_out(weight), bias, fused)


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


def _laid_out(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), USUAL_ROWS)


def _fused_name(activation: Activation | None) -> tuple[str, str] | None:
    """What oneDNN calls an activation; None where it has none of that kind."""
    if activation is None:
        return "none", "none"
    if activation is F.relu:
        return "relu", "none"
    return ("gelu", "none") if activation is F.gelu else None


def _of_bytes(weight: Tensor, bias: Tensor, activation: Activation | None) -> ByteLinear:
    if not hasattr(torch, "_int_mm"):
        raise InputError(
            "precision int8 needs a PyTorch that multiplies matrices of bytes (2.1 or later); take bfloat16"
        )
    scale = weight.abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / LARGEST
    bytes_of_weight = (weight / scale.unsqueeze(1)).round_().to(torch.int8)
    return ByteLinear(bytes_of_weight.t().contiguous(), scale, bias, activation)


def _finished(y: Tensor, activation: Activation | None, residual: Tensor | None) -> Tensor:
    if activation is not None:
        y = activation(y)
    return y if residual is None else y.add_(residual)


def _bias(layer: nn.Linear) -> Tensor:
    return layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias.detach()
