"""GPT: improving language understanding by generative pre-training (Radford et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from regard.layers import Activation, CausalTransformer
from regard.models.gpt2 import causal_blocks, causal_embedding, check_causal, draw_causal


@dataclass(frozen=True, kw_only=True, slots=True)
class GPTConfig:
    """The sizes of a GPT; the defaults are the published model's: 116,534,784 parameters at its 40,478 tokens.

    Arguments:
        vocabulary: V, number of tokens.
        width: D, of the model.
        heads: H; divides the width.
        feedforward_width: F, inside the feed-forward nets.
        layers: number of blocks.
        maximum_positions: the longest text, in tokens; each position has a vector that is learnt.
        activation: of the feed-forward nets; the authors' code has the approximate GELU.
        dropout: probability of dropping an entry of each sub-layer's output in training.
        embedding_dropout: of the embeddings.
        attention_dropout: of attention weights.
        norm_epsilon: added to the variance in layer norms.
        deviation: standard deviation of the normal distribution that matrices are drawn from.
        scaled_residuals: whether the maps at the end of each sub-layer are drawn 1/sqrt(N) times as large, N the number of
            sub-layers, as in GPT-2; not in the paper.
        padding_id: the token that fills padding.
        end_id: the token that ends a text, and stands before the first of one.

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
    deviation: float = 0.02
    scaled_residuals: bool = False
    padding_id: int = 0
    end_id: int = 0

    def __post_init__(self) -> None:
        check_causal(self)


class GPT(CausalTransformer):
    """GPT: the Transformer's decoder without a source, its norms after each sum as there.

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
        draw_causal(self, config, scaled_residuals=config.scaled_residuals)
