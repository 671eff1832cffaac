"""Encoders for inference: with weights of 8 or 4 bits in their own blocks, and packed for reading many texts without padding.

`quantized_encoder` gives an encoder that is looked at and changed as any other. `PackedEncoder` reads where nobody looks: the
texts of a batch stand one after another in one row of tokens, which all linear layers, norms and activations read as it is;
attention alone sees texts, those of one length together. Nothing is computed for padding, because there is none.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import AttentionLayer, LearnedPositions
from regard.errors import InputError
from regard.layers import EncoderBlock, FeedForward, Residual, TextEmbedding, TextEncoder
from regard.quantization.linear import (
    BITS,
    Precision,
    QuantizedLinear,
    QuantizedPrecision,
    check_precision,
    in_bytes,
    inference_copy,
    linear_for,
)
from regard.quantization.native import Kernels
from regard.quantization.stack import (
    has_hooks,
    product_scale,
    unsupported_attention,
    unsupported_place,
    unsupported_plain_heads,
)

SHORT = 128
"""Tokens of the longest text for which weights are laid out."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Some texts and the vectors of their tokens.

    Arguments:
        rows: which of the texts given.
        states: (n, L, D) of each layer asked for, in that order.
        valid: (n, L) bool, True = a real token, or one that counts for its word (`counted_of`); None where all are.
        pooled: (n, D), the model's own vector of each text, where the last layer alone is asked for and the model has one.
    """

    rows: list[int]
    states: tuple[Tensor, ...]
    valid: Tensor | None
    pooled: Tensor | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PackedEncoder:
    """An encoder's weights laid out for reading without padding: what it gives is what the encoder gives, up to rounding.

    A value of its own: it does not change when the encoder does, and `is_of` then says so. May be shared by threads.

    Arguments:
        tokens: (V, D), the embedding table.
        positions: (P, D), with the first segment's vector in each.
        norm: of the embedding.
        layers: the blocks.
        origin: what `is_of` compares.

    >>> from regard.models import Bert, BertConfig
    >>> model = Bert(BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=1)).eval()
    >>> packed = PackedEncoder.of(model, "float32")
    >>> [group.states[0].shape for group in packed.read([[3, 4, 5], [6, 7], [8, 7]], [1])]
    [torch.Size([2, 2, 8]), torch.Size([1, 3, 8])]
    """

    tokens: Tensor
    positions: Tensor
    norm: nn.Module
    projection: nn.Module
    layers: tuple[PackedLayer, ...]
    origin: tuple[object, ...]

    @property
    def parallel(self) -> bool:
        """Whether several threads may read at once, each on one core."""
        return self.tokens.device.type == "cpu"

    @classmethod
    def of(cls, model: TextEncoder, precision: Precision) -> PackedEncoder:
        """The weights of a model.

        Raises:
            InputError: for a model that `unsupported_encoder` has a word about.
        """
        why = unsupported_encoder(model)
        if why:
            raise InputError(f"the model cannot be prepared: {why}; read with the model itself")
        if precision in BITS and model.embedding.tokens.weight.device.type != "cpu":
            raise InputError(f"precision {precision} is for processors; take bfloat16 on a graphics card")
        dtype = _dtype_of(precision)
        embedding = model.embedding
        device, limit = embedding.tokens.weight.device, model.config.maximum_positions
        positions: Tensor = embedding.positions(torch.arange(limit, device=device)).detach()
        if embedding.segments is not None:
            positions = positions + embedding.segments.weight.detach()[0]
        projection = nn.Identity() if embedding.projection is None else copy.deepcopy(embedding.projection)
        return cls(
            tokens=embedding.tokens.weight.detach().to(dtype),
            positions=positions.to(dtype),
            norm=_norm(embedding.norm, dtype),
            projection=projection.requires_grad_(False).to(dtype),
            layers=tuple(_layer(block, precision) for block in model.layers if isinstance(block, EncoderBlock)),
            origin=_origin(model),
        )

    def is_of(self, model: TextEncoder) -> bool:
        """Whether the model's weights still are those that were prepared."""
        return len(self.origin) == len(now := _origin(model)) and all(map(_same, self.origin, now))

    def read(self, texts: Sequence[Sequence[int]], layers: Sequence[int]) -> Iterator[Group]:
        """What chosen layers make of some texts, given as token ids; those of one length come together.

        Arguments:
            texts: special tokens included, none empty, none longer than the model has positions for.
            layers: 0 is the embedding, then the blocks from 1.
        """
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        groups = _runs([len(texts[row]) for row in order])
        device = self.tokens.device
        ids = torch.from_numpy(np.concatenate([np.asarray(texts[row], dtype=np.int64) for row in order]))
        places = torch.from_numpy(np.concatenate([np.tile(np.arange(length), count) for _, count, length in groups]))
        with torch.inference_mode():
            x = self.norm(F.embedding(ids.to(device), self.tokens).add_(F.embedding(places.to(device), self.positions)))
            x = self.projection(x)
            kept = {0: x} if 0 in layers else {}
            for number, layer in enumerate(self.layers[: max(layers, default=0)], start=1):
                x = layer(x, groups)
                if number in layers:
                    kept[number] = x
        first = 0
        for start, count, length in groups:
            states = (kept[number][start : start + count * length].view(count, length, -1) for number in layers)
            yield Group(order[first : first + count], tuple(states), None)
            first += count


def unsupported_encoder(model: nn.Module) -> str:
    """Why a model cannot be prepared, as half a sentence; empty where it can.

    What is looked at or changed from outside runs through the model itself, where whoever looks sees it.
    """
    if not isinstance(model, TextEncoder):
        return f"a {type(model).__name__} is no encoder of texts"
    if any(map(has_hooks, model.modules())):
        return "somebody looks at it, or has changed it"
    if type(model).forward is not TextEncoder.forward or type(model.embedding) is not TextEmbedding:
        return "its forward pass is its own"
    if type(model.embedding.positions) is not LearnedPositions:
        return "its positions are not learnt"
    for number, block in enumerate(model.layers):
        if not _is_plain(block):
            return f"layers.{number} is not BERT's"
    return ""


def _is_plain(block: nn.Module) -> bool:
    if type(block) is not EncoderBlock or type(block.attention) is not AttentionLayer:
        return False
    feedforward, residuals = block.feedforward, (block.attention_residual, block.feedforward_residual)
    return (
        not unsupported_attention(block.attention)
        and not unsupported_plain_heads(block.attention)
        and type(feedforward) is FeedForward
        and all(type(part) in (nn.Linear, QuantizedLinear) for part in (feedforward.inner, feedforward.outer))
        and all(type(part) is Residual and type(part.before) is nn.Identity for part in residuals)
        and all(type(part.after) is nn.LayerNorm for part in residuals)
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PackedLayer:
    """One block's weights.

    Arguments:
        projections: query, key and value as one map.
        output: of attention.
        inner, outer: of the feed-forward net, the activation behind the first.
        attention_norm, feedforward_norm: after each residual sum.
        heads: H.
        scale: of the scores.
    """

    projections: PackedLinear
    output: PackedLinear
    inner: PackedLinear
    outer: PackedLinear
    attention_norm: nn.Module
    feedforward_norm: nn.Module
    heads: int
    scale: float

    def __call__(self, x: Tensor, groups: Sequence[tuple[int, int, int]]) -> Tensor:
        """(T, D) to (T, D); `groups` as `_runs` gives them."""
        x = self.attention_norm(self.output(self._attended(self.projections(x), groups), x))
        return self.feedforward_norm(self.outer(self.inner(x), x))

    def _attended(self, projected: Tensor, groups: Sequence[tuple[int, int, int]]) -> Tensor:
        """(T, 3 inner) to (T, inner): each text attends to itself."""
        inner = projected.shape[1] // 3
        gathered = projected.new_empty(projected.shape[0], inner)
        for start, count, length in groups:
            rows = slice(start, start + count * length)
            parts = projected[rows].view(count, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            found = _attention(parts, self.scale)
            gathered[rows].view(count, length, self.heads, -1).copy_(found.transpose(1, 2))
        return gathered


def _layer(block: EncoderBlock, precision: Precision) -> PackedLayer:
    attention, feedforward = block.attention, block.feedforward
    dtype = _dtype_of(precision)
    width = attention.query.out_features // attention.heads  # type: ignore[union-attr]
    return PackedLayer(
        projections=packed_linear([attention.query, attention.key, attention.value], precision),  # type: ignore[list-item]
        output=packed_linear([attention.output], precision),  # type: ignore[list-item]
        inner=packed_linear([feedforward.inner], precision, feedforward.activation),  # type: ignore[list-item]
        outer=packed_linear([feedforward.outer], precision),  # type: ignore[list-item]
        attention_norm=_norm(block.attention_residual.after, dtype),
        feedforward_norm=_norm(block.feedforward_residual.after, dtype),
        heads=attention.heads,
        scale=product_scale(attention, width),  # type: ignore[arg-type]
    )


def _origin(model: TextEncoder) -> tuple[object, ...]:
    """Where each parameter is and how often it was written, and copies of the norms: fused optimisers count nothing.

    Tensors made in `torch.inference_mode` count nothing either, so of these all are copied.
    """
    marks = [
        each.detach().clone() if each.is_inference() else (each.data_ptr(), each._version)
        for each in model.parameters()
    ]
    norms = [part.weight.detach().clone() for part in model.modules() if isinstance(part, nn.LayerNorm)]
    return (*marks, *norms)


def _same(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.device == other.device and one.dtype == other.dtype and torch.equal(one, other)
    return one == other


def _attention(parts: Tensor, scale: float) -> Tensor:
    """Query, key and value (3, B, H, L, E) to (B, H, L, E).

    PyTorch's fused kernel for processors is made for long texts. In bfloat16 two batched products with a softmax in float32
    between them took half its time at 20 to 40 tokens, and three quarters at 120.
    """
    _, batch, heads, length, width = parts.shape
    if parts.dtype != torch.bfloat16 or parts.device.type != "cpu" or length > SHORT:
        return F.scaled_dot_product_attention(parts[0], parts[1], parts[2], scale=scale)
    query, key, value = parts.contiguous().view(3, batch * heads, length, width)
    scores = torch.baddbmm(query.new_empty(()), query, key.transpose(1, 2), beta=0, alpha=scale)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)
    return torch.bmm(weights, value).view(batch, heads, length, width)


def _runs(lengths: Sequence[int]) -> list[tuple[int, int, int]]:
    """Where each run of texts of one length begins among the tokens, how many texts it has, and how long they are.

    >>> _runs([2, 2, 5])
    [(0, 2, 2), (4, 1, 5)]
    """
    runs, start = [], 0
    for length, equal in groupby(lengths):
        count = sum(1 for _ in equal)
        runs.append((start, count, length))
        start += count * length
    return runs


# Weights of 8 or 4 bits in an encoder's own blocks.

E = TypeVar("E", bound=TextEncoder)


def quantized_encoder(model: E, precision: QuantizedPrecision, *, compiled: Kernels | None = None) -> E:
    """A copy of an encoder, of its own class, whose blocks have weights of 8 or 4 bits; all else is in float32.

    Arguments:
        model: on a processor.
        precision: `int8` or `int4`.
        compiled: the kernels; built where None.

    Raises:
        InputError: for another precision, and for a model on another device, or that is looked at.

    >>> from regard.layers import Tokens
    >>> from regard.models import Bert, BertConfig
    >>> model = Bert(BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=1)).eval()
    >>> tokens = Tokens.pad([[3, 4, 5]])
    >>> (quantized_encoder(model, "int8")(tokens).hidden - model(tokens).hidden).abs().max().item() < 0.1
    True
    """
    precision = check_precision(precision)  # type: ignore[assignment]
    why = "" if precision in BITS else f"an encoder is quantized to {' or '.join(BITS)}"
    why = why or ("" if isinstance(model, TextEncoder) else f"a {type(model).__name__} is no encoder of texts")
    why = why or unsupported_place(model)
    if why:
        raise InputError(f"{precision}: the model cannot be prepared: {why}")
    return inference_copy(model, precision, compiled, within=model.layers)


OF_BITS: dict[int, Precision] = {8: "int8", 4: "int4", 16: "bfloat16"}
OF_DTYPE: dict[torch.dtype, Precision] = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


def own_precision(model: nn.Module) -> Precision | None:
    """The precision that a model's weights are kept in; None where it is one that nothing is packed in."""
    bits = next((part.bits for part in model.modules() if isinstance(part, QuantizedLinear)), None)
    return OF_DTYPE.get(next(model.parameters()).dtype) if bits is None else OF_BITS[bits]


# Linear layers for thousands of tokens at a time: plain, of bytes, or with all that follows them in one kernel.

ActivationFunction = Callable[[Tensor], Tensor]

USUAL_ROWS = 2048
"""Tokens that weights are laid out for; others are read too."""


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
        weight: laid out by oneDNN.
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
    """Linear layers of one input as a single one, their outputs one after another.

    Raises:
        InputError: where this PyTorch multiplies no bytes.
    """
    if precision == "int4":
        return PlainLinear(tuple(_of_four_bits(part) for part in layers), activation)
    weight, bias = _joined(layers)
    if precision == "int8":
        return _byte_linear(weight.float(), bias.float(), activation)
    dtype = _dtype_of(precision)
    weight, bias = weight.to(dtype), bias.to(dtype)
    fused = _fused_name(activation)
    if dtype != torch.bfloat16 or fused is None or weight.device.type != "cpu" or not fuses():
        return PlainLinear((_with_weights(weight, bias),), activation)
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


def _of_four_bits(layer: nn.Module) -> nn.Module:
    if isinstance(layer, QuantizedLinear) and layer.bits == 4:
        return layer
    return linear_for(layer.weight, layer.bias, "int4")  # type: ignore[arg-type]


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


def _norm(norm: nn.Module, dtype: torch.dtype) -> nn.Module:
    return copy.deepcopy(norm).to(dtype).requires_grad_(False)


def _dtype_of(precision: Precision) -> torch.dtype:
    """What is between the linear layers."""
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


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
