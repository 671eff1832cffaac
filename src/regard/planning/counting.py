"""Counts of a model: its parameters, and the floating-point operations for batches of given shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from torch import nn

from regard.attention import (
    AttentionLayer,
    LearnedPositions,
    RelativeAttention,
    RelativeBias,
    RelativeKeys,
    ScoredAttention,
)
from regard.layers import (
    CausalBlock,
    CausalClassifier,
    CausalTransformer,
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    GatedFeedForward,
    PositionedEmbedding,
    SentenceEncoderModel,
    TextEmbedding,
    TextEncoder,
)
from regard.layers.blocks import Block
from regard.layers.heads import MaskedHead, PretrainingHead, ReplacedHead, TokenHead
from regard.models import MODELS
from regard.models.config import shapes_only


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Batches of one shape.

    Arguments:
        rows: texts, or pairs of texts, in a batch.
        length: tokens of each text, padding included; for an encoder-decoder, of each source.
        target: tokens of each target; 0 without targets.
        predicted: tokens of a batch whose logits over the vocabulary are computed; None for all of the target, or else of the
            text.
        times: the number of such batches in the run.
    """

    rows: float
    length: float
    target: float = 0
    predicted: float | None = None
    times: float = 1

    @property
    def tokens(self) -> float:
        """Tokens of one batch, padding included, source and target together."""
        return self.rows * (self.length + self.target)

    @property
    def logits(self) -> float:
        """Tokens of one batch that have logits over the vocabulary."""
        return self.predicted if self.predicted is not None else self.rows * (self.target or self.length)


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """All batches of a run.

    Arguments:
        shapes: its batches.
        updates: the number of parameter updates; None where unknown.
        largest: the largest batch on one device, from which memory is counted.
        source: where these numbers are from.
    """

    shapes: tuple[Shape, ...]
    updates: float | None
    largest: Shape
    source: str

    @property
    def tokens(self) -> float:
        """D, the number of tokens read in the whole run, padding included."""
        return total_tokens(self.shapes)


def total_tokens(shapes: Iterable[Shape]) -> float:
    """The number of tokens in all batches.

    >>> total_tokens([Shape(rows=2, length=8, times=3), Shape(rows=1, length=4, target=6)])
    58
    """
    return sum(shape.times * shape.tokens for shape in shapes)


# Parameters, counted on a model without weights: exact, and immediate for any size.


NORMS = (nn.LayerNorm, nn.RMSNorm)
TABLES = (nn.Embedding, LearnedPositions, PositionedEmbedding, TextEmbedding)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """The numbers of a model's parameters.

    Arguments:
        parts: by part; a matrix that two parts share is counted once, among the embeddings.
        trained: those that are updated.
        block: those of the largest block; 0 without blocks.
        products: those in matrices of linear layers, including an embedding that the output shares.
    """

    parts: Mapping[str, int]
    trained: int
    block: int
    products: int

    @property
    def total(self) -> int:
        """N."""
        return sum(self.parts.values())


def outline(config: Any) -> nn.Module:
    """The model of a config, with shapes but without weights.

    >>> from regard.models import GPT3Config
    >>> sum(parameter.numel() for parameter in outline(GPT3Config.named("175b")).parameters())
    174604259328
    """
    with shapes_only():
        return MODELS[config.model_type].model(config)


def count_parameters(model: nn.Module) -> Parameters:
    """The parameters of a model by part: embeddings, attention, feed-forward networks, norms, and the rest, such as an output.

    >>> from regard.models import GPT2Config
    >>> counted = count_parameters(outline(GPT2Config.small()))
    >>> counted.total, dict(counted.parts)["attention"]
    (124439808, 28348416)
    """
    parts: dict[str, int] = {}
    seen: set[int] = set()
    for part, parameter in _owned(model, "rest"):
        if id(parameter) not in seen:
            seen.add(id(parameter))
            parts[part] = parts.get(part, 0) + parameter.numel()
    matrices = {id(m.weight): m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear)}
    return Parameters(
        parts=parts,
        trained=sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
        block=max((size_of(module) for module in model.modules() if isinstance(module, Block)), default=0),
        products=sum(matrices.values()),
    )


def size_of(module: nn.Module) -> int:
    """The number of parameters in a module."""
    return sum(parameter.numel() for parameter in module.parameters())


def _owned(module: nn.Module, part: str) -> list[tuple[str, nn.Parameter]]:
    """Every parameter with its part: that of the outermost module that is a part."""
    part = part if part != "rest" else _part(module)
    found = [(part, parameter) for parameter in module.parameters(recurse=False)]
    # Embeddings first: an output that shares one has no parameters of its own.
    children = sorted(module.children(), key=lambda child: _part(child) != "embeddings")
    for child in children:
        found += _owned(child, part)
    return sorted(found, key=lambda each: each[0] != "embeddings")


def _part(module: nn.Module) -> str:
    if isinstance(module, TABLES):
        return "embeddings"
    if isinstance(module, AttentionLayer | RelativeBias):
        return "attention"
    if isinstance(module, FeedForward | GatedFeedForward):
        return "feed-forward"
    return "norms" if isinstance(module, NORMS) else "rest"


# Operations of matrix products; a multiplication and an addition are two.


EMBEDDING, PROJECTIONS, SCORES, FEEDFORWARD, OUTPUT, MATRICES = (
    "embedding projection",
    "attention projections",
    "attention weights",
    "feed-forward nets",
    "output",
    "all matrices",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Operations:
    """The floating-point operations of a run's forward passes, and those of training.

    Arguments:
        parts: by part: `attention projections`, `attention weights` (the products of queries with keys and of weights with
            values, which grow with the square of the length), `feed-forward nets`, `output`, and for ELECTRA `embedding
            projection`. For a model without blocks `all matrices`, each counted once per token of its side.
        exact: whether these are all matrix products.
    """

    parts: Mapping[str, float]
    exact: bool

    @property
    def forward(self) -> float:
        """Operations of the forward passes."""
        return sum(self.parts.values())

    @property
    def training(self) -> float:
        """Operations of forward and backward passes: each product has two of the same size in the backward pass."""
        return 3 * self.forward

    @property
    def recomputed(self) -> float:
        """Operations of training with activation checkpointing: the blocks, but not the output, are computed forward twice."""
        return 3 * self.forward + self.forward - self.parts.get(OUTPUT, 0.0)


def count_operations(model: nn.Module, shapes: Iterable[Shape]) -> Operations:
    """The operations of the matrix products in a forward pass over batches of these shapes.

    For one text of L tokens through n blocks of width D, inner width F and a shared embedding of V rows:

        2 L (4 n D^2 + 2 n D F + D V) + 4 n L^2 D

    Every key counts for every query, masked or not: a kernel that skips keys under a causal mask does about half of the last
    term. Look-ups, norms, softmax and activations are no matrix products and not counted, as in `torch.utils.flop_counter`,
    with which this agrees.

    >>> from regard.models import GPT2Config
    >>> from regard.planning.counting import outline
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
    """Projections, and 2 L S E for the scores of each head and as much for the weighted sum of its values."""
    from_target = _linear(layer.query, rows * queries) + _linear(layer.output, rows * queries)
    from_source = _linear(layer.key, rows * keys) + _linear(layer.value, rows * keys)
    width = _width(layer.query) + _width(layer.value) * layer.heads / layer.key_heads
    scores = 2 * rows * queries * keys * width + _by_distance(layer, rows * queries, keys)
    return [(PROJECTIONS, from_target + from_source), (SCORES, scores)]


def _by_distance(layer: AttentionLayer, queries: float, keys: float) -> float:
    """The products of queries with relative-position vectors, of which there is one per distance."""
    score = layer.attention.score if isinstance(layer.attention, ScoredAttention) else None
    if not isinstance(score, RelativeKeys):
        return 0.0
    vectors = score.vectors
    distances = 1 + min(vectors.maximum_distance, keys - 1) + min(vectors.farthest_after, keys - 1)
    if isinstance(layer.attention, RelativeAttention):  # its values have such vectors too, and all are multiplied
        distances += layer.attention.values.weight.shape[1]
    return 2 * queries * distances * _width(layer.query)


def _linear(module: nn.Module, vectors: float) -> float:
    """The linear layers in a module, each applied to `vectors` vectors."""
    return sum(2 * vectors * part.weight.numel() for part in module.modules() if isinstance(part, nn.Linear))


def _width(projection: nn.Module) -> int:
    return projection.out_features if isinstance(projection, nn.Linear) else 0


@singledispatch
def _outside(model: nn.Module, shape: Shape) -> Found:
    """Products outside the blocks; for an encoder-decoder, the output layer."""
    output = getattr(model, "output", None)
    return [(OUTPUT, _linear(output, shape.logits))] if isinstance(output, nn.Module) else []


@_outside.register
def _(model: CausalTransformer, shape: Shape) -> Found:
    return [(OUTPUT, 2 * shape.logits * model.embedding.tokens.weight.numel())]


@_outside.register
def _(model: CausalClassifier, shape: Shape) -> Found:
    predicted = 0 if shape.predicted is None else shape.predicted
    return [(OUTPUT, _head(model.head, shape) + 2 * predicted * model.embedding.tokens.weight.numel())]


@_outside.register
def _(model: TextEncoder, shape: Shape) -> Found:
    pooled = 0.0 if model.pooler is None else _linear(model.pooler, shape.rows)
    projection = model.embedding.projection
    entered = [] if projection is None else [(EMBEDDING, _linear(projection, shape.rows * shape.length))]
    return [*entered, (OUTPUT, pooled + _head(model.head, shape))]


@_outside.register
def _(model: SentenceEncoderModel, shape: Shape) -> Found:
    return [(OUTPUT, _linear(model.head, shape.rows))]


def _head(head: nn.Module, shape: Shape) -> float:
    if isinstance(head, PretrainingHead):
        return _head(head.masked, shape) + _head(head.next_sentence, shape)
    if isinstance(head, MaskedHead):
        return _linear(head, shape.logits)
    if isinstance(head, ReplacedHead):
        return _linear(head, shape.rows * shape.length)
    return _linear(head, shape.rows * shape.length if isinstance(head, TokenHead) else shape.rows)


def _recurrent(model: nn.Module, shape: Shape) -> Found:
    """Every matrix but the embeddings, once for each token of its side: the encoder's for the source's tokens."""
    encoder = getattr(model, "encoder", None)
    of_source = _matrices(encoder) if isinstance(encoder, nn.Module) else 0
    rest = shape.target or shape.length
    return [(MATRICES, 2 * shape.rows * (of_source * shape.length + (_matrices(model) - of_source) * rest))]


def _matrices(module: nn.Module) -> int:
    """The number of parameters in matrices, without embeddings, unless the output shares them."""
    tables = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)}
    shared = {id(part.weight) for part in module.modules() if isinstance(part, nn.Linear)}
    return sum(
        parameter.numel()
        for parameter in module.parameters()
        if parameter.dim() > 1 and (id(parameter) not in tables or id(parameter) in shared)
    )
