"""RoBERTa: BERT trained longer, on more text, without next sentences (Liu et al. 2019), and XLM-RoBERTa (Conneau et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import nn

from regard.attention import LearnedPositions
from regard.errors import InputError
from regard.layers import ACTIVATIONS, POOLED, Activation, HeadKind, Pooler, TextEmbedding, TextEncoder, build_head
from regard.layers.encoder import OneSegment
from regard.models.bert import check_encoder, encoder_blocks, initialise
from regard.models.config import check_sizes

NORM_EPSILON = 1e-5
"""PyTorch's default, with which the released models were trained."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RobertaConfig:
    """The sizes and the head of a RoBERTa. The defaults are those of the base model.

    Arguments:
        vocabulary: V, number of tokens.
        width: D, of the model.
        heads: H; divides the width.
        feedforward_width: F, inside the feed-forward networks.
        layers: number of blocks.
        maximum_positions: the longest text, in tokens. The table of positions has padding_id + 1 rows more, which no text uses.
        segments: the rows of the segment table, of which all tokens have the first; 1 in every released model.
        activation: of the feed-forward networks; the masked head always has the exact GELU.
        dropout: probability of dropping an entry of the embeddings and of each sub-layer's output in training.
        attention_dropout: of attention weights.
        head_dropout: before the head of a task; where null none for spans, and as `dropout` for the others.
        norm_epsilon: added to the variance in layer norms.
        init_std: standard deviation of the initial matrices.
        padding_id: the id that fills padding.
        pruned_heads: (layer, head) of each pruned head.
        pooler: whether a tanh layer computes one vector of the text, for a model without a head.
        head: the output for a text, as in `BertConfig`; it was not trained on `next_sentence`, and has none.
        outputs: the number of outputs of the heads `sequence` and `tokens`.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "roberta"

    vocabulary: int = 50_265
    width: int = 768
    heads: int = 12
    feedforward_width: int = 3072
    layers: int = 12
    maximum_positions: int = 512
    segments: int = 1
    activation: Activation = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    head_dropout: float | None = None
    norm_epsilon: float = NORM_EPSILON
    init_std: float = 0.02
    padding_id: int = 1
    pruned_heads: tuple[tuple[int, int], ...] = ()
    pooler: bool = True
    head: HeadKind = "none"
    outputs: int = 0

    def __post_init__(self) -> None:
        if self.head in ("next_sentence", "pretraining"):
            raise InputError(
                f"head is {self.head!r}, which RoBERTa has not: it was not trained on next sentences; choose 'masked', or a bert"
                " (in a recipe data.next_sentence=false, or model.name=bert)"
            )
        check_encoder(self)
        check_sizes(self, "segments")

    @property
    def has_pooler(self) -> bool:
        """Whether the model has a pooler, which computes one vector of the text."""
        return self.head in POOLED or (self.head == "none" and self.pooler)


@dataclass(frozen=True, kw_only=True, slots=True)
class XLMRobertaConfig(RobertaConfig):
    """The sizes of an XLM-RoBERTa: those of a RoBERTa, with the vocabulary of a hundred languages."""

    model_type: ClassVar[str] = "xlm_roberta"

    vocabulary: int = 250_002


class Roberta(TextEncoder):
    """RoBERTa with the head of one task (Liu et al. 2019).

        x = LayerNorm(E[token] + P[padding_id + 1 + position] + S[0]);   blocks as BERT's
        pooled = tanh(W x_<s> + b)

    Arguments:
        config: its sizes.

    >>> from regard.layers import Tokens
    >>> model = Roberta(RobertaConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=1, head="masked"))
    >>> model(Tokens.pad([[3, 4, 5], [6, 7]])).logits.shape
    torch.Size([2, 3, 9])
    """

    config: RobertaConfig

    def __init__(self, config: RobertaConfig) -> None:
        tokens = nn.Embedding(config.vocabulary, config.width)
        positions = LearnedPositions(config.width, config.maximum_positions, first=config.padding_id + 1)
        published = 0.0 if config.head == "spans" else config.dropout
        dropout = published if config.head_dropout is None else config.head_dropout
        super().__init__(
            config,
            embedding=TextEmbedding(
                tokens,
                positions,
                OneSegment(config.segments, config.width),
                epsilon=config.norm_epsilon,
                dropout=config.dropout,
            ),
            layers=encoder_blocks(config),
            # In front of classes it is the head's own layer, and reads its vector through the head's dropout.
            pooler=Pooler(config.width, dropout=dropout if config.head == "sequence" else 0.0)
            if config.has_pooler
            else None,
            head=build_head(
                config.head,
                tokens,
                outputs=config.outputs,
                activation=F.gelu if config.head == "masked" else ACTIVATIONS[config.activation],
                dropout=dropout,
                epsilon=config.norm_epsilon,
            ),
        )
        initialise(self, config.init_std)


class XLMRoberta(Roberta):
    """XLM-RoBERTa: a RoBERTa trained on a hundred languages (Conneau et al. 2020); the model is the same."""
