"""An encoder prepared for reading many texts at once: no padding, projections joined, weights in the precision wanted.

The texts of a batch stand one after another in one row of tokens, which all linear maps, norms and activations read as it is;
attention alone sees texts, those of one length together. Nothing is computed for padding, because there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import AttentionLayer, LearnedPositions
from regard.errors import InputError
from regard.layers import EncoderBlock, FeedForward, Residual, TextEmbedding, TextEncoder
from regard.quantization.blocks import Norm, is_watched, obstacle_in_attention, product_scale
from regard.quantization.linear import Linear, Precision, dtype_of, linear

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
    norm: Norm
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
            InputError: for a model that `encoder_obstacle` has a word about.
        """
        why = encoder_obstacle(model)
        if why:
            raise InputError(f"the model cannot be prepared: {why}; read with the model itself")
        if precision == "int8" and model.embedding.tokens.weight.device.type != "cpu":
            raise InputError("precision int8 is for processors; take bfloat16 on a graphics card")
        dtype = dtype_of(precision)
        embedding = model.embedding
        positions: Tensor = embedding.positions.weight.detach()  # type: ignore[operator]
        if embedding.segments is not None:
            positions = positions + embedding.segments.weight.detach()[0]
        return cls(
            tokens=embedding.tokens.weight.detach().to(dtype),
            positions=positions.to(dtype),
            norm=Norm(embedding.norm, dtype),
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


def encoder_obstacle(model: nn.Module) -> str:
    """Why a model cannot be prepared, as half a sentence; empty where it can.

    What is looked at or changed from outside runs through the model itself, where whoever looks sees it.
    """
    if not isinstance(model, TextEncoder):
        return f"a {type(model).__name__} is no encoder of texts"
    if any(map(is_watched, model.modules())):
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
        not obstacle_in_attention(block.attention)
        and type(feedforward) is FeedForward
        and all(type(part) is nn.Linear for part in (feedforward.inner, feedforward.outer))
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

    projections: Linear
    output: Linear
    inner: Linear
    outer: Linear
    attention_norm: Norm
    feedforward_norm: Norm
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
    dtype = dtype_of(precision)
    width = attention.query.out_features // attention.heads  # type: ignore[union-attr]
    return PackedLayer(
        projections=linear([attention.query, attention.key, attention.value], precision),  # type: ignore[list-item]
        output=linear([attention.output], precision),  # type: ignore[list-item]
        inner=linear([feedforward.inner], precision, feedforward.activation),  # type: ignore[list-item]
        outer=linear([feedforward.outer], precision),  # type: ignore[list-item]
        attention_norm=Norm(block.attention_residual.after, dtype),
        feedforward_norm=Norm(block.feedforward_residual.after, dtype),
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
