"""Linear layers for inference: weights of 8 or 4 bits, or bfloat16, in the place of `nn.Linear`.

`QuantizedWeights` says how weights are rounded, `QuantizedLinear` computes with them, by the compiled kernels or by PyTorch, and
`inference_copy` copies a module with such layers in the place of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NoReturn, Self, TypeVar, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import BatchInvariant, Rotary
from regard.errors import InputError, nearest
from regard.layers import ACTIVATIONS, Activation
from regard.quantization.interface import LinearStruct
from regard.quantization.invariance import InvariantActivation
from regard.quantization.memory import LargePages
from regard.quantization.native import Kernels, kernels

QuantizedPrecision = Literal["int8", "int4"]
"""Weights of 8 bits, one scale for each output; or of 4, one for each output and 32 inputs."""

Precision = Literal["float32", "bfloat16", "int8", "int4"]
"""Of weights. All between the linear layers is in float32; in encoders that read without padding in bfloat16 next to bfloat16."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)

BITS: Mapping[str, Literal[8, 4]] = MappingProxyType({"int8": 8, "int4": 4})
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

INFERENCE_ONLY = (
    "its weights are {weights}, which is for inference, not for training or saving; take the model it was made of"
)

M = TypeVar("M", bound=nn.Module)


def check_precision(precision: str) -> Precision:
    """The precision of that name.

    Raises:
        InputError: where there is none, with the nearest.
    """
    for known in PRECISIONS:
        if precision == known:
            return known
    raise InputError(f"precision is {precision!r}; {nearest(precision, PRECISIONS)}")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class QuantizedWeights:
    """A weight (outputs, inputs) in whole numbers and their scales.

        W_ok ~ w_o Q_ok,  Q in [-127, 127], w_o = max_k |W_ok| / 127                      8 bits
        W_ok ~ w_og Q_ok,  Q in [-8, 7], w_og for each group g of 32 inputs               4 bits

    The scale of a 4-bit group is that of `NARROWINGS` with the least squared error, in bfloat16.

    Arguments:
        values: (outputs, inputs) int8, both filled up with zeros to multiples of `UNIT` and `GROUP`.
        scales: (outputs,) float32, or (outputs, inputs / GROUP) bfloat16.
        shape: (outputs, inputs) without the filling.
        bits: 8 or 4.

    >>> weights = QuantizedWeights.of(torch.tensor([[1.0, -0.5, 0.25]]), 8)
    >>> [round(x, 2) for x in weights.dequantized()[0].tolist()]
    [1.0, -0.5, 0.25]
    """

    values: Tensor
    scales: Tensor
    shape: tuple[int, int]
    bits: Literal[8, 4]

    @classmethod
    def of(cls, weight: Tensor, bits: Literal[8, 4]) -> QuantizedWeights:
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

    def dequantized(self) -> Tensor:
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
    def of_tiles(cls, values: Tensor, scales: Tensor, shape: tuple[int, int], bits: Literal[8, 4]) -> QuantizedWeights:
        """The weights whose `tiled` these are.

        >>> weights = QuantizedWeights.of(torch.linspace(-1, 1, 70).view(2, 35), 4)
        >>> again = QuantizedWeights.of_tiles(*weights.tiled(), weights.shape, 4)
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


AfterLinear = Activation | Literal["none"]
"""What follows a linear layer in the same kernel."""

AFTER_LINEAR: tuple[AfterLinear, ...] = ("none", "relu", "gelu_tanh", "gelu", "swish")
"""In the order of `kernels/numbers.h`."""


def activation_name(function: object) -> Activation | None:
    """What an activation is called; None where it is none of `ACTIVATIONS`, which the kernels all have."""
    if isinstance(function, InvariantActivation):
        function = function.function
    return next((name for name, own in ACTIVATIONS.items() if _parts(function) == _parts(own)), None)


def _parts(function: Any) -> tuple[Any, ...]:
    """What two copies of a function have in common: one that is made of another is copied with a module, others are not."""
    return (function.func, function.args, function.keywords) if isinstance(function, partial) else (function,)


class QuantizedLinear(nn.Module):
    """y = W x + b with W in 8 or 4 bits, or in bfloat16: is where a `nn.Linear` stood.

    With 8 and 4 bits the compiled kernel rounds each group of 32 inputs to bytes and sums products of whole numbers, so a row of
    the output does not depend on the other rows. Where there is no kernel, PyTorch computes with the same weights in bfloat16.

    Arguments:
        weight: W, (outputs, inputs), any floating dtype.
        bias: b, (outputs,); None for none.
        bits: of each weight: 8, 4, or 16 for bfloat16.
        compiled: the kernels; built where None. Without a library the weights are kept in bfloat16.
        memory: where the weights are kept; PyTorch's own where None.

    Raises:
        InputError: for weights that hold NaN or infinite numbers, in 8 or 4 bits.

    >>> layer = nn.Linear(6, 3)
    >>> quantized = QuantizedLinear(layer.weight, layer.bias, bits=8)
    >>> x = torch.randn(2, 5, 6)
    >>> (quantized(x) - layer(x)).abs().max().item() < 0.05, quantized.weight.shape
    (True, torch.Size([3, 6]))
    """

    batch_invariant: bool = False
    """Whether a row of a product in bfloat16 has the same bits alone and in any batch; one in 8 or 4 bits always has."""

    values: Tensor
    scales: Tensor | None
    filled_bias: Tensor

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        bits: Literal[16, 8, 4],
        *,
        compiled: Kernels | None = None,
        memory: LargePages | None = None,
    ) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.bits = bits
        self.has_bias = bias is not None
        offset = weight.new_zeros(self.out_features) if bias is None else bias.detach()
        self.register_buffer("filled_bias", F.pad(offset.float(), (0, -self.out_features % UNIT)).contiguous())
        if bits == 16:
            values, scales = weight.detach().bfloat16().contiguous(), None
        else:
            values, scales = QuantizedWeights.of(weight, bits).tiled()
        if memory is not None:
            values, scales = memory.keep(values), None if scales is None else memory.keep(scales)
        self.register_buffer("values", values)
        self.register_buffer("scales", scales)
        if (kernels() if compiled is None else compiled).library is None:
            self._without_kernels()
        self.training = False

    def _without_kernels(self) -> None:
        """Keep the weights as PyTorch multiplies them."""
        if self.scales is not None:
            self.values, self.scales = self.weight.bfloat16(), None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.scales is not None and kernels().library is None:  # in another process, which may have no compiler
            self._without_kernels()

    @property
    def weight(self) -> Tensor:
        """(outputs, inputs) float32, the numbers that it multiplies with; computed at each call."""
        if self.scales is None:
            return self.values.float()
        shape = (self.out_features, self.in_features)
        return QuantizedWeights.of_tiles(self.values, self.scales, shape, self.bits).dequantized()  # type: ignore[arg-type]

    @property
    def bias(self) -> Tensor | None:
        """(outputs,) float32."""
        return self.filled_bias[: self.out_features] if self.has_bias else None

    def forward(self, input: Tensor) -> Tensor:
        """(..., inputs) to (..., outputs) float32."""
        if input.requires_grad and torch.is_grad_enabled():
            return _Differentiable.apply(input, self)
        return self.product(input)

    def product(self, input: Tensor) -> Tensor:
        """As `forward`, without gradients."""
        if self.scales is None:
            bias = None if self.bias is None else self.bias.bfloat16()
            x = input.to(self.values.dtype)
            with BatchInvariant() if self.batch_invariant else nullcontext():
                product = F.linear(x, self.values, bias)
            return product.float()
        library = kernels().library
        if library is None:
            raise RuntimeError("weights are laid out for kernels that are not there")
        x = input.float()
        if self.in_features % GROUP:
            x = F.pad(x, (0, -self.in_features % GROUP))
        x, before = x.contiguous(), input.shape[:-1]
        rows, y = before.numel(), torch.empty(*before, self.out_features)
        struct = self.struct()
        scratch = torch.empty(library.regard_linear_scratch(struct, rows), dtype=torch.uint8)
        library.regard_linear(struct, x.data_ptr(), rows, y.data_ptr(), self.out_features, scratch.data_ptr())
        return y

    def struct(self, activation: AfterLinear = "none") -> LinearStruct:
        """What the kernels are given: it points into the tensors here."""
        held: Any = self._buffers  # asked for by name, each would be looked for among the attributes first
        values, scales, bias = held["values"], held["scales"], held["filled_bias"]
        outputs, inputs = self.out_features, self.in_features
        if scales is not None:
            outputs, inputs = outputs + -outputs % UNIT, inputs + -inputs % GROUP
        places = values.data_ptr(), None if scales is None else scales.data_ptr(), bias.data_ptr()
        bits = 16 if scales is None else self.bits
        return LinearStruct(outputs, inputs, bits, AFTER_LINEAR.index(activation), *places)

    def extra_repr(self) -> str:
        """As `nn.Linear`'s, with the bits."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.has_bias}, bits={self.bits}"
        )

    def state_dict(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: the numbers that the weights were rounded from are gone.

        Raises:
            InputError: always.
        """
        raise InputError(INFERENCE_ONLY.format(weights=f"rounded to {self.bits} bits"))

    def train(self, mode: bool = True) -> Self:
        """Refused but for `train(False)`.

        Raises:
            InputError: where `mode` is true.
        """
        if mode:
            raise InputError(INFERENCE_ONLY.format(weights=f"rounded to {self.bits} bits"))
        return self

    def _apply(self, fn: Any, recurse: bool = True) -> NoReturn:
        raise InputError("a model with quantized weights stays as it is, on the processor it was made for")


class FloatLinear(nn.Linear):
    """`nn.Linear` in float32 for inference."""

    batch_invariant: bool = False
    """Whether a row has the same bits alone and in any batch (`regard.attention.BatchInvariant`)."""

    def forward(self, input: Tensor) -> Tensor:
        """(..., inputs) to (..., outputs)."""
        with BatchInvariant() if self.batch_invariant else nullcontext():
            return super().forward(input)


LINEARS = (nn.Linear, FloatLinear, QuantizedLinear)
"""Plain linear layers, of whose classes the kernels know what they compute."""


class _Differentiable(torch.autograd.Function):
    """A quantised layer whose gradient is that of the weights it multiplies with; rounding of the input is left out."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, layer: QuantizedLinear) -> Tensor:
        ctx.layer, ctx.dtype = layer, input.dtype
        return layer.product(input)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return (gradients[0] @ ctx.layer.weight).to(ctx.dtype), None


def linear_for(
    weight: Tensor,
    bias: Tensor | None,
    precision: Precision,
    compiled: Kernels | None = None,
    memory: LargePages | None = None,
) -> nn.Module:
    """A linear layer of a precision, its weights in `memory`: a `FloatLinear` in float32, else a `QuantizedLinear`."""
    if precision != "float32":
        return QuantizedLinear(weight, bias, BITS.get(precision, 16), compiled=compiled, memory=memory)
    layer = FloatLinear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    own = weight.detach().float()
    own = own.clone(memory_format=torch.contiguous_format) if memory is None else memory.keep(own)
    layer.weight = nn.Parameter(own, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().float().clone(), requires_grad=False)
    return layer.eval()


def inference_copy(
    module: M,
    precision: Precision,
    compiled: Kernels | None = None,
    *,
    within: nn.Module | None = None,
    memory: LargePages | None = None,
) -> M:
    """A copy in evaluation mode: its linear layers in a precision, all else in float32 and without gradients.

    Tables of rotary positions are computed again, for a model in bfloat16 has them rounded to it.

    Arguments:
        within: the part of the module whose linear layers are meant; all where None.
        memory: where their weights are kept; PyTorch's own where None.
    """
    layers = [part for part in (module if within is None else within).modules() if type(part) is nn.Linear]
    # What is in the memo for a layer is taken for its copy, so the weights are not copied first.
    memo: dict[int, Any] = {
        id(part): linear_for(part.weight, part.bias, precision, compiled, memory) for part in layers
    }
    made = copy.deepcopy(module, memo)
    for parameter in made.parameters():
        parameter.requires_grad_(False)
        parameter.data = parameter.data.float()
    for part in made.modules():
        if isinstance(part, Rotary) and part.cosines.dtype != torch.float32:
            part.cosines, part.sines = part.cosines.float(), part.sines.float()
            part.reset_parameters()
    return made.eval()
