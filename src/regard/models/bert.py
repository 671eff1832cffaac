"""BERT: pre-training of deep bidirectional Transformers (Devlin et al. 2019).

DistilBERT is below, a distilled version of BERT (Sanh et al. 2019): half the layers, no segments, no pooler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch.nn.functional as F
from torch import nn

from regard.attention import AttentionLayer, LearnedPositions, ScaledDot, ScoredAttention
from regard.errors import InputError
from regard.layers import (
    ACTIVATIONS,
    POOLED,
    Activation,
    EncoderBlock,
    FeedForward,
    HeadKind,
    Pooler,
    Residual,
    TextEmbedding,
    TextEncoder,
    build_head,
)
from regard.models.config import check, check_outputs, check_shares, check_sizes, check_tokens, check_types
from regard.structure import renamed

NORM_EPSILON = 1e-12
"""TensorFlow's default, with which the released models were trained."""


@renamed(deviation="init_std")
@dataclass(frozen=True, kw_only=True, slots=True)
class BertConfig:
    """The sizes and the head of a BERT. The defaults are those of the base model.

    Multilingual BERT has the same sizes with a larger vocabulary.

    Arguments:
        vocabulary: V, number of tokens: 30,522 uncased, 28,996 cased, 119,547 multilingual.
        width: D, of the model.
        heads: H; divides the width.
        feedforward_width: F, the hidden width of the feed-forward networks: 4 D in every released model.
        layers: number of blocks.
        maximum_positions: the longest text, in tokens; each position has a learned vector.
        segments: the number of segment embeddings, one for each text of an input.
        activation: of the feed-forward networks and the head: `gelu` is the exact one, `gelu_tanh` the approximation in the
            authors' later code.
        dropout: probability of dropping an entry of the embeddings and of each sub-layer's output in training.
        attention_dropout: of attention weights.
        head_dropout: before the head of a task; null = 0 for spans and next sentences, and `dropout` for the others, as
            published.
        norm_epsilon: added to the variance in layer norms.
        init_std: standard deviation of the normal distribution, truncated at two standard deviations, of all initial matrices.
        padding_id: the id that fills padding.
        pruned_heads: (layer, head) of each pruned head, numbered as before any pruning.
        pooler: whether a tanh layer computes one vector of the text, for a model without a task head. With a head, the head
            decides.
        head: the output for a text: `none`, `masked`, `next_sentence`, `pretraining` (both), `sequence`, `tokens`, `spans` or
            `choice`. Filled in by the task.
        outputs: the number of outputs of the heads `sequence` and `tokens`. Filled in by the task.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "bert"

    vocabulary: int
    width: int = 768
    heads: int = 12
    feedforward_width: int = 3072
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
    pooler: bool = True
    head: HeadKind = "none"
    outputs: int = 0

    def __post_init__(self) -> None:
        check_encoder(self)
        check_sizes(self, "segments")

    @property
    def has_pooler(self) -> bool:
        """Whether the model has a pooler, which computes one vector of the text."""
        return self.head in POOLED or (self.head == "none" and self.pooler)

    @classmethod
    def base(cls, vocabulary: int = 30_522) -> BertConfig:
        """The base model: 109,482,240 parameters with the uncased vocabulary."""
        return cls(vocabulary=vocabulary)

    @classmethod
    def large(cls, vocabulary: int = 30_522) -> BertConfig:
        """The large model: 335,141,888 parameters with the uncased vocabulary."""
        return cls(vocabulary=vocabulary, width=1024, heads=16, feedforward_width=4096, layers=24)

    @classmethod
    def small(cls, vocabulary: int = 8_000) -> BertConfig:
        """A model that can be pre-trained on a laptop: 4 layers of width 256."""
        return cls(vocabulary=vocabulary, width=256, heads=4, feedforward_width=1024, layers=4, maximum_positions=256)


class Bert(TextEncoder):
    """BERT with the head of one task (Devlin et al. 2019, section 3).

        x = LayerNorm(E[token] + P[position] + S[segment])
        block:  self-attention with a padding mask, then feed-forward, each as LayerNorm(x + Dropout(sublayer(x)))
        pooled = tanh(W x_[CLS] + b)

    Arguments:
        config: its sizes.

    >>> from regard.layers import Tokens
    >>> model = Bert(BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=1, head="masked"))
    >>> model(Tokens.pad([[3, 4, 5], [6, 7]])).logits.shape
    torch.Size([2, 3, 9])
    """

    config: BertConfig

    def __init__(self, config: BertConfig) -> None:
        tokens = nn.Embedding(config.vocabulary, config.width)
        super().__init__(
            config,
            embedding=TextEmbedding(
                tokens,
                LearnedPositions(config.width, config.maximum_positions),
                nn.Embedding(config.segments, config.width),
                epsilon=config.norm_epsilon,
                dropout=config.dropout,
            ),
            layers=encoder_blocks(config),
            pooler=Pooler(config.width) if config.has_pooler else None,
            head=head_of(config, tokens),
        )
        initialise(self, config.init_std)


def check_encoder(config: Any, *, discriminator: bool = False) -> None:
    """Refuse settings that are not allowed for an encoder of the BERT family.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    check_types(config)
    check_sizes(config, "vocabulary", "width", "heads", "feedforward_width", "layers", "maximum_positions")
    width, heads, layers = config.width, config.heads, config.layers
    check(width % heads == 0, "heads", heads, f"a divisor of width {width}", "change one of the two")
    check_shares(config, "dropout", "attention_dropout", "head_dropout", usual="0.1 is usual")
    for name in ("norm_epsilon", "init_std"):
        check(getattr(config, name) > 0, name, getattr(config, name), "above 0", "leave it out for the published one")
    check_tokens(config, "padding_id")
    pruned = tuple(sorted((layer, head) for layer, head in config.pruned_heads))
    object.__setattr__(config, "pruned_heads", pruned)  # the same heads in another order are the same model
    check(
        len(set(pruned)) == len(pruned) and all(0 <= layer < layers and 0 <= head < heads for layer, head in pruned),
        "pruned_heads",
        pruned,
        f"different pairs of a layer below {layers} and a head below {heads}",
        "they count from 0",
    )
    check(
        all(len(heads_left(config, layer)) > 0 for layer in range(layers)),
        "pruned_heads",
        pruned,
        "without one layer whose heads are all gone",
        "leave one head in each layer",
    )
    check(
        discriminator or config.head != "replaced",
        "head",
        config.head,
        "one that this family has",
        "only electra has it",
    )
    check_outputs(config)


def heads_left(config: Any, layer: int) -> list[int]:
    """The heads of a layer that were not pruned, numbered as before any pruning."""
    return [head for head in range(config.heads) if (layer, head) not in config.pruned_heads]


def encoder_blocks(config: Any) -> list[EncoderBlock]:
    """The blocks of an encoder of the BERT family: post-norm, every projection has a bias."""
    return [
        EncoderBlock(
            attention=self_attention(config, layer),
            feedforward=FeedForward(config.width, config.feedforward_width, activation=ACTIVATIONS[config.activation]),
            residual=lambda: Residual.with_norm(
                "post", config.width, dropout=config.dropout, epsilon=config.norm_epsilon
            ),
        )
        for layer in range(config.layers)
    ]


def self_attention(config: Any, layer: int) -> AttentionLayer:
    """The attention of one block without pruned heads; every projection has a bias."""
    heads = len(heads_left(config, layer))
    inner = heads * (config.width // config.heads)
    return AttentionLayer(
        query=nn.Linear(config.width, inner),
        key=nn.Linear(config.width, inner),
        value=nn.Linear(config.width, inner),
        output=nn.Linear(inner, config.width),
        attention=ScoredAttention(ScaledDot(), dropout=config.attention_dropout),
        heads=heads,
    )


def head_of(config: Any, tokens: nn.Embedding) -> nn.Module:
    """The head that the config names, with the model's embedding table."""
    published = 0.0 if config.head in ("spans", "next_sentence") else config.dropout
    return build_head(
        config.head,
        tokens,
        outputs=config.outputs,
        activation=ACTIVATIONS[config.activation],
        dropout=published if config.head_dropout is None else config.head_dropout,
        epsilon=config.norm_epsilon,
    )


def initialise(model: nn.Module, std: float) -> None:
    """Sample all matrices from a normal distribution truncated at two deviations, as in the authors' code; biases are zero."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding | LearnedPositions):
            nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)


@renamed(deviation="init_std")
@dataclass(frozen=True, kw_only=True, slots=True)
class DistilBertConfig:
    """The sizes and the head of a DistilBERT. The defaults are those of the published model.

    Arguments:
        vocabulary: V, number of tokens.
        width: D, of the model.
        heads: H; divides the width.
        feedforward_width: F, the hidden width of the feed-forward networks.
        layers: number of blocks.
        maximum_positions: the longest text, in tokens.
        activation: of the feed-forward networks and the masked head.
        dropout: probability of dropping an entry of the embeddings and of each sub-layer's output in training.
        attention_dropout: of attention weights.
        head_dropout: before the head of a task; null = 0.2 for whole texts, 0.1 for spans and `dropout` for tokens, as published.
        norm_epsilon: added to the variance in layer norms.
        init_std: standard deviation of the initial matrices.
        padding_id: the id that fills padding.
        pruned_heads: (layer, head) of each pruned head, numbered as before any pruning.
        head: the output for a text, as in `BertConfig`, without `next_sentence`, on which the model was not trained.
        outputs: the number of outputs of the heads `sequence` and `tokens`.

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
    init_std: float = 0.02
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
        """0: there are no segment embeddings."""
        return 0


class DistilBert(TextEncoder):
    """DistilBERT with the head of one task (Sanh et al. 2019).

        x = LayerNorm(E[token] + P[position]);   blocks as in BERT
        before a head for whole texts:  pooled = max(0, W x_[CLS] + b), which is trained with the task and not pre-trained

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
        initialise(self, config.init_std)
