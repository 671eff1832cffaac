"""Decoders of the Llama type: Llama (Touvron et al. 2023), Mistral, SmolLM2, Qwen2 and Qwen3, one model with some settings.

Five parts differ from GPT-2: rotary positions (Su et al. 2021), RMS norm (Zhang, Sennrich 2019), feed-forward networks gated by
SiLU (Shazeer 2020), grouped-query attention (Ainslie et al. 2023), and no biases. The differences between the families are
settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from regard.attention import MultiHeadAttention, NoPositions, Rotary, RotaryScaling
from regard.layers import (
    ACTIVATIONS,
    Activation,
    CausalBlock,
    CausalTransformer,
    GatedFeedForward,
    PositionedEmbedding,
    Residual,
)
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types


@dataclass(frozen=True, kw_only=True, slots=True)
class LlamaConfig:
    """The sizes of a Llama. The defaults are those of SmolLM2-135M, except for its 3 key heads.

    Arguments:
        vocabulary: V, number of tokens.
        width: D, of the model.
        heads: H, query heads.
        key_heads: G, the number of key and value heads, each shared by a group of query heads; divides `heads`. null = `heads`
            (multi-head attention); 1 is multi-query attention.
        head_width: E, of a head, even; null = D / H.
        feedforward_width: F, the hidden width of the gated feed-forward networks.
        layers: number of blocks.
        maximum_positions: the longest text, in tokens.
        rotary_base: of the rotary frequencies, base^(-2k / E).
        rotary_scaling: how these are changed for texts longer than in training; null = not changed.
        sliding_window: the number of tokens that a query sees, itself included (Mistral); null = all earlier tokens.
        window_from: the first block with the window; earlier blocks see all earlier tokens (Qwen2); 0 = every block has it.
        attention_bias: whether the projections of queries, keys and values have biases (Qwen2).
        attention_output_bias: whether the output projection of attention has a bias.
        feedforward_bias: whether the linear maps of the feed-forward networks have biases.
        query_key_norm: whether queries and keys are normalised in each head before the rotation (Qwen3).
        tied_output: whether the output layer shares the embedding table.
        activation: of the gates.
        dropout: probability of dropping an entry of each sub-layer's output and of the embeddings in training.
        attention_dropout: of attention weights.
        norm_epsilon: added to the mean square in norms.
        init_std: standard deviation of the normal distribution that matrices are sampled from.
        padding_id: the token that fills padding.
        end_id: the token that ends a text; it is also before the first token of a text.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "llama"

    vocabulary: int = 49_152
    width: int = 576
    heads: int = 9
    key_heads: int | None = None
    head_width: int | None = None
    feedforward_width: int = 1536
    layers: int = 30
    maximum_positions: int = 8192
    rotary_base: float = 100_000.0
    rotary_scaling: RotaryScaling | None = None
    sliding_window: int | None = None
    window_from: int = 0
    attention_bias: bool = False
    attention_output_bias: bool = False
    feedforward_bias: bool = False
    query_key_norm: bool = False
    tied_output: bool = True
    activation: Activation = "swish"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    norm_epsilon: float = 1e-5
    init_std: float = 0.02
    padding_id: int = 0
    end_id: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "vocabulary", "width", "heads", "feedforward_width", "layers", "maximum_positions")
        width, heads = self.width, self.heads
        whole = self.head_width is not None or width % heads == 0
        check(whole, "heads", heads, f"a divisor of width {width}", "change one of the two, or name a head_width")
        groups, each = key_heads_of(self), head_width_of(self)
        check(groups > 0 and heads % groups == 0, "key_heads", groups, f"a divisor of heads {heads}", "change it")
        check(each > 0 and each % 2 == 0, "head_width", each, "even and above 0", "rotary positions turn pairs")
        check(self.rotary_base > 1, "rotary_base", self.rotary_base, "above 1", "10000 is usual")
        window = self.sliding_window
        check(window is None or window > 0, "sliding_window", window, "at least 1", "1 is the token itself")
        check(0 <= self.window_from <= self.layers, "window_from", self.window_from, f"0 to {self.layers}", "change it")
        check_shares(self, "dropout", "attention_dropout", usual="0 is usual")
        for name in ("norm_epsilon", "init_std"):
            check(getattr(self, name) > 0, name, getattr(self, name), "above 0", "leave it out for the usual one")
        check_tokens(self, "padding_id", "end_id")
        # One way to say each, so that a config is the same after it was written as another library's and read.
        if self.key_heads == heads:
            object.__setattr__(self, "key_heads", None)
        if self.head_width is not None and self.head_width * heads == width:
            object.__setattr__(self, "head_width", None)


class Llama(CausalTransformer):
    """A decoder of the Llama type (Touvron et al. 2023, section 2.2).

        x = E[token]
        x = x + attention(norm(x));   x = x + W2 (SiLU(Wg norm(x)) * W1 norm(x))         n times
        logits = norm(x) O^T,   norm(x) = g * x / sqrt(mean(x^2) + epsilon),   O = E where tied

    Attention is causal and scaled by 1/sqrt(E); queries and keys have rotary positions.

    Arguments:
        config: its sizes.

    >>> from regard.layers import Tokens
    >>> sizes = {"width": 8, "heads": 2, "key_heads": 1, "feedforward_width": 16, "layers": 2, "maximum_positions": 6}
    >>> Llama(LlamaConfig(vocabulary=9, **sizes))(Tokens.pad([[0, 4, 5], [0, 7]])).shape
    torch.Size([2, 3, 9])
    """

    config: LlamaConfig

    def __init__(self, config: LlamaConfig) -> None:
        table = nn.Embedding(config.vocabulary, config.width)
        output = None if config.tied_output else nn.Linear(config.width, config.vocabulary, bias=False)
        super().__init__(
            config,
            embedding=PositionedEmbedding(
                table, NoPositions(config.width, config.maximum_positions), dropout=config.dropout, scale=1.0
            ),
            layers=blocks_of(config),
            norm=nn.RMSNorm(config.width, eps=config.norm_epsilon),
            sliding_windows=windows_of(config),
            output=output,
        )
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=config.init_std)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)


def head_width_of(config: LlamaConfig) -> int:
    """E, the width of a head."""
    return config.width // config.heads if config.head_width is None else config.head_width


def key_heads_of(config: LlamaConfig) -> int:
    """G, the number of key and value heads."""
    return config.heads if config.key_heads is None else config.key_heads


def blocks_of(config: LlamaConfig) -> list[CausalBlock]:
    """The blocks, which share one table of rotary positions."""
    each = head_width_of(config)
    rotary = Rotary(each, config.maximum_positions, base=config.rotary_base, scaling=config.rotary_scaling)

    def norm(width: int) -> nn.RMSNorm:
        return nn.RMSNorm(width, eps=config.norm_epsilon)

    return [
        CausalBlock(
            attention=MultiHeadAttention(
                config.width,
                config.heads,
                key_heads=key_heads_of(config),
                head_width=each,
                bias=config.attention_bias,
                output_bias=config.attention_output_bias,
                dropout=config.attention_dropout,
                sequences=("target", "target"),
                rotary=rotary,
                query_norm=norm(each) if config.query_key_norm else None,
                key_norm=norm(each) if config.query_key_norm else None,
            ),
            feedforward=GatedFeedForward(
                config.width,
                config.feedforward_width,
                activation=ACTIVATIONS[config.activation],
                bias=config.feedforward_bias,
            ),
            residual=lambda: Residual(before=norm(config.width), after=nn.Identity(), dropout=config.dropout),
        )
        for _ in range(config.layers)
    ]


def windows_of(config: LlamaConfig) -> list[int | None]:
    """The sliding window of each block; None = all earlier tokens."""
    return [config.sliding_window if index >= config.window_from else None for index in range(config.layers)]
