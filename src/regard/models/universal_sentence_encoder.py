"""The Universal Sentence Encoder (Cer et al. 2018) in both variants: a Transformer, and a deep averaging network.

The paper gives no sizes except the 512 of a text's vector; all other sizes in the configs are choices of this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from regard.attention import (
    MultiHeadAttention,
    Padding,
    Positions,
    ScaledDot,
    ScoredAttention,
    SinusoidalPositions,
    positions_of,
)
from regard.attention.positions import check_length
from regard.layers import (
    ACTIVATIONS,
    Activation,
    Dropout,
    EncoderBlock,
    FeedForward,
    PositionedEmbedding,
    Residual,
    SentenceEncoderModel,
    Tokens,
    VectorHead,
    token_embedding,
)
from regard.layers.sentence_encoder import LONGEST
from regard.models.config import check, check_sentence_encoder, check_shares, check_sizes, check_types, vector_head


@dataclass(frozen=True, kw_only=True, slots=True)
class USETransformerConfig:
    """The sizes of the Transformer variant of the Universal Sentence Encoder.

    Arguments:
        vocabulary: V, number of tokens.
        width: D, of the vectors of tokens and of texts; even.
        heads: H; divides the width.
        feedforward_width: F, inside the feed-forward networks.
        layers: number of blocks.
        maximum_positions: the longest text, in tokens.
        activation: of the feed-forward networks.
        dropout: probability of dropping an entry of the embeddings, of each sub-layer's output and of the head's input in
            training.
        attention_dropout: of attention weights.
        classifier_width: of the hidden layer of the head; 0 for a linear map.
        padding_id: the id that fills padding.
        texts: how many texts the head reads, 1 or 2. Filled in by the task.
        head: the prediction for them: `none`, `sequence` or `choice`. Filled in by the task.
        outputs: the number of outputs of the head. Filled in by the task.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "use_transformer"

    vocabulary: int
    width: int = 512
    heads: int = 8
    feedforward_width: int = 2048
    layers: int = 6
    maximum_positions: int = 512
    activation: Activation = "relu"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    classifier_width: int = 512
    padding_id: int = 0
    texts: int = 1
    head: VectorHead = "none"
    outputs: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "width", "heads", "feedforward_width", "layers", "maximum_positions")
        width, heads = self.width, self.heads
        check(width % heads == 0, "heads", heads, f"a divisor of width {width}", "change one of the two")
        check(width % 2 == 0, "width", width, "even for sinusoidal positions", "add one")
        check_shares(self, "attention_dropout", usual="0 is usual")
        check(self.classifier_width >= 0, "classifier_width", self.classifier_width, "0 or more", "512 is usual")
        check_sentence_encoder(self)

    @property
    def segments(self) -> int:
        """Segments are not distinguished within a text."""
        return 0


class USETransformer(SentenceEncoderModel):
    """A Transformer encoder whose token vectors are summed to the vector of the text (section 3.1).

        u = sum_t h_t / sqrt(n),   h the last block's vectors of the n tokens

    The sum is divided by sqrt(n), not by n: for independent terms its variance is then the same for short and long texts.

    Arguments:
        config: its sizes.

    >>> sizes = {"width": 8, "heads": 2, "feedforward_width": 16, "layers": 1}
    >>> model = USETransformer(USETransformerConfig(vocabulary=9, **sizes))
    >>> model(Tokens.pad([[3, 4, 5], [6, 7]])).pooled.shape
    torch.Size([2, 8])
    """

    config: USETransformerConfig

    def __init__(self, config: USETransformerConfig) -> None:
        super().__init__(config, vector_head(config, config.classifier_width))
        self.embedding = PositionedEmbedding(
            token_embedding(config.vocabulary, config.width),
            SinusoidalPositions(config.width, config.maximum_positions),
            dropout=config.dropout,
        )
        self.blocks = nn.ModuleList(_block(config) for _ in range(config.layers))

    @property
    def layers(self) -> tuple[nn.Module, ...]:
        """The blocks."""
        return tuple(self.blocks)

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of the embeddings and of each block, D for all."""
        return (self.config.width,) * (1 + self.config.layers)

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        """The embeddings and the output of each block, (B, L, D) each.

        Raises:
            InputError: if a text is longer than `maximum_positions`.
        """
        del segments
        batch, length = tokens.ids.shape
        check_length(length, self.config.maximum_positions, "text")
        states = [self.embedding(tokens.ids, positions_of(tokens.valid))]
        mask = Padding(tokens.valid).materialize(batch=batch, queries=length, keys=length, device=tokens.ids.device)
        positions = Positions.of_text(length, tokens.places, device=tokens.ids.device)
        for block in self.blocks:
            states.append(block(states[-1], mask, positions=positions))
        return tuple(states)

    def vector(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        """The sum of the real tokens' vectors, divided by the square root of their number, (B, D)."""
        total = hidden.masked_fill(~tokens.valid.unsqueeze(-1), 0.0).sum(dim=1)
        return total / tokens.valid.sum(dim=1, keepdim=True).clamp_min(1).sqrt().to(hidden.dtype)


@dataclass(frozen=True, kw_only=True, slots=True)
class USEAveragingConfig:
    """The sizes of the deep averaging network variant of the Universal Sentence Encoder.

    Arguments:
        vocabulary: V, number of tokens.
        width: D, of the vectors of tokens, of bigrams, and of texts.
        bigrams: rows of the hash table of bigrams; bigrams with the same hash share a vector. 0 = no bigrams.
        feedforward_layers: the number of linear maps after the mean.
        activation: between two of them.
        dropout: probability of dropping an entry of the mean, and of the head's input, in training.
        classifier_width: of the hidden layer of the head; 0 for a linear map.
        padding_id: the id that fills padding.
        texts: how many texts the head reads, 1 or 2. Filled in by the task.
        head: the prediction for them: `none`, `sequence` or `choice`. Filled in by the task.
        outputs: the number of outputs of the head. Filled in by the task.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "use_averaging"

    vocabulary: int
    width: int = 512
    bigrams: int = 1 << 18
    feedforward_layers: int = 4
    activation: Activation = "relu"
    dropout: float = 0.1
    classifier_width: int = 512
    padding_id: int = 0
    texts: int = 1
    head: VectorHead = "none"
    outputs: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "width", "feedforward_layers")
        check(0 <= self.bigrams <= 1 << 30, "bigrams", self.bigrams, "in [0, 2**30]", "0 leaves them out")
        check(self.classifier_width >= 0, "classifier_width", self.classifier_width, "0 or more", "512 is usual")
        check_sentence_encoder(self)

    @property
    def layers(self) -> int:
        """Empty: token vectors are only looked up."""
        return 0

    @property
    def segments(self) -> int:
        """Segments are not distinguished within a text."""
        return 0

    @property
    def maximum_positions(self) -> int:
        """None: texts can have any length."""
        return LONGEST


class USEAveraging(SentenceEncoderModel):
    """The mean of word and bigram embeddings, through a feed-forward network (section 3.2; Iyyer et al. 2015).

        m = (sum_t E[w_t] + sum_t E2[w_t w_{t+1}]) / (n + n - 1),   u = W_k f(... f(W_1 m + b_1)) + b_k

    Its time is linear in the length of the text. It depends on word order only through the bigrams.

    Arguments:
        config: its sizes.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> model = USEAveraging(USEAveragingConfig(vocabulary=9, width=8, bigrams=50)).eval()
    >>> one, other = model(Tokens.pad([[3, 4, 5], [4, 3, 5]])).pooled
    >>> torch.allclose(one, other)
    False
    """

    config: USEAveragingConfig

    def __init__(self, config: USEAveragingConfig) -> None:
        super().__init__(config, vector_head(config, config.classifier_width))
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.bigrams = nn.Embedding(config.bigrams, config.width) if config.bigrams else None
        self.dropout = Dropout(config.dropout)
        self.maps = nn.ModuleList(nn.Linear(config.width, config.width) for _ in range(config.feedforward_layers))
        self.activation = ACTIVATIONS[config.activation]

    @property
    def layers(self) -> tuple[nn.Module, ...]:
        """None."""
        return ()

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of the token vectors."""
        return (self.config.width,)

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        """The vectors of tokens, (B, L, D)."""
        del segments
        return (self.embedding(tokens.ids),)

    def vector(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        """The vector of each text, (B, D)."""
        total = hidden.masked_fill(~tokens.valid.unsqueeze(-1), 0.0).sum(dim=1)
        count = tokens.valid.sum(dim=1, keepdim=True)
        if self.bigrams is not None:
            pairs = tokens.valid[:, 1:] & tokens.valid[:, :-1]
            rows = bigram_rows(tokens.ids[:, :-1], tokens.ids[:, 1:], self.config.vocabulary, self.config.bigrams)
            total = total + self.bigrams(rows).masked_fill(~pairs.unsqueeze(-1), 0.0).sum(dim=1)
            count = count + pairs.sum(dim=1, keepdim=True)
        x = self.dropout(total / count.clamp_min(1))
        for number, linear in enumerate(self.maps):
            x = linear(self.activation(x) if number else x)
        return x


def bigram_rows(first: Tensor, second: Tensor, vocabulary: int, rows: int) -> Tensor:
    """The row of each bigram in a hash table: the same for the same two tokens, spread over the table for others.

    Arguments:
        first, second: int64 of one shape, ids below `vocabulary`.
        rows: of the table, up to 2^30.

    >>> import torch
    >>> bigram_rows(torch.tensor([3, 3, 4]), torch.tensor([4, 4, 3]), vocabulary=9, rows=100).unique().numel()
    2
    """
    # A step of a linear congruential generator modulo 2^31, whose high digits are taken: the low ones repeat soon.
    scattered = ((first * vocabulary + second) % (1 << 31) * 1_103_515_245 + 12_345) % (1 << 31)
    return scattered * rows // (1 << 31)


def _block(config: USETransformerConfig) -> EncoderBlock:
    return EncoderBlock(
        attention=MultiHeadAttention(
            config.width, config.heads, attention=ScoredAttention(ScaledDot(), dropout=config.attention_dropout)
        ),
        feedforward=FeedForward(config.width, config.feedforward_width, activation=ACTIVATIONS[config.activation]),
        residual=lambda: Residual.with_norm("post", config.width, dropout=config.dropout),
    )
