"""How many floating-point operations a model takes: those of its matrix products, a multiplication and an addition being two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import singledispatch

from torch import nn

from regard.attention import AttentionLayer, RelativeAttention, RelativeKeys, ScoredAttention
from regard.layers import (
    CausalBlock,
    CausalClassifier,
    CausalTransformer,
    DecoderBlock,
    EncoderBlock,
    TextEncoder,
    VectorReader,
)
from regard.layers.blocks import Block
from regard.layers.encoder import MaskedHead, PretrainingHead, TokenHead
from regard.planning.shapes import Shape

PROJECTIONS, SCORES, FEEDFORWARD, OUTPUT, MATRICES = (
    "attention projections",
    "attention weights",
    "feed-forward nets",
    "output",
    "all matrices",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Operations:
    """The forward pass of a run, and what follows from it.

    Arguments:
        parts: by part: `attention projections`, `attention weights` (the products of queries with keys and of weights with
            values, which grow with the square of the length), `feed-forward nets`, `output`. For a model without blocks
            `all matrices`, each as often as there are tokens on its side.
        exact: whether these are all products there are.
    """

    parts: Mapping[str, float]
    exact: bool

    @property
    def forward(self) -> float:
        """One forward pass over everything."""
        return sum(self.parts.values())

    @property
    def training(self) -> float:
        """Forward and backward: each product is two more of its size in the backward pass, for either factor's gradient."""
        return 3 * self.forward

    @property
    def recomputed(self) -> float:
        """Training with activation checkpointing: the blocks are computed forward once more, the output is not."""
        return 3 * self.forward + self.forward - self.parts.get(OUTPUT, 0.0)


def count_operations(model: nn.Module, shapes: Iterable[Shape]) -> Operations:
    """The matrix products of a forward pass over batches of these shapes.

    For one text of L tokens through n blocks of width D, inner width F and one table of V rows:

        2 L (4 n D^2 + 2 n D F + D V) + 4 n L^2 D

    All keys count for every query, seen or not: a kernel that leaves out what a causal mask hides does about half of
    the last term. Look-ups, norms, softmax and activations are no products and not counted, nor by `torch.utils.flop_counter`,
    with which this agrees.

    >>> from regard.models import GPT2Config
    >>> from regard.planning.parameters import outline
    >>> count_operations(outline(GPT2Config.small()), [Shape(rows=1, length=1024)]).forward / 1e9
    291.648307...
    """
    parts: dict[str, float] = {}
    exact = any(isinstance(module, Block) for module in model.modules())
    for shape in shapes:
        found = [*_blocks(model, shape), *_outside(model, shape)] if exact else _recurrent(model, shape)
        for part, operations in found:
            parts[part] = parts.get(part, 0.0) + shape.times * operations
    return Operations(parts=parts, exact=exact)


Found = list[tuple[str, float]]


def _blocks(model: nn.Module, shape: Shape) -> Found:
    found: Found = []
    for module in model.modules():
        if isinstance(module, EncoderBlock | CausalBlock):
            found += _attention(module.attention, shape.rows, shape.length, shape.length)
            found.append((FEEDFORWARD, _linear(module.feedforward, shape.rows * shape.length)))
        elif isinstance(module, DecoderBlock):
            found += _attention(module.attention, shape.rows, shape.target, shape.target)
            found += _attention(module.cross_attention, shape.rows, shape.target, shape.length)
            found.append((FEEDFORWARD, _linear(module.feedforward, shape.rows * shape.target)))
    return found


def _attention(layer: AttentionLayer, rows: float, queries: float, keys: float) -> Found:
    """Projections, and 2 L S E for the scores of each head and as much for its weighted values."""
    from_target = _linear(layer.query, rows * queries) + _linear(layer.output, rows * queries)
    from_source = _linear(layer.key, rows * keys) + _linear(layer.value, rows * keys)
    width = _width(layer.query) + _width(layer.value) * layer.heads / layer.key_heads
    scores = 2 * rows * queries * keys * width + _by_distance(layer, rows * queries, keys)
    return [(PROJECTIONS, from_target + from_source), (SCORES, scores)]


def _by_distance(layer: AttentionLayer, queries: float, keys: float) -> float:
    """The products of queries with vectors by distance, of which there are no more than distances."""
    score = layer.attention.score if isinstance(layer.attention, ScoredAttention) else None
    if not isinstance(score, RelativeKeys):
        return 0.0
    vectors = score.vectors
    told = 1 + min(vectors.maximum_distance, keys - 1) + min(vectors.farthest_after, keys - 1)
    if isinstance(layer.attention, RelativeAttention):  # whose values have vectors too, and all of them are multiplied
        told += layer.attention.values.weight.shape[1]
    return 2 * queries * told * _width(layer.query)


def _linear(module: nn.Module, vectors: float) -> float:
    """The linear maps in a module, each applied to so many vectors."""
    return sum(2 * vectors * part.weight.numel() for part in module.modules() if isinstance(part, nn.Linear))


def _width(projection: nn.Module) -> int:
    return projection.out_features if isinstance(projection, nn.Linear) else 0


@singledispatch
def _outside(model: nn.Module, shape: Shape) -> Found:
    """What stands outside the blocks; of an encoder with a decoder, the output."""
    output = getattr(model, "output", None)
    return [(OUTPUT, _linear(output, shape.logits))] if isinstance(output, nn.Module) else []


@_outside.register
def _(model: CausalTransformer, shape: Shape) -> Found:
    return [(OUTPUT, 2 * shape.logits * model.embedding.tokens.weight.numel())]


@_outside.register
def _(model: CausalClassifier, shape: Shape) -> Found:
    told = 0 if shape.told is None else shape.told
    return [(OUTPUT, _head(model.head, shape) + 2 * told * model.embedding.tokens.weight.numel())]


@_outside.register
def _(model: TextEncoder, shape: Shape) -> Found:
    pooled = 0.0 if model.pooler is None else _linear(model.pooler, shape.rows)
    return [(OUTPUT, pooled + _head(model.head, shape))]


@_outside.register
def _(model: VectorReader, shape: Shape) -> Found:
    return [(OUTPUT, _linear(model.head, shape.rows))]


def _head(head: nn.Module, shape: Shape) -> float:
    if isinstance(head, PretrainingHead):
        return _head(head.masked, shape) + _head(head.next_sentence, shape)
    if isinstance(head, MaskedHead):
        return _linear(head, shape.logits)
    return _linear(head, shape.rows * shape.length if isinstance(head, TokenHead) else shape.rows)


def _recurrent(model: nn.Module, shape: Shape) -> Found:
    """Every matrix but the tables, once for each token of its side: the encoder's for the source's."""
    encoder = getattr(model, "encoder", None)
    of_source = _matrices(encoder) if isinstance(encoder, nn.Module) else 0
    rest = shape.target or shape.length
    return [(MATRICES, 2 * shape.rows * (of_source * shape.length + (_matrices(model) - of_source) * rest))]


def _matrices(module: nn.Module) -> int:
    """The numbers of a module that vectors are multiplied by: all but vectors and tables; a table that the output shares is."""
    tables = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)}
    shared = {id(part.weight) for part in module.modules() if isinstance(part, nn.Linear)}
    return sum(
        parameter.numel()
        for parameter in module.parameters()
        if parameter.dim() > 1 and (id(parameter) not in tables or id(parameter) in shared)
    )
