"""Encoders for inference: with int8 or int4 weights in their own blocks, and packed for reading many texts without padding.

`quantized_encoder` returns an encoder that can be inspected and changed like any other. `PackedEncoder` reads without hooks:
the texts of a batch are concatenated into one row of tokens, on which all linear layers, norms and activations work as it is;
only attention works on separate texts (`encoder_attention`). Almost nothing is computed for padding.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import AttentionLayer, LearnedPositions
from regard.errors import InputError
from regard.kernels import Kernels, kernels
from regard.kernels.building import has_bfloat16_products
from regard.layers import EncoderBlock, FeedForward, Residual, TextEmbedding, TextEncoder
from regard.quantization.encoder_attention import Texts, attention
from regard.quantization.encoder_linear import PackedLinear, dtype_of, packed_linear
from regard.quantization.linear import (
    BITS,
    LINEARS,
    Precision,
    QuantizedLinear,
    QuantizedPrecision,
    check_precision,
    inference_copy,
)
from regard.quantization.memory import LargePages
from regard.quantization.stack import (
    StackKernel,
    must_be_called,
    product_scale,
    unsupported_attention,
    unsupported_place,
    unsupported_plain_heads,
)

ROWS = 32
"""Multiple to which the number of tokens is rounded up for oneDNN, which compiles a kernel of 15 ms for each number."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Some texts and the hidden states of their tokens.

    Arguments:
        rows: the indices of the texts.
        states: (n, L, D) for each layer asked for, in that order.
        valid: (n, L) bool, True = a real token, or one that counts for its word (`counted_of`); None where all are.
        pooled: (n, D), the model's own vector for each text, where only the last layer is asked for and the model has one.
    """

    rows: list[int]
    states: tuple[Tensor, ...]
    valid: Tensor | None
    pooled: Tensor | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PackedEncoder:
    """An encoder's weights laid out for reading without padding; its outputs are those of the encoder, up to rounding.

    It is independent: it does not change when the encoder does, and `is_of` then returns False. Threads may share it.

    Arguments:
        tokens: (V, D), the token embeddings.
        positions: (P, D), the position embeddings plus the embedding of the first segment.
        norm: of the embeddings.
        projection: from the embeddings' width to the model's; the identity where both are the same.
        layers: the blocks.
        origin: what `is_of` compares.
        rounded: whether the number of tokens is rounded up to a multiple of `ROWS`.

    >>> from regard.models import Bert, BertConfig
    >>> model = Bert(BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=1)).eval()
    >>> packed = PackedEncoder.of(model, "float32")
    >>> [group.states[0].shape for group in packed.read([[3, 4, 5], [6, 7], [8, 7]], [1])]
    [torch.Size([3, 3, 8])]
    """

    tokens: Tensor
    positions: Tensor
    norm: nn.Module
    projection: nn.Module
    layers: tuple[PackedLayer | KernelLayer, ...]
    origin: tuple[object, ...]
    rounded: bool

    @property
    def parallel(self) -> bool:
        """Whether several threads may read at once, each on one core."""
        return self.tokens.device.type == "cpu"

    @classmethod
    def of(cls, model: TextEncoder, precision: Precision, *, compiled: Kernels | None = None) -> PackedEncoder:
        """Pack the weights of a model.

        Arguments:
            model: the encoder.
            precision: of the packed weights.
            compiled: the kernels; None to build them, on a CPU.

        Raises:
            InputError: for a model that `unsupported_encoder` names a reason against.
        """
        why = unsupported_encoder(model)
        if why:
            raise InputError(f"the model cannot be prepared: {why}; read with the model itself")
        if precision in BITS and model.embedding.tokens.weight.device.type != "cpu":
            raise InputError(f"precision {precision} is for the CPU; use bfloat16 on a GPU")
        embedding = model.embedding
        device, limit = embedding.tokens.weight.device, model.config.maximum_positions
        none = Kernels(None, f"the model is on {device}")
        built = compiled or (kernels() if device.type == "cpu" else none)
        layers = _layers(model, precision, built)
        dtype = torch.float32 if any(isinstance(layer, KernelLayer) for layer in layers) else dtype_of(precision)
        positions: Tensor = embedding.positions(torch.arange(limit, device=device)).detach()
        if embedding.segments is not None:
            positions = positions + embedding.segments.weight.detach()[0]
        projection = nn.Identity() if embedding.projection is None else copy.deepcopy(embedding.projection)
        return cls(
            tokens=embedding.tokens.weight.detach().to(dtype),
            positions=positions.to(dtype),
            norm=_norm(embedding.norm, dtype),
            projection=projection.requires_grad_(False).to(dtype),
            layers=layers,
            origin=_origin(model),
            rounded=dtype == torch.bfloat16 and device.type == "cpu",
        )

    def is_of(self, model: TextEncoder) -> bool:
        """Whether the model's weights are still those that were packed."""
        return len(self.origin) == len(now := _origin(model)) and all(map(_same, self.origin, now))

    def read(self, texts: Sequence[Sequence[int]], layers: Sequence[int]) -> Iterator[Group]:
        """The hidden states of some layers for texts of token ids; texts of similar length are yielded together.

        Arguments:
            texts: with special tokens, none empty, none longer than the model's maximum positions.
            layers: 0 for the embedding, then the blocks from 1.
        """
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        lengths = [len(texts[row]) for row in order]
        real, device = sum(lengths), self.tokens.device
        rest = -real % ROWS if self.rounded else 0
        ids, places = torch.zeros(2, real + rest, dtype=torch.int64)
        ids[:real] = torch.from_numpy(np.concatenate([np.asarray(texts[row], dtype=np.int64) for row in order]))
        places[:real] = torch.from_numpy(np.concatenate(list(map(np.arange, lengths))))
        with torch.inference_mode():
            placed = Texts.of(lengths, self.positions)
            x = self.norm(F.embedding(ids.to(device), self.tokens).add_(F.embedding(places.to(device), self.positions)))
            x = self.projection(x)
            kept = {0: x} if 0 in layers else {}
            for number, layer in enumerate(self.layers[: max(layers, default=0)], start=1):
                x = layer(x, placed)
                if number in layers:
                    kept[number] = x
        first = 0
        for part in placed.parts:
            states = tuple(part.padded(kept[number]) for number in layers)
            yield Group(order[first : first + part.count], states, part.valid)
            first += part.count


def unsupported_encoder(model: nn.Module) -> str:
    """Why a model cannot be packed, as half a sentence; empty where it can.

    A model with hooks is refused, since hooks only see what runs through the model itself.
    """
    if not isinstance(model, TextEncoder):
        return f"a {type(model).__name__} is no text encoder"
    if any(map(must_be_called, model.modules())):
        return "it has hooks, which look at it or change it"
    if type(model).forward is not TextEncoder.forward or type(model.embedding) is not TextEmbedding:
        return "its forward pass is its own"
    if type(model.embedding.positions) is not LearnedPositions:
        return "its positions are not learned"
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
        and all(type(part) in LINEARS for part in (feedforward.inner, feedforward.outer))
        and all(type(part) is Residual and type(part.before) is nn.Identity for part in residuals)
        and all(type(part.after) is nn.LayerNorm for part in residuals)
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PackedLayer:
    """One block's weights.

    Arguments:
        projections: query, key and value as one linear layer.
        output: of attention.
        inner, outer: of the feed-forward network; the activation follows `inner`.
        attention_norm, feedforward_norm: after each residual sum.
        heads: H.
        scale: of the scores.
        compiled: the kernels of attention.
    """

    projections: PackedLinear
    output: PackedLinear
    inner: PackedLinear
    outer: PackedLinear
    attention_norm: nn.Module
    feedforward_norm: nn.Module
    heads: int
    scale: float
    compiled: Kernels

    def __call__(self, x: Tensor, texts: Texts) -> Tensor:
        """(T, D) to (T, D)."""
        attended = attention(self.projections(x), texts, self.heads, self.scale, self.compiled)
        x = self.attention_norm(self.output(attended, x))
        return self.feedforward_norm(self.outer(self.inner(x), x))


@dataclass(frozen=True, slots=True, eq=False)
class KernelLayer:
    """One block's weights, for the kernel of decoders, in which each token attends to its own text.

    The result for a text is the same to the bit whatever texts are read with it, and on any number of threads.

    Arguments:
        kernel: of this block alone.
    """

    kernel: StackKernel

    def __call__(self, x: Tensor, texts: Texts) -> Tensor:
        """(T, D) to (T, D), in float32."""
        return self.kernel.read(x, texts.spans, positions=texts.ends)  # no rotary positions, which would be read


def _layers(model: TextEncoder, precision: Precision, built: Kernels) -> tuple[PackedLayer | KernelLayer, ...]:
    """All blocks, by the kernel of decoders where it is the faster one: not in bfloat16 where oneDNN has products for it."""
    blocks = [block for block in model.layers if isinstance(block, EncoderBlock)]
    if precision in BITS:
        faster = built.library is not None
    elif precision == "float32":
        faster = built.reads_float32
    else:
        faster = built.reads_bfloat16 and not has_bfloat16_products()
    if faster:
        memory, nothing = LargePages(), nn.Identity()
        own = [inference_copy(block, precision, built, memory=memory) for block in blocks]
        found = [StackKernel.of([block], nothing, nothing, built) for block in own]
        if None not in found:
            return tuple(KernelLayer(kernel) for kernel in found if kernel is not None)
    return tuple(_layer(block, precision, built) for block in blocks)


def _layer(block: EncoderBlock, precision: Precision, built: Kernels) -> PackedLayer:
    attention, feedforward = block.attention, block.feedforward
    dtype = dtype_of(precision)
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
        compiled=built,
    )


def _norm(norm: nn.Module, dtype: torch.dtype) -> nn.Module:
    return copy.deepcopy(norm).to(dtype).requires_grad_(False)


def _origin(model: TextEncoder) -> tuple[object, ...]:
    """The address and version counter of each parameter, and copies of the norms, since fused optimizers do not count versions.

    Tensors made in `torch.inference_mode` have no counter either, so these are copied.
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


# Weights of 8 or 4 bits in an encoder's own blocks.

E = TypeVar("E", bound=TextEncoder)


def quantized_encoder(model: E, precision: QuantizedPrecision, *, compiled: Kernels | None = None) -> E:
    """A copy of an encoder, of the same class, whose blocks have int8 or int4 weights; all else is float32.

    Arguments:
        model: on the CPU.
        precision: `int8` or `int4`.
        compiled: the kernels; None to build them.

    Raises:
        InputError: for another precision, a model on another device, and a model with hooks.

    >>> from regard.layers import Tokens
    >>> from regard.models import Bert, BertConfig
    >>> model = Bert(BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=1)).eval()
    >>> tokens = Tokens.pad([[3, 4, 5]])
    >>> (quantized_encoder(model, "int8")(tokens).hidden - model(tokens).hidden).abs().max().item() < 0.1
    True
    """
    precision = check_precision(precision)  # type: ignore[assignment]
    why = "" if precision in BITS else f"an encoder is quantized to {' or '.join(BITS)}"
    why = why or ("" if isinstance(model, TextEncoder) else f"a {type(model).__name__} is no text encoder")
    why = why or unsupported_place(model)
    if why:
        raise InputError(f"{precision}: the model cannot be prepared: {why}")
    return inference_copy(model, precision, compiled, within=model.layers)


OF_BITS: dict[int, Precision] = {8: "int8", 4: "int4", 16: "bfloat16"}
OF_DTYPE: dict[torch.dtype, Precision] = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


def own_precision(model: nn.Module) -> Precision | None:
    """The precision of a model's weights; None where it is none that weights are packed in."""
    bits = next((part.bits for part in model.modules() if isinstance(part, QuantizedLinear)), None)
    return OF_DTYPE.get(next(model.parameters()).dtype) if bits is None else OF_BITS[bits]
