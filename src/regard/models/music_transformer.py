"""Music Transformer: generating music with long-term structure (Huang et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from regard.attention import (
    LearnedPositions,
    MultiHeadAttention,
    NoPositions,
    RelativeKeys,
    RelativeVectors,
    ScaledDot,
    Score,
    ScoredAttention,
    SinusoidalPositions,
)
from regard.attention.relative import Beyond
from regard.layers import (
    ACTIVATIONS,
    Activation,
    CausalBlock,
    CausalTransformer,
    FeedForward,
    PositionedEmbedding,
    Residual,
    token_embedding,
)
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types


@dataclass(frozen=True, kw_only=True, slots=True)
class MusicTransformerConfig:
    """The sizes of a Music Transformer.

    Arguments:
        vocabulary: V, number of events.
        width: D, of the model.
        heads: H; divides the width.
        feedforward_width: F, inside the feed-forward networks.
        layers: number of blocks.
        maximum_distance: the largest distance, in events, with its own relative vector in each head; null = no relative vectors.
        beyond: the vector of larger distances: the `last` one, as in Shaw et al. 2018, or `nothing`, as in the authors' code.
        positions: absolute positions that are added to the embeddings: `none`, `sinusoidal` or `learned`.
        maximum_positions: the longest piece, in events, with absolute positions; without them there is no limit.
        activation: of the feed-forward networks.
        dropout: probability of dropping an entry of each sub-layer's output in training.
        embedding_dropout: of the embeddings.
        attention_dropout: of attention weights.
        norm_epsilon: added to the variance in layer norms.
        padding_id: the token that fills padding.
        end_id: the token that ends a piece; it is also before the first event of a piece.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "music_transformer"

    vocabulary: int
    width: int = 256
    heads: int = 4
    feedforward_width: int = 1024
    layers: int = 6
    maximum_distance: int | None = 511
    beyond: Beyond = "last"
    positions: Literal["none", "sinusoidal", "learned"] = "none"
    maximum_positions: int = 2048
    activation: Activation = "relu"
    dropout: float = 0.1
    embedding_dropout: float = 0.1
    attention_dropout: float = 0.0
    norm_epsilon: float = 1e-5
    padding_id: int = 0
    end_id: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "vocabulary", "width", "heads", "feedforward_width", "layers", "maximum_positions")
        width, heads, farthest = self.width, self.heads, self.maximum_distance
        check(width % heads == 0, "heads", heads, f"a divisor of width {width}", "change one of the two")
        even = self.positions != "sinusoidal" or width % 2 == 0
        check(even, "width", width, "even for sinusoidal positions", "add one or choose positions=learned")
        known = farthest is None or farthest >= 0
        check(known, "maximum_distance", farthest, "at least 0, or null", "null is for no vectors by distance")
        check_shares(self, "dropout", "embedding_dropout", "attention_dropout", usual="0.1 is usual")
        check(self.norm_epsilon > 0, "norm_epsilon", self.norm_epsilon, "above 0", "leave it out for the usual one")
        check_tokens(self, "padding_id", "end_id")


class MusicTransformer(CausalTransformer):
    """A decoder with relative positions between events (Huang et al. 2019, sections 3.3 and 3.4).

        x = sqrt(D) E[event]
        x = x + attention(norm(x));   x = x + mlp(norm(x))                                     n times, attention causal
        attention:  softmax((Q K^T + S_rel) / sqrt(D/H)) V,   S_rel[i, j] = q_i . e_h(j - i)   e a table for each head
        logits = norm(x) E^T

    A repeated motif has the same distance wherever it is in the piece, so what the model learns about it at one position also
    applies at others, and in longer pieces.

    Arguments:
        config: its sizes.

    >>> from regard.layers import Tokens
    >>> model = MusicTransformer(MusicTransformerConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=2))
    >>> model(Tokens.pad([[0, 4, 5], [0, 7]])).shape
    torch.Size([2, 3, 9])
    """

    config: MusicTransformerConfig

    def __init__(self, config: MusicTransformerConfig) -> None:
        super().__init__(
            config,
            embedding=_embedding(config),
            layers=[_block(config) for _ in range(config.layers)],
            norm=nn.LayerNorm(config.width, eps=config.norm_epsilon),
        )
        _draw(self)

    @property
    def maximum_length(self) -> int | None:
        """The number of positions, of which the end token before the piece takes one; None without absolute positions."""
        return None if self.config.positions == "none" else self.config.maximum_positions


def _embedding(config: MusicTransformerConfig) -> PositionedEmbedding:
    kind = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions, "none": NoPositions}[config.positions]
    return PositionedEmbedding(
        token_embedding(config.vocabulary, config.width),
        kind(config.width, config.maximum_positions),
        dropout=config.embedding_dropout,
    )


def _block(config: MusicTransformerConfig) -> CausalBlock:
    attention = MultiHeadAttention(
        config.width,
        config.heads,
        bias=False,
        attention=ScoredAttention(_score(config), dropout=config.attention_dropout),
        sequences=("target", "target"),
    )
    return CausalBlock(
        attention=attention,
        feedforward=FeedForward(config.width, config.feedforward_width, activation=ACTIVATIONS[config.activation]),
        residual=lambda: Residual.with_norm("pre", config.width, dropout=config.dropout, epsilon=config.norm_epsilon),
    )


def _score(config: MusicTransformerConfig) -> Score:
    if config.maximum_distance is None:
        return ScaledDot()
    width, farthest = config.width // config.heads, config.maximum_distance
    return RelativeKeys(RelativeVectors(width, farthest, heads=config.heads, both_ways=False, beyond=config.beyond))


def _draw(model: CausalTransformer) -> None:
    """Glorot-uniform matrices and zero biases, as in the authors' library; embedding tables keep their own initialisation."""
    for module in model.layers.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
