"""DistilBERT, a distilled version of BERT (Sanh et al. 2019): half the layers, no segments, no pooler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import nn

from regard.attention import LearnedPositions
from regard.errors import InputError
from regard.layers import POOLED, Activation, HeadKind, Pooler, TextEmbedding, TextEncoder
from regard.models.bert import NORM_EPSILON, check_encoder, draw, encoder_blocks, head_of


@dataclass(frozen=True, kw_only=True, slots=True)
class DistilBertConfig:
    """The sizes of a DistilBERT and what it tells of a text; the defaults are the published model's.

    Arguments:
        vocabulary: V, number of tokens.
        width: D, of the model.
        heads: H; divides the width.
        feedforward_width: F, inside the feed-forward nets.
        layers: number of blocks.
        maximum_positions: the longest text, in tokens.
        activation: of the feed-forward nets and the masked head.
        dropout: probability of dropping an entry of the embeddings and of each sub-layer's output in training.
        attention_dropout: of attention weights.
        head_dropout: in front of the head of a task; where null 0.2 for whole texts, 0.1 for spans and as `dropout` for tokens,
            as published.
        norm_epsilon: added to the variance in layer norms.
        deviation: standard deviation of the matrices at the start.
        padding_id: the id that fills padding.
        pruned_heads: (layer, head) of each head that was taken out for good.
        head: what the model tells of a text, as for `BertConfig`; it was not trained on `next_sentence`, and has none.
        outputs: how many numbers the heads `sequence` and `tokens` give.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "distilbert"

    vocabulary: int = 30_522
    width: int = 768
    heads: int = 12
    feedforward_width: int = 3072
    layers: int = 6
    maximum_positions: int = 512
    activation: Activation = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    head_dropout: float | None = None
    norm_epsilon: float = NORM_EPSILON
    deviation: float = 0.02
    padding_id: int = 0
    pruned_heads: tuple[tuple[int, int], ...] = ()
    head: HeadKind = "none"
    outputs: int = 0

    def __post_init__(self) -> None:
        if self.head in ("next_sentence", "pretraining"):
            raise InputError(
                f"head is {self.head!r}, which DistilBERT has not: it was never shown two texts; choose 'masked', or a bert"
                " (in a recipe data.next_sentence=false, or model.name=bert)"
            )
        if self.head_dropout is None:
            published = 0.2 if self.head in POOLED else 0.1 if self.head == "spans" else self.dropout
            object.__setattr__(self, "head_dropout", published)
        check_encoder(self)

    @property
    def segments(self) -> Literal[0]:
        """None are told apart."""
        return 0


class DistilBert(TextEncoder):
    """DistilBERT, with the head of one task.

        x = LayerNorm(E[token] + P[position]);   blocks as BERT's
        in front of a head of the whole text:  pooled = max(0, W x_[CLS] + b), which belongs to the task and is not pre-trained

    Arguments:
        config: its sizes.

    >>> from regard.layers import Tokens
    >>> model = DistilBert(DistilBertConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=1))
    >>> model(Tokens.pad([[3, 4, 5], [6, 7]])).hidden.shape
    torch.Size([2, 3, 8])
    """

    config: DistilBertConfig

    def __init__(self, config: DistilBertConfig) -> None:
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
            layers=encoder_blocks(config),
            pooler=Pooler(config.width, activation=F.relu) if config.head in POOLED else None,
            head=head_of(config, tokens),
        )
        draw(self, config.deviation)
