"""Linear layers for inference, with int8, int4 or bfloat16 weights in place of `nn.Linear`.

`QuantizedWeights` defines how weights are rounded, `QuantizedLinear` computes with them, by the compiled kernels or by PyTorch,
and `inference_copy` copies a module with such layers in place of its own.
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
from regard.kernels import Kernels, kernels
from regard.kernels.interface import LinearStruct
from regard.layers import ACTIVATIONS, Activation
from regard.quantization.invariance import InvariantActivation
from regard.quantization.memory import LargePages

QuantizedPrecision = Literal["int8", "int4"]
"""int8 with one scale per output, or int4 with one scale per output and group of 32 inputs."""

Precision = Literal["float32", "bfloat16", "int8", "int4"]
"""Of weights. Between the linear layers all is float32; in packed encoders with bfloat16 weights it is bfloat16."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)

BITS: Mapping[str, Literal[8, 4]] = MappingProxyType({"int8": 8, "int4": 4})
"""Bits per weight."""

LARGEST = 127
"""The largest integer for weights and activations in int8; -128 is not used, so that the range is symmetric."""

GROUP = 32
"""Inputs that share a scale: for activations, and for int4 weights."""

TILE = 16
"""Outputs that are stored together."""

UNIT = 32
"""The number of outputs is padded to a multiple of this."""

NARROWINGS = torch.linspace(0.7, 1.0, 13)
"""Fractions of the largest magnitude that are tried as the range of an int4 scale: clipping a rare large weight may make all
others more precise."""

INFERENCE_ONLY = (
    "its weights are {weights}, which is for inference, not for training or saving; use the model it was made from"
)

M = TypeVar("M", bound=nn.Module)


def check_precision(precision: str) -> Precision:
    """The precision with a name.

    Raises:
        InputError: for an unknown name; the message has the nearest one.
    """
    for known in PRECISIONS:
        if precision == known:
            return known
    raise InputError(f"precision is {precision!r}; {nearest(precision, PRECISIONS)}")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class QuantizedWeights:
    """A weight (outputs, inputs) as integers and scales.

        W_ok ~ w_o Q_ok,  Q in [-127, 127], w_o = max_k |W_ok| / 127                      8 bits
        W_ok ~ w_og Q_ok,  Q in [-8, 7], w_og for each group g of 32 inputs               4 bits

    The scale of a 4-bit group is the one over `NARROWINGS` with the smallest squared error, rounded to bfloat16.

    Arguments:
        values: (outputs, inputs) int8, padded with zeros to multiples of `UNIT` and `GROUP`.
        scales: (outputs,) float32, or (outputs, inputs / GROUP) bfloat16.
        shape: (outputs, inputs) without the padding.
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
        """Quantize a weight (outputs, inputs) of any floating dtype.

        Raises:
            InputError: for weights with NaN or infinity.
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
        """The weight that the integers represent, (outputs, inputs) float32."""
        outputs, inputs = self.shape
        scales = self.scales.float()
        if self.bits == 8:
            return (self.values * scales[:, None])[:outputs, :inputs]
        return (self.values.unflatten(1, (-1, GROUP)) * scales[..., None]).flatten(1)[:outputs, :inputs]

    def tiled(self) -> tuple[Tensor, Tensor]:
        """Values and scales as in `kernels/sources/linear.h`: unsigned, tiles of 16 outputs, groups of 4 adjacent inputs.

        In int4, two such groups share their bytes: the first is in the low half, the second in the high half.
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
        """The weights from their `tiled` values and scales.

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
    """Rows (N, K) rounded to int8 in [-127, 127], and the scale of each row (N,): its largest magnitude / 127."""
    scales = rows.abs().amax(dim=1).clamp_min(torch.finfo(rows.dtype).tiny) / LARGEST
    return (rows / scales[:, None]).round_().to(torch.int8), scales


def _of_nibbles(weight: Tensor) -> tuple[Tensor, Tensor]:
    groups = weight.unflatten(1, (-1, GROUP))
    # The number with the largest magnitude becomes -8, the end of the range without a counterpart.
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
"""The activation after a linear layer that the same kernel computes."""

AFTER_LINEAR: tuple[AfterLinear, ...] = ("none", "relu", "gelu_tanh", "gelu", "swish")
"""In the order of the enumeration in `kernels/sources/numbers.h`."""


def activation_name(function: object) -> Activation | None:
    """The name of an activation; None where it is not in `ACTIVATIONS`, all of which the kernels have."""
    if isinstance(function, InvariantActivation):
        function = function.function
    return next((name for name, own in ACTIVATIONS.items() if _parts(function) == _parts(own)), None)


def _parts(function: Any) -> tuple[Any, ...]:
    """What identifies a function: a `functools.partial` is copied with its module, so its parts are compared."""
    return (function.func, function.args, function.keywords) if isinstance(function, partial) else (function,)


class QuantizedLinear(nn.Module):
    """y = W x + b with W in int8, int4 or bfloat16; replaces a `nn.Linear`.

    In int8 and int4 the compiled kernel rounds each group of 32 inputs to int8 and sums integer products, so that a row of the
    output does not depend on other rows. Without a kernel, PyTorch computes with the same weights in bfloat16. In bfloat16 the
    kernel computes where it is faster than PyTorch (`Kernels.reads_bfloat16`), with a bias and an output in float32.

    Arguments:
        weight: W, (outputs, inputs), any floating dtype.
        bias: b, (outputs,); None for none.
        bits: per weight: 8, 4, or 16 for bfloat16.
        compiled: the kernels; None to build them. Without a library the weights are kept in bfloat16.
        memory: where the weights are kept; None for PyTorch's allocator.

    Raises:
        InputError: for weights with NaN or infinity, in 8 or 4 bits.

    >>> layer = nn.Linear(6, 3)
    >>> quantized = QuantizedLinear(layer.weight, layer.bias, bits=8)
    >>> x = torch.randn(2, 5, 6)
    >>> (quantized(x) - layer(x)).abs().max().item() < 0.05, quantized.weight.shape
    (True, torch.Size([3, 6]))
    """

    batch_invariant: bool = False
    """Whether a row of PyTorch's product has the same bits alone and in any batch; one of the kernels always has."""

    by_kernel: bool
    """Whether the kernels compute the product."""

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
        self._choose(kernels() if compiled is None else compiled)
        self.training = False

    def _choose(self, compiled: Kernels) -> None:
        """Choose between the kernels and PyTorch, for whose product the weights are kept in bfloat16."""
        if self.scales is not None and compiled.library is None:
            self.values, self.scales = self.weight.bfloat16(), None
        self.by_kernel = self.scales is not None or (compiled.reads_bfloat16 and not self.in_features % GROUP)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.by_kernel:
            self._choose(kernels())  # of this process, which may have no compiler

    @property
    def weight(self) -> Tensor:
        """(outputs, inputs) float32, dequantized; computed at each call."""
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
        """As `forward`, but without gradients."""
        if not self.by_kernel:
            bias = None if self.bias is None else self.bias.bfloat16()
            x = input.to(self.values.dtype)
            with BatchInvariant() if self.batch_invariant else nullcontext():
                product = F.linear(x, self.values, bias)
            return product.float()
        x = input.float()
        if self.in_features % GROUP:
            x = F.pad(x, (0, -self.in_features % GROUP))
        return _by_kernel(self.struct(), x, self.out_features)

    def struct(self, activation: AfterLinear = "none") -> LinearStruct:
        """The kernels' description of this layer; it points into this layer's tensors."""
        held: Any = self._buffers  # faster than attribute access, which looks among the attributes first
        values, scales, bias = held["values"], held["scales"], held["filled_bias"]
        outputs, inputs = self.out_features, self.in_features
        if scales is not None:
            outputs, inputs = outputs + -outputs % UNIT, inputs + -inputs % GROUP
        places = values.data_ptr(), None if scales is None else scales.data_ptr(), bias.data_ptr()
        bits = 16 if scales is None else self.bits
        return LinearStruct(outputs, inputs, bits, AFTER_LINEAR.index(activation), *places)

    def extra_repr(self) -> str:
        """As `nn.Linear`'s, with the bits per weight."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.has_bias}, bits={self.bits}"
        )

    def state_dict(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: the weights before rounding are not kept.

        Raises:
            InputError: always.
        """
        raise InputError(INFERENCE_ONLY.format(weights=f"rounded to {self.bits} bits"))

    def train(self, mode: bool = True) -> Self:
        """Refused, except for `train(False)`.

        Raises:
            InputError: where `mode` is true.
        """
        if mode:
            raise InputError(INFERENCE_ONLY.format(weights=f"rounded to {self.bits} bits"))
        return self

    def _apply(self, fn: Any, recurse: bool = True) -> NoReturn:
        raise InputError("a model with quantized weights cannot be moved or converted; it stays on the CPU")


def _by_kernel(struct: LinearStruct, x: Tensor, outputs: int) -> Tensor:
    """The product of a layer with x (..., inputs) float32, (..., outputs) float32."""
    library = kernels().library
    if library is None:
        raise RuntimeError("weights are laid out for kernels that are not loaded")
    x, before = x.contiguous(), x.shape[:-1]
    rows, y = before.numel(), torch.empty(*before, outputs)
    scratch = torch.empty(library.regard_linear_scratch(struct, rows), dtype=torch.uint8)
    library.regard_linear(struct, x.data_ptr(), rows, y.data_ptr(), outputs, scratch.data_ptr())
    return y


class FloatLinear(nn.Linear):
    """`nn.Linear` in float32 for inference."""

    batch_invariant: bool = False
    """Whether a row has the same bits alone and in any batch: by the kernels where they are as fast as PyTorch, else within
    `regard.attention.BatchInvariant`."""

    def forward(self, input: Tensor) -> Tensor:
        """(..., inputs) to (..., outputs)."""
        if not self.batch_invariant:
            return super().forward(input)
        grows = input.requires_grad and torch.is_grad_enabled()
        if grows or self.in_features % GROUP or input.dtype != torch.float32 or not kernels().reads_float32:
            with BatchInvariant():
                return super().forward(input)
        bias = torch.zeros(self.out_features) if self.bias is None else self.bias
        places = self.weight.data_ptr(), None, bias.data_ptr()
        return _by_kernel(LinearStruct(self.out_features, self.in_features, 32, 0, *places), input, self.out_features)


LINEARS = (nn.Linear, FloatLinear, QuantizedLinear)
"""The classes of plain linear layers, whose computation the kernels know."""


class _Differentiable(torch.autograd.Function):
    """A quantized layer whose gradient is that of its dequantized weights; the rounding of the input is ignored."""

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
    """A linear layer of a precision with its weights in `memory`: a `FloatLinear` for float32, else a `QuantizedLinear`."""
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
    """A copy of a module in evaluation mode: its linear layers in a precision, all else in float32 and without gradients.

    Tables of rotary positions are recomputed, since a bfloat16 model has rounded ones.

    Arguments:
        module: left as it is.
        precision: of the linear layers.
        compiled: the kernels; None to build them.
        within: the part of the module whose linear layers are replaced; None for all.
        memory: where their weights are kept; None for PyTorch's allocator.
    """
    layers = [part for part in (module if within is None else within).modules() if type(part) is nn.Linear]
    # deepcopy takes a layer's entry in the memo as its copy, so the original weights are not copied first.
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
