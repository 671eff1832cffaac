"""Linear maps for use: how weights are rounded to 8 or 4 bits, and what computes with them.

`quantised_linear` makes the maps of decoders and Transformers, by the compiled kernels or by PyTorch; `linear` those of encoders
that read many texts at once (`PackedEncoder`), in float32, bfloat16 or bytes.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, Protocol, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError, nearest
from regard.layers import ACTIVATIONS, Activation
from regard.quantization.interface import LinearStruct
from regard.quantization.native import Kernels, kernels

QuantisedPrecision = Literal["int8", "int4"]
"""Weights of 8 bits, one scale for each output; or of 4, one for each output and 32 inputs."""

BITS: Mapping[QuantisedPrecision, Literal[8, 4]] = MappingProxyType({"int8": 8, "int4": 4})
"""Of each weight."""

LARGEST = 127
"""Of the numbers that stand for weights and activations in 8 bits; -128 has no counterpart."""

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
        quantise = in_bytes if bits == 8 else _of_nibbles
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


def in_bytes(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (N, K) as the nearest whole numbers in [-127, 127] (int8), and the scale of each (N,): its largest magnitude / 127."""
    scales = rows.abs().amax(dim=1).clamp_min(torch.finfo(rows.dtype).tiny) / LARGEST
    return (rows / scales[:, None]).round_().to(torch.int8), scales


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


def joined(layers: Sequence[nn.Linear]) -> tuple[Tensor, Tensor]:
    """Layers that read the same as one map: weight (outputs, D) and bias (outputs,), zeros for a layer that has none."""
    weights = [layer.weight.detach() for layer in layers]
    biases = [
        layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias.detach() for layer in layers
    ]
    return (weights[0], biases[0]) if len(layers) == 1 else (torch.cat(weights), torch.cat(biases))


# Maps of decoders and Transformers, in 8 or 4 bits.

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
        # Copies: multiprocessing moves the tensors that it sends, and the struct points to these.
        held = tuple(tensor.clone() for tensor in self.held)
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


# Maps of encoders: thousands of tokens at a time, plain, of bytes, or with all that follows them in one kernel.

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


ActivationFunction = Callable[[Tensor], Tensor]

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
    activation: ActivationFunction | None = None

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
    activation: ActivationFunction | None = None

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """As `Linear`, in float32."""
        bytes_of_x, scale = in_bytes(x)
        product = torch._int_mm(bytes_of_x, self.weight)  # pyright: ignore[reportPrivateImportUsage]
        return _finished(
            torch.addcmul(self.bias, product.float().mul_(scale[:, None]), self.scale), self.activation, residual
        )


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


def linear(layers: Sequence[nn.Linear], precision: Precision, activation: ActivationFunction | None = None) -> Linear:
    """Linear layers that read the same as one map, their outputs one after another.

    Raises:
        InputError: where this PyTorch multiplies no bytes.
    """
    weight, bias = joined(layers)
    if precision == "int8":
        return _byte_linear(weight.float(), bias.float(), activation)
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


def _fused_name(activation: ActivationFunction | None) -> tuple[str, str] | None:
    """What oneDNN calls an activation; None where it has none of that kind."""
    if activation is None:
        return "none", "none"
    if activation is F.relu:
        return "relu", "none"
    return ("gelu", "none") if activation is F.gelu else None


def _byte_linear(weight: Tensor, bias: Tensor, activation: ActivationFunction | None) -> ByteLinear:
    if not hasattr(torch, "_int_mm"):
        raise InputError(
            "precision int8 needs a PyTorch that multiplies matrices of bytes (2.1 or later); take bfloat16"
        )
    bytes_of_weight, scale = in_bytes(weight)
    return ByteLinear(bytes_of_weight.t().contiguous(), scale, bias, activation)


def _finished(y: Tensor, activation: ActivationFunction | None, residual: Tensor | None) -> Tensor:
    if activation is not None:
        y = activation(y)
    return y if residual is None else y.add_(residual)
