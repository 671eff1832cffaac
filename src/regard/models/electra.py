"""ELECTRA: an encoder trained to find the tokens that were replaced (Clark et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import nn

from regard.attention import LearnedPositions
from regard.errors import InputError
from regard.layers import ACTIVATIONS, POOLED, Activation, HeadKind, Pooler, TextEmbedding, TextEncoder
from regard.layers.heads import MaskedHead, NoHead, PooledHead, ReplacedHead, TokenHead
from regard.models.bert import NORM_EPSILON, check_encoder, encoder_blocks, initialise
from regard.models.config import check_sizes


@dataclass(frozen=True, kw_only=True, slots=True)
class ElectraConfig:
    """The sizes and the head of an ELECTRA. The defaults are those of the small discriminator.

    Arguments:
        vocabulary: V, number of tokens.
        embedding_width: E, of the embeddings of tokens, positions and segments; if E is not D, a linear map projects them to D.
        width: D, of the blocks.
        heads: H; divides the width.
        feedforward_width: F, inside the feed-forward networks.
        layers: number of blocks.
        maximum_positions: the longest text, in tokens.
        segments: the number of segment embeddings, one for each text of an input.
        activation: of the feed-forward networks and the discriminator's head; other heads have the exact GELU.
        dropout, attention_dropout, norm_epsilon, init_std, padding_id, pruned_heads: as for `BertConfig`.
        head_dropout: before the head of a task; where null none for spans, 0.1 for choices, and as `dropout` for the others.
        head: the output for a text, as in `BertConfig`; `masked` is the generator's.
        outputs: the number of outputs of the heads `sequence` and `tokens`.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "electra"

    vocabulary: int = 30_522
    embedding_width: int = 128
    width: int = 256
    heads: int = 4
    feedforward_width: int = 1024
    layers: int = 12
    maximum_positions: int = 512
    segments: int = 2
    activation: Activation = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    head_dropout: float | None = None
    norm_epsilon: float = NORM_EPSILON
    init_std: float = 0.02
    padding_id: int = 0
    pruned_heads: tuple[tuple[int, int], ...] = ()
    head: HeadKind = "none"
    outputs: int = 0

    def __post_init__(self) -> None:
        if self.head in ("next_sentence", "pretraining"):
            raise InputError(
                f"head is {self.head!r}, which ELECTRA has not: it was not trained on next sentences; choose 'masked', or a bert"
            )
        check_encoder(self, discriminator=True)
        check_sizes(self, "segments", "embedding_width")


class Electra(TextEncoder):
    """ELECTRA with the head of one task (Clark et al. 2020, section 2).

        x = W LayerNorm(E[token] + P[position] + S[segment]) + b;   blocks as in BERT
        before a head for whole texts:  pooled = GELU(W x_[CLS] + b), which is trained with the task and not pre-trained

    Arguments:
        config: its sizes.
    """

    config: ElectraConfig

    def __init__(self, config: ElectraConfig) -> None:
        inner, width, dropout = config.embedding_width, config.width, _head_dropout(config)
        tokens = nn.Embedding(config.vocabulary, inner)
        super().__init__(
            config,
            embedding=TextEmbedding(
                tokens,
                LearnedPositions(inner, config.maximum_positions),
                nn.Embedding(config.segments, inner),
                epsilon=config.norm_epsilon,
                dropout=config.dropout,
                projection=None if inner == width else nn.Linear(inner, width),
            ),
            layers=encoder_blocks(config),
            pooler=Pooler(width, activation=F.gelu, dropout=dropout if config.head == "sequence" else 0.0)
            if config.head in POOLED
            else None,
            head=_head(config, tokens, dropout),
        )
        initialise(self, config.init_std)


def _head_dropout(config: ElectraConfig) -> float:
    published = {"spans": 0.0, "choice": 0.1}.get(config.head, config.dropout)
    return published if config.head_dropout is None else config.head_dropout


def _head(config: ElectraConfig, tokens: nn.Embedding, dropout: float) -> nn.Module:
    if config.head == "none":
        return NoHead()
    if config.head == "masked":
        return MaskedHead(tokens, activation=F.gelu, epsilon=config.norm_epsilon, inner=config.width)
    if config.head == "replaced":
        return ReplacedHead(config.width, activation=ACTIVATIONS[config.activation])
    if config.head in ("tokens", "spans"):
        return TokenHead(config.width, config.outputs, dropout=dropout)
    return PooledHead(config.width, config.outputs, dropout=dropout)
