"""GPT-NeoX (Black et al. 2022), and with it Pythia (Biderman et al. 2023): a decoder of parallel blocks with rotary positions.

Three parts differ from GPT-2: attention and the feed-forward network are parallel (they have the same input, and both outputs are
added to it), the first quarter of each head's channels has rotary positions, and the output layer has its own table.
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
    FeedForward,
    PositionedEmbedding,
    Residual,
)
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types
from regard.models.gpt import initialise_causal


@dataclass(frozen=True, kw_only=True, slots=True)
class GPTNeoXConfig:
    """The sizes of a GPT-NeoX; the defaults are those of Pythia-70M: 70,426,624 parameters.

    Arguments:
        vocabulary: V, number of tokens.
        width: D, of the model.
        heads: H; divides the width.
        feedforward_width: F, inside the feed-forward networks.
        layers: number of blocks.
        maximum_positions: the longest text, in tokens.
        rotary_share: the share of the E = D / H channels of each head, from the first on, that is rotated; rotary_share E,
            rounded down, is even and at least 2.
        rotary_base: of the rotary frequencies, base^(-2k / (rotary_share E)).
        rotary_scaling: how these are changed for texts longer than in training; null = not changed.
        parallel: whether the feed-forward network has the same input as attention, instead of the sum after attention.
        attention_bias: whether the four projections of attention have biases.
        tied_output: whether the output layer shares the embedding table.
        activation: of the feed-forward networks.
        dropout: probability of dropping an entry of each sub-layer's output and of the embeddings in training.
        attention_dropout: of attention weights.
        norm_epsilon: added to the variance in layer norms.
        init_std: standard deviation of the normal distribution that matrices are sampled from.
        padding_id: the token that fills padding.
        end_id: the token that ends a text; it is also before the first token of a text.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "gpt_neox"

    vocabulary: int = 50_304
    width: int = 512
    heads: int = 8
    feedforward_width: int = 2048
    layers: int = 6
    maximum_positions: int = 2048
    rotary_share: float = 0.25
    rotary_base: float = 10_000.0
    rotary_scaling: RotaryScaling | None = None
    parallel: bool = True
    attention_bias: bool = True
    tied_output: bool = False
    activation: Activation = "gelu"
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
        check(width % heads == 0, "heads", heads, f"a divisor of width {width}", "change one of the two")
        share = self.rotary_share
        check(0 < share <= 1, "rotary_share", share, "above 0 and at most 1", "0.25 is usual, 1 turns all channels")
        turned = rotary_width_of(self)
        pairs = turned > 0 and turned % 2 == 0
        of = f"such that an even number of the {width // heads} channels of a head are turned, not {turned}"
        check(pairs, "rotary_share", share, of, "change it, width or heads: rotary positions turn pairs of channels")
        check(self.rotary_base > 1, "rotary_base", self.rotary_base, "above 1", "10000 is usual")
        check_shares(self, "dropout", "attention_dropout", usual="0 is usual")
        for name in ("norm_epsilon", "init_std"):
            check(getattr(self, name) > 0, name, getattr(self, name), "above 0", "leave it out for the usual one")
        check_tokens(self, "padding_id", "end_id")


class GPTNeoX(CausalTransformer):
    """A GPT-NeoX (Black et al. 2022, section 2.1).

        x = E[token]
        x = x + attention(norm(x)) + mlp(norm'(x))         n times, each sub-layer with a norm of its own
        logits = norm(x) O^T                               O = E where tied

    Attention is causal and scaled by 1/sqrt(D/H); the first channels of its queries and keys have rotary positions. If `parallel`
    is false the sub-layers follow each other, as in GPT-2.

    Arguments:
        config: its sizes.

    >>> from regard.layers import Tokens
    >>> sizes = {"width": 16, "heads": 2, "feedforward_width": 16, "layers": 2, "maximum_positions": 6}
    >>> GPTNeoX(GPTNeoXConfig(vocabulary=9, **sizes))(Tokens.pad([[0, 4, 5], [0, 7]])).shape
    torch.Size([2, 3, 9])
    """

    config: GPTNeoXConfig

    def __init__(self, config: GPTNeoXConfig) -> None:
        table = nn.Embedding(config.vocabulary, config.width)
        output = None if config.tied_output else nn.Linear(config.width, config.vocabulary, bias=False)
        super().__init__(
            config,
            embedding=PositionedEmbedding(
                table, NoPositions(config.width, config.maximum_positions), dropout=config.dropout, scale=1.0
            ),
            layers=blocks_of(config),
            norm=nn.LayerNorm(config.width, eps=config.norm_epsilon),
            output=output,
        )
        initialise_causal(self, config, scaled_residuals=False)


def rotary_width_of(config: GPTNeoXConfig) -> int:
    """The number of rotated channels of each head."""
    return int(config.width // config.heads * config.rotary_share)


def blocks_of(config: GPTNeoXConfig) -> list[CausalBlock]:
    """The blocks, which share one table of rotary positions."""
    rotary = Rotary(
        rotary_width_of(config), config.maximum_positions, base=config.rotary_base, scaling=config.rotary_scaling
    )
    return [
        CausalBlock(
            attention=MultiHeadAttention(
                config.width,
                config.heads,
                bias=config.attention_bias,
                dropout=config.attention_dropout,
                sequences=("target", "target"),
                rotary=rotary,
            ),
            feedforward=FeedForward(config.width, config.feedforward_width, activation=ACTIVATIONS[config.activation]),
            residual=lambda: Residual.with_norm(
                "pre", config.width, dropout=config.dropout, epsilon=config.norm_epsilon
            ),
            parallel=config.parallel,
        )
        for _ in range(config.layers)
    ]
