"""GPT-3: language models are few-shot learners (Brown et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from torch import nn

from regard.errors import InputError, nearest
from regard.layers import Activation, CausalTransformer
from regard.models.config import check
from regard.models.gpt2 import causal_blocks, causal_embedding, check_causal, draw_causal

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
"""Layers, width and heads of the eight models (table 2.1). Two rows of it do not multiply out: 24 heads of 128 are not the 2048
of the 1.3B model, which has 16 here, and 40 heads of 128 are 5120 and not 5140 in the 13B model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GPT3Config:
    """The sizes of a GPT-3; the defaults are the smallest model's, `GPT3Config.named` has all eight.

    Arguments:
        vocabulary: V, number of tokens; GPT-2's.
        width, heads, feedforward_width, layers, maximum_positions: as in `GPT2Config`.
        band: how many tokens back every second block looks, from the second on, its own included; null for all the way
            everywhere. The paper says that dense and locally banded blocks alternate, not how wide the bands were.
        activation, dropout, embedding_dropout, attention_dropout, norm_epsilon, deviation: as in `GPT2Config`.
        padding_id, end_id: likewise.

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
    deviation: float = 0.02
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
    """GPT-3: GPT-2 whose blocks look all the way back and a band back in turn (section 2.1).

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
            bands=bands_of(config),
        )
        draw_causal(self, config, scaled_residuals=True)


def bands_of(config: GPT3Config) -> list[int | None]:
    """How far back each block looks: all the way and a band in turn."""
    return [config.band if index % 2 else None for index in range(config.layers)]
