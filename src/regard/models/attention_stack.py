"""Attention is not all you need (Dong et al. 2021): self-attention with and without the parts that prevent rank collapse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from regard.attention import AttentionLayer, LearnedPositions
from regard.errors import InputError
from regard.layers import (
    ACTIVATIONS,
    POOLED,
    Activation,
    EncoderBlock,
    FeedForward,
    HeadKind,
    NoSkip,
    Pooler,
    Residual,
    TextEmbedding,
    TextEncoder,
)
from regard.models.bert import check_encoder, head_of, initialise, self_attention
from regard.structure import renamed


@renamed(deviation="init_std")
@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionStackConfig:
    """The sizes of a stack of self-attention, and its other parts. The defaults are the paper's for sorting.

    Arguments:
        vocabulary: V, number of tokens.
        width: D, of the model.
        heads: H; divides the width.
        feedforward_width: F, inside the feed-forward networks.
        layers: number of blocks.
        maximum_positions: the longest text, in tokens.
        skips: whether a sub-layer has a skip connection.
        feedforward: whether a feed-forward network follows each attention.
        norm: `post` normalises after each sub-layer; `none` only in the embedding.
        activation: of the feed-forward networks and the masked head.
        dropout: probability of dropping an entry of the embeddings and of each sub-layer's output in training.
        attention_dropout: of attention weights.
        head_dropout: before the head of a task; null = `dropout`.
        norm_epsilon: added to the variance in layer norms.
        init_std: standard deviation of the normal distribution, truncated at two standard deviations, of all initial matrices;
            null = 1/sqrt(D), which keeps the length of vectors about constant without skip connections.
        padding_id: the id that fills padding.
        pruned_heads: (layer, head) of each pruned head.
        head: the output for a text: `none`, `masked`, `sequence`, `tokens`, `spans` or `choice`. Set by the task.
        outputs: the number of outputs of the heads `sequence` and `tokens`. Filled in by the task.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "attention_stack"

    vocabulary: int
    width: int = 48
    heads: int = 2
    feedforward_width: int = 96
    layers: int = 6
    maximum_positions: int = 128
    skips: bool = True
    feedforward: bool = True
    norm: Literal["post", "none"] = "post"
    activation: Activation = "relu"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    head_dropout: float | None = None
    norm_epsilon: float = 1e-5
    init_std: float | None = None
    padding_id: int = 0
    pruned_heads: tuple[tuple[int, int], ...] = ()
    head: HeadKind = "none"
    outputs: int = 0

    def __post_init__(self) -> None:
        if self.head in ("next_sentence", "pretraining"):
            raise InputError(
                f"head is {self.head!r}, which an attention_stack has not: it reads one text; choose 'masked', or a bert"
                " (in a recipe data.next_sentence=false, or model.name=bert)"
            )
        if self.init_std is None and isinstance(self.width, int) and self.width > 0:
            object.__setattr__(self, "init_std", self.width**-0.5)
        check_encoder(self)

    @property
    def segments(self) -> Literal[0]:
        """0: there are no segment embeddings."""
        return 0


class AttentionStack(TextEncoder):
    """Blocks of self-attention with optional skip connections and feed-forward networks, and the head of one task.

        x = LayerNorm(E[token] + P[position])
        with skips:     x = norm(x + SA(x));   x = norm(x + FFN(x))
        without:        x = norm(SA(x));       x = norm(FFN(x))
        SA(X) = sum_h P_h X W_h + 1 b^T,   P_h = softmax(X W_QK,h X^T / sqrt(E))   (section 2)

    Without feed-forward networks the second equation of each line is left out; with `norm: none`, `norm` is the identity.

    Arguments:
        config: its sizes and parts.

    >>> from regard.layers import Tokens
    >>> bare = AttentionStack(AttentionStackConfig(vocabulary=9, layers=2, skips=False, feedforward=False, norm="none"))
    >>> bare(Tokens.pad([[3, 4, 5], [6, 7]])).hidden.shape
    torch.Size([2, 3, 48])
    """

    config: AttentionStackConfig

    def __init__(self, config: AttentionStackConfig) -> None:
        tokens = nn.Embedding(config.vocabulary, config.width)
        super().__init__(
            config,
            embedding=TextEmbedding(
                tokens,
                LearnedPositions(config.width, config.maximum_positions),
                None,
                epsilon=config.norm_epsilon,
                dropout=config.dropout,
            ),
            layers=[_block(config, layer) for layer in range(config.layers)],
            pooler=Pooler(config.width) if config.head in POOLED else None,
            head=head_of(config, tokens),
        )
        initialise(self, config.init_std or config.width**-0.5)


def _block(config: AttentionStackConfig, layer: int) -> EncoderBlock:
    attention = self_attention(config, layer)
    if not config.feedforward:
        return without_feedforward(attention, _connection(config))
    net = FeedForward(config.width, config.feedforward_width, activation=ACTIVATIONS[config.activation])
    return EncoderBlock(attention=attention, feedforward=net, residual=_connection(config))


def _connection(config: AttentionStackConfig) -> Callable[[], Residual]:
    kind = Residual if config.skips else NoSkip
    if config.norm == "none":
        return lambda: kind(before=nn.Identity(), after=nn.Identity(), dropout=config.dropout)
    return lambda: kind.with_norm("post", config.width, dropout=config.dropout, epsilon=config.norm_epsilon)


def without_feedforward(attention: AttentionLayer, residual: Callable[[], Residual]) -> EncoderBlock:
    """A block of attention without a feed-forward network.

    Arguments:
        attention: self-attention.
        residual: makes the connection around it.
    """
    block = EncoderBlock(attention=attention, feedforward=nn.Identity(), residual=residual)
    block.feedforward_residual = NoSkip(before=nn.Identity(), after=nn.Identity())
    return block
