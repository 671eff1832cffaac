"""A decoder-only Transformer whose parts are settings, from GPT-2 over GPT-NeoX to Llama.

From GPT-2 to Llama a few parts changed: learned positions became rotary, layer norm became RMS norm, feed-forward networks became
gated, multi-head attention became grouped-query attention, and biases were removed. Here each part is a setting, so
`regard compare` can measure one change at a time (`recipes/comparisons/decoder-parts.yaml`). Other libraries do not read this
layout: to exchange a model, train a `gpt2` or a `llama`.
"""

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
    Rotary,
    ScaledDot,
    ScoredAttention,
    SinusoidalPositions,
)
from regard.layers import (
    ACTIVATIONS,
    Activation,
    CausalBlock,
    CausalTransformer,
    FeedForward,
    GatedFeedForward,
    NormPlacement,
    PositionedEmbedding,
    Residual,
)
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types
from regard.models.gpt import initialise_causal

ADDED = {"learned": LearnedPositions, "sinusoidal": SinusoidalPositions}
"""Positions that are added to the embeddings; the others act inside attention."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecoderConfig:
    """The sizes and parts of a decoder. The default parts are those of GPT-2.

    Arguments:
        vocabulary: V, number of tokens.
        width: D, of the model.
        heads: H, query heads; divides the width.
        key_heads: G, the number of key and value heads, each shared by a group of query heads (Ainslie et al. 2023); divides
            `heads`. null = `heads` (multi-head attention); 1 is multi-query attention (Shazeer 2019).
        feedforward_width: F, the hidden width of the feed-forward networks. A gated one of 2/3 F has as many parameters as an
            ungated one of F.
        layers: number of blocks.
        maximum_positions: the longest text, in tokens.
        positions: the position encoding. `learned`: a vector for each position, added to the embedding (GPT-2); `sinusoidal`:
            fixed vectors, added to sqrt(D) times the embedding (Vaswani et al. 2017, section 3.4); `rotary`: queries and keys are
            rotated by their positions (Su et al. 2021); `relative`: a learned vector for each distance, whose product with the
            query is added to the score (Shaw et al. 2018); `none`: only the causal mask depends on the order.
        rotary_base: of the rotary frequencies, base^(-2k / E), for `positions: rotary`.
        maximum_distance: the distance in tokens from which on all keys share the last vector, for `positions: relative`.
        norm: `layer` (Ba et al. 2016), or `rms`, without centring and bias (Zhang, Sennrich 2019).
        norm_placement: `pre` = before each sub-layer, with one more norm at the end; `post` = after each residual sum.
        parallel: whether the feed-forward network has the same input as attention, with its own norm, instead of the sum after
            attention (GPT-NeoX); for `norm_placement: pre`.
        gated: whether feed-forward networks are gated (Shazeer 2020): W2 (f(Wg x) * W1 x) instead of W2 f(W1 x).
        activation: f, of the feed-forward networks; SwiGLU is `gated: true` with `activation: swish`.
        bias: whether linear maps have biases.
        tied_output: whether the output layer shares the embedding table.
        dropout: probability of dropping an entry of each sub-layer's output and of the embeddings in training.
        attention_dropout: of attention weights.
        norm_epsilon: added to the variance or the mean square in norms.
        init_std: standard deviation of the normal distribution that matrices are sampled from.
        padding_id: the token that fills padding.
        end_id: the token that ends a text; it is also before the first token of a text.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "decoder"

    vocabulary: int
    width: int = 768
    heads: int = 12
    key_heads: int | None = None
    feedforward_width: int = 3072
    layers: int = 12
    maximum_positions: int = 1024
    positions: Literal["learned", "sinusoidal", "rotary", "relative", "none"] = "learned"
    rotary_base: float = 10_000.0
    maximum_distance: int = 127
    norm: Literal["layer", "rms"] = "layer"
    norm_placement: NormPlacement = "pre"
    parallel: bool = False
    gated: bool = False
    activation: Activation = "gelu"
    bias: bool = True
    tied_output: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.0
    norm_epsilon: float = 1e-5
    init_std: float = 0.02
    padding_id: int = 0
    end_id: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "vocabulary", "width", "heads", "feedforward_width", "layers", "maximum_positions")
        width, heads = self.width, self.heads
        check(width % heads == 0, "heads", heads, f"a divisor of width {width}", "change one of the two")
        groups = key_heads_of(self)
        check(groups > 0 and heads % groups == 0, "key_heads", groups, f"a divisor of heads {heads}", "change it")
        even = self.positions != "sinusoidal" or width % 2 == 0
        check(even, "width", width, "even for sinusoidal positions", "add one or choose positions=learned")
        turned = self.positions != "rotary" or width // heads % 2 == 0
        check(turned, "heads", heads, "such that width / heads is even", "rotary positions turn pairs of channels")
        alone = self.norm_placement == "pre" or not self.parallel
        check(alone, "parallel", self.parallel, "false with norms after each sum", "choose norm_placement=pre")
        check(self.rotary_base > 1, "rotary_base", self.rotary_base, "above 1", "10000 is usual")
        check(self.maximum_distance >= 0, "maximum_distance", self.maximum_distance, "at least 0", "127 is usual")
        check_shares(self, "dropout", "attention_dropout", usual="0.1 is usual")
        for name in ("norm_epsilon", "init_std"):
            check(getattr(self, name) > 0, name, getattr(self, name), "above 0", "leave it out for the usual one")
        check_tokens(self, "padding_id", "end_id")


class Decoder(CausalTransformer):
    """A decoder with the parts of its config.

        x = E[token] + P[position]                                        P learned or none; sqrt(D) E if P is sinusoidal
        x = x + attention(norm(x));   x = x + ffn(norm(x))                n times; `post`: norm(x + ...)
        x = x + attention(norm(x)) + ffn(norm'(x))                        `parallel`
        logits = norm(x) O^T                                              `post`: without the norm; `tied_output`: O = E

    Arguments:
        config: its sizes and parts.

    >>> from regard.layers import Tokens
    >>> sizes = {"width": 8, "heads": 2, "feedforward_width": 16, "layers": 2, "maximum_positions": 6}
    >>> model = Decoder(DecoderConfig(vocabulary=9, positions="rotary", norm="rms", gated=True, key_heads=1, **sizes))
    >>> model(Tokens.pad([[0, 4, 5], [0, 7]])).shape
    torch.Size([2, 3, 9])
    """

    config: DecoderConfig

    def __init__(self, config: DecoderConfig) -> None:
        added = ADDED.get(config.positions, NoPositions)
        output = None if config.tied_output else nn.Linear(config.width, config.vocabulary, bias=False)
        super().__init__(
            config,
            embedding=PositionedEmbedding(
                nn.Embedding(config.vocabulary, config.width),
                added(config.width, config.maximum_positions),
                dropout=config.dropout,
                # fixed vectors have entries of about 0.7, next to which those of a fresh table would be lost
                scale=config.width**0.5 if config.positions == "sinusoidal" else 1.0,
            ),
            layers=_blocks(config),
            norm=_norm(config) if config.norm_placement == "pre" else nn.Identity(),
            output=output,
        )
        initialise_causal(self, config, scaled_residuals=True)


def key_heads_of(config: DecoderConfig) -> int:
    """G, heads of keys and values."""
    return config.heads if config.key_heads is None else config.key_heads


def _norm(config: DecoderConfig) -> nn.Module:
    kind = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}[config.norm]
    return kind(config.width, eps=config.norm_epsilon)


def _blocks(config: DecoderConfig) -> list[CausalBlock]:
    """The blocks; those with rotary positions share one table of rotations."""
    each, rotary = config.width // config.heads, None
    if config.positions == "rotary":
        rotary = Rotary(each, config.maximum_positions, base=config.rotary_base)
    feedforward = GatedFeedForward if config.gated else FeedForward

    def residual() -> Residual:
        norm, none = _norm(config), nn.Identity()
        before, after = (norm, none) if config.norm_placement == "pre" else (none, norm)
        return Residual(before=before, after=after, dropout=config.dropout)

    return [
        CausalBlock(
            attention=MultiHeadAttention(
                config.width,
                config.heads,
                key_heads=config.key_heads,
                bias=config.bias,
                attention=ScoredAttention(_score(config), dropout=config.attention_dropout),
                sequences=("target", "target"),
                rotary=rotary,
            ),
            feedforward=feedforward(
                config.width, config.feedforward_width, activation=ACTIVATIONS[config.activation], bias=config.bias
            ),
            residual=residual,
            parallel=config.parallel,
        )
        for _ in range(config.layers)
    ]


def _score(config: DecoderConfig) -> ScaledDot | RelativeKeys:
    if config.positions != "relative":
        return ScaledDot()
    width = config.width // config.heads
    return RelativeKeys(RelativeVectors(width, config.maximum_distance, heads=config.heads, both_ways=False))
