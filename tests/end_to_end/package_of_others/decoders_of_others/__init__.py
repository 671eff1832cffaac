"""A decoder as language models are built since 2023, put together from Regard's parts: the whole of a family in one file.

    x = E[token]
    x = x + attention(norm(x));   x = x + mlp(norm(x))         n times, attention causal, queries and keys rotated
    logits = norm(x) E^T

Norms are root mean squares (Zhang, Sennrich 2019), feed-forward nets are gated by SiLU (Shazeer 2020), positions are rotary
(Su et al. 2021), and groups of query heads share a head of keys and values (Ainslie et al. 2023).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

import regard.parts
from regard.attention import Dot, MultiHeadAttention, NoPositions, Rotary, ScoredAttention
from regard.layers import CausalBlock, CausalTransformer, GatedFeedForward, PositionedEmbedding, Residual
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types


@dataclass(frozen=True, kw_only=True, slots=True)
class RotaryDecoderConfig:
    """Its sizes; `key_heads` divides `heads`, which divides `width` into even widths."""

    model_type: ClassVar[str] = "rotary_decoder"

    vocabulary: int
    width: int = 64
    heads: int = 4
    key_heads: int = 2
    feedforward_width: int = 128
    layers: int = 2
    maximum_positions: int = 64
    dropout: float = 0.0
    attention_dropout: float = 0.0
    norm_epsilon: float = 1e-5
    padding_id: int = 0
    end_id: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(
            self, "vocabulary", "width", "heads", "key_heads", "feedforward_width", "layers", "maximum_positions"
        )
        check(self.width % (2 * self.heads) == 0, "heads", self.heads, "so that heads are of even width", "change it")
        check(self.heads % self.key_heads == 0, "key_heads", self.key_heads, f"a divisor of {self.heads}", "change it")
        check_shares(self, "dropout", "attention_dropout", usual="0.1 is usual")
        check_tokens(self, "padding_id", "end_id")


@regard.parts.model(config=RotaryDecoderConfig, interface="language_model")
class RotaryDecoder(CausalTransformer):
    """The decoder."""

    def __init__(self, config: RotaryDecoderConfig) -> None:
        tokens = nn.Embedding(config.vocabulary, config.width)
        super().__init__(
            config,
            embedding=PositionedEmbedding(
                tokens, NoPositions(config.width, config.maximum_positions), dropout=config.dropout, scale=1.0
            ),
            layers=[block_of(config) for _ in range(config.layers)],
            norm=nn.RMSNorm(config.width, eps=config.norm_epsilon),
        )
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)


def block_of(config: RotaryDecoderConfig) -> CausalBlock:
    """One block, without a bias anywhere."""
    return CausalBlock(
        attention=MultiHeadAttention(
            config.width,
            config.heads,
            key_heads=config.key_heads,
            bias=False,
            dropout=config.attention_dropout,
            rotary=Rotary(config.width // config.heads, config.maximum_positions),
            sequences=("target", "target"),
        ),
        feedforward=GatedFeedForward(config.width, config.feedforward_width, activation=nn.functional.silu),
        residual=lambda: Residual(
            before=nn.RMSNorm(config.width, eps=config.norm_epsilon), after=nn.Identity(), dropout=config.dropout
        ),
    )


@regard.parts.mechanism("unscaled")
class Unscaled(ScoredAttention):
    """Attention by the plain inner product, not divided by the root of its width."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__(Dot(), dropout=dropout)
