"""GPT (Radford et al. 2018), GPT-2 (Radford et al. 2019) and GPT-3 (Brown et al. 2020): one stack of causal blocks.

GPT has post-norm blocks, GPT-2 pre-norm blocks, and GPT-3 is GPT-2 with sliding-window attention in every second block. The
configs and models come first, then the parts that they share: embedding, blocks and initialisation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from torch import nn

from regard.attention import LearnedPositions, MultiHeadAttention
from regard.errors import InputError, nearest
from regard.layers import (
    ACTIVATIONS,
    Activation,
    CausalBlock,
    CausalStack,
    CausalTransformer,
    FeedForward,
    NormPlacement,
    PositionedEmbedding,
    Residual,
)
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types
from regard.structure import renamed

POSITION_SHARE = 0.5
"""The standard deviation of initial positions, divided by that of the matrices: 0.01 and 0.02 in the authors' code."""


@renamed(deviation="init_std")
@dataclass(frozen=True, kw_only=True, slots=True)
class GPTConfig:
    """The sizes of a GPT. The defaults are those of the published model: 116,534,784 parameters with its 40,478 tokens.

    Arguments:
        vocabulary: V, number of tokens.
        width: D, of the model.
        heads: H; divides the width.
        feedforward_width: F, the hidden width of the feed-forward networks.
        layers: number of blocks.
        maximum_positions: the longest text, in tokens; each position has a learned vector.
        activation: of the feed-forward networks; the authors' code has the approximate GELU.
        dropout: probability of dropping an entry of each sub-layer's output in training.
        embedding_dropout: of the embeddings.
        attention_dropout: of attention weights.
        norm_epsilon: added to the variance in layer norms.
        init_std: standard deviation of the normal distribution that matrices are sampled from.
        scaled_residuals: whether the last linear map of each sub-layer is initialised 1/sqrt(N) times as large, with N the number
            of sub-layers, as in GPT-2; not in the paper.
        padding_id: the token that fills padding.
        end_id: the token that ends a text; it is also before the first token of a text.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "gpt"

    vocabulary: int = 40_478
    width: int = 768
    heads: int = 12
    feedforward_width: int = 3072
    layers: int = 12
    maximum_positions: int = 512
    activation: Activation = "gelu_tanh"
    dropout: float = 0.1
    embedding_dropout: float = 0.1
    attention_dropout: float = 0.1
    norm_epsilon: float = 1e-5
    init_std: float = 0.02
    scaled_residuals: bool = False
    padding_id: int = 0
    end_id: int = 0

    def __post_init__(self) -> None:
        check_causal(self)


class GPT(CausalTransformer):
    """GPT: the Transformer decoder without cross-attention, post-norm (Radford et al. 2018, section 3.1).

        x = E[token] + P[position]
        x = norm(x + attention(x));   x = norm(x + mlp(x))         n times, attention causal, scaled by 1/sqrt(D/H)
        logits = x E^T

    Arguments:
        config: its sizes.

    >>> from regard.layers import Tokens
    >>> model = GPT(GPTConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=2, maximum_positions=6))
    >>> model(Tokens.pad([[0, 4, 5], [0, 7]])).shape
    torch.Size([2, 3, 9])
    """

    config: GPTConfig

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(
            config, embedding=causal_embedding(config), layers=causal_blocks(config, "post"), norm=nn.Identity()
        )
        initialise_causal(self, config, scaled_residuals=config.scaled_residuals)


@renamed(deviation="init_std")
@dataclass(frozen=True, kw_only=True, slots=True)
class GPT2Config:
    """The sizes of a GPT-2. The defaults are those of the small model.

    Arguments:
        vocabulary, width, heads, feedforward_width, layers, maximum_positions, activation, dropout, embedding_dropout: as in
            `GPTConfig`.
        attention_dropout, norm_epsilon, init_std, scaled_residuals, padding_id, end_id: as in `GPTConfig`.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "gpt2"

    vocabulary: int
    width: int = 768
    heads: int = 12
    feedforward_width: int = 3072
    layers: int = 12
    maximum_positions: int = 1024
    activation: Activation = "gelu_tanh"
    dropout: float = 0.1
    embedding_dropout: float = 0.1
    attention_dropout: float = 0.1
    norm_epsilon: float = 1e-5
    init_std: float = 0.02
    scaled_residuals: bool = True
    padding_id: int = 0
    end_id: int = 0

    def __post_init__(self) -> None:
        check_causal(self)

    @classmethod
    def small(cls, vocabulary: int = 50_257) -> GPT2Config:
        """12 layers: 124,439,808 parameters."""
        return cls(vocabulary=vocabulary, **_released(vocabulary))

    @classmethod
    def medium(cls, vocabulary: int = 50_257) -> GPT2Config:
        """24 layers: 354,823,168 parameters."""
        return cls(
            vocabulary=vocabulary, width=1024, heads=16, feedforward_width=4096, layers=24, **_released(vocabulary)
        )

    @classmethod
    def large(cls, vocabulary: int = 50_257) -> GPT2Config:
        """36 layers: 774,030,080 parameters."""
        return cls(
            vocabulary=vocabulary, width=1280, heads=20, feedforward_width=5120, layers=36, **_released(vocabulary)
        )

    @classmethod
    def xl(cls, vocabulary: int = 50_257) -> GPT2Config:
        """48 layers: 1,557,611,200 parameters."""
        return cls(
            vocabulary=vocabulary, width=1600, heads=25, feedforward_width=6400, layers=48, **_released(vocabulary)
        )


class GPT2(CausalTransformer):
    """GPT-2: pre-norm blocks, and a norm at the end (Radford et al. 2019, section 2.3).

        x = E[token] + P[position]
        x = x + attention(norm(x));   x = x + mlp(norm(x))         n times, attention causal, scaled by 1/sqrt(D/H)
        logits = norm(x) E^T

    Arguments:
        config: its sizes.

    >>> from regard.layers import Tokens
    >>> model = GPT2(GPT2Config(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=2, maximum_positions=6))
    >>> model(Tokens.pad([[0, 4, 5], [0, 7]])).shape
    torch.Size([2, 3, 9])
    """

    config: GPT2Config

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(
            config,
            embedding=causal_embedding(config),
            layers=causal_blocks(config, "pre"),
            norm=nn.LayerNorm(config.width, eps=config.norm_epsilon),
        )
        initialise_causal(self, config, scaled_residuals=config.scaled_residuals)


SIZES = MappingProxyType(
    {
        "125m": (12, 768, 12),
        "350m": (24, 1024, 16),
        "760m": (24, 1536, 16),
        "1.3b": (24, 2048, 16),
        "2.7b": (32, 2560, 32),
        "6.7b": (32, 4096, 32),
        "13b": (40, 5120, 40),
        "175b": (96, 12288, 96),
    }
)
"""Layers, width and heads of the eight models (table 2.1). Two rows of the table are inconsistent: 24 heads of 128 do not give
the width 2048 of the 1.3B model, which has 16 heads here; and 40 heads of 128 give 5120, not the 5140 of the 13B model."""


@renamed(deviation="init_std")
@dataclass(frozen=True, kw_only=True, slots=True)
class GPT3Config:
    """The sizes of a GPT-3. The defaults are those of the smallest model; `GPT3Config.named` has all eight.

    Arguments:
        vocabulary: V, number of tokens; that of GPT-2.
        width, heads, feedforward_width, layers, maximum_positions: as in `GPT2Config`.
        band: the number of tokens that a query sees in every second block, itself included; null = all earlier tokens in every
            block. The paper says that dense and locally banded blocks alternate, but not how wide the bands are.
        activation, dropout, embedding_dropout, attention_dropout, norm_epsilon, init_std: as in `GPT2Config`.
        padding_id, end_id: as in `GPT2Config`.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "gpt3"

    vocabulary: int = 50_257
    width: int = 768
    heads: int = 12
    feedforward_width: int = 3072
    layers: int = 12
    maximum_positions: int = 2048
    band: int | None = 256
    activation: Activation = "gelu_tanh"
    dropout: float = 0.0
    embedding_dropout: float = 0.0
    attention_dropout: float = 0.0
    norm_epsilon: float = 1e-5
    init_std: float = 0.02
    padding_id: int = 0
    end_id: int = 0

    def __post_init__(self) -> None:
        check_causal(self)
        check(self.band is None or self.band > 0, "band", self.band, "at least 1", "1 is the token itself")

    @classmethod
    def named(cls, name: str, vocabulary: int = 50_257) -> GPT3Config:
        """One of the eight models, by its size: 125m, 350m, 760m, 1.3b, 2.7b, 6.7b, 13b or 175b.

        Raises:
            InputError: for another name.

        >>> GPT3Config.named("175b").width
        12288
        """
        if name not in SIZES:
            raise InputError(f"there is no GPT-3 of {name!r}; {nearest(name, tuple(SIZES))}")
        layers, width, heads = SIZES[name]
        end = vocabulary - 1
        return cls(
            vocabulary=vocabulary,
            width=width,
            heads=heads,
            feedforward_width=4 * width,
            layers=layers,
            padding_id=end,
            end_id=end,
        )


class GPT3(CausalTransformer):
    """GPT-3: GPT-2 with alternating dense and locally banded attention (Brown et al. 2020, section 2.1).

    Arguments:
        config: its sizes.

    >>> from regard.layers import Tokens
    >>> sizes = {"width": 8, "heads": 2, "feedforward_width": 16, "layers": 2, "maximum_positions": 6}
    >>> GPT3(GPT3Config(vocabulary=9, band=2, **sizes))(Tokens.pad([[0, 4, 5], [0, 7]])).shape
    torch.Size([2, 3, 9])
    """

    config: GPT3Config

    def __init__(self, config: GPT3Config) -> None:
        super().__init__(
            config,
            embedding=causal_embedding(config),
            layers=causal_blocks(config, "pre"),
            norm=nn.LayerNorm(config.width, eps=config.norm_epsilon),
            sliding_windows=bands_of(config),
        )
        initialise_causal(self, config, scaled_residuals=True)


def check_causal(config: Any) -> None:
    """Refuse settings that are not allowed for a decoder of the GPT family.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    check_types(config)
    check_sizes(config, "vocabulary", "width", "heads", "feedforward_width", "layers", "maximum_positions")
    width, heads = config.width, config.heads
    check(width % heads == 0, "heads", heads, f"a divisor of width {width}", "change one of the two")
    check_shares(config, "dropout", "embedding_dropout", "attention_dropout", usual="0.1 is usual")
    for name in ("norm_epsilon", "init_std"):
        check(getattr(config, name) > 0, name, getattr(config, name), "above 0", "leave it out for the published one")
    check_tokens(config, "padding_id", "end_id")


def causal_embedding(config: Any) -> PositionedEmbedding:
    """The sum of token and position embeddings, without scaling, then dropout."""
    return PositionedEmbedding(
        nn.Embedding(config.vocabulary, config.width),
        LearnedPositions(config.width, config.maximum_positions),
        dropout=config.embedding_dropout,
        scale=1.0,
    )


def causal_blocks(config: Any, norm: NormPlacement) -> list[CausalBlock]:
    """The blocks of a decoder of the GPT family: every projection has a bias."""
    return [
        CausalBlock(
            attention=MultiHeadAttention(
                config.width, config.heads, dropout=config.attention_dropout, sequences=("target", "target")
            ),
            feedforward=FeedForward(config.width, config.feedforward_width, activation=ACTIVATIONS[config.activation]),
            residual=lambda: Residual.with_norm(
                norm, config.width, dropout=config.dropout, epsilon=config.norm_epsilon
            ),
        )
        for _ in range(config.layers)
    ]


def initialise_causal(model: CausalStack, config: Any, *, scaled_residuals: bool) -> None:
    """Sample all matrices from a normal distribution; biases are zero.

    Arguments:
        scaled_residuals: initialise the last map of each of the N = 2 n sub-layers 1/sqrt(N) times as large, so that the sum of
            the sub-layers' outputs does not grow with the depth (GPT-2, section 2.3).
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=config.init_std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, LearnedPositions):
            nn.init.normal_(module.weight, std=POSITION_SHARE * config.init_std)
    if scaled_residuals:
        for block in model.layers:
            for last in (block.attention.output, block.feedforward.outer):  # type: ignore[union-attr]
                nn.init.normal_(last.weight, std=config.init_std / math.sqrt(2 * config.layers))  # type: ignore[union-attr, arg-type]


def _released(vocabulary: int) -> dict[str, Any]:
    """The last token of the released vocabulary, <|endoftext|>, marks ends, beginnings and padding; there is no other."""
    return {"padding_id": vocabulary - 1, "end_id": vocabulary - 1}


def bands_of(config: GPT3Config) -> list[int | None]:
    """The attention window of each block: none for even blocks, and the band for odd ones."""
    return [config.band if index % 2 else None for index in range(config.layers)]
