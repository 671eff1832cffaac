"""Exploring the limits of transfer learning with a unified text-to-text transformer (Raffel et al. 2020): T5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.attention import (
    AttentionLayer,
    Causal,
    Dot,
    Mask,
    Padding,
    Positions,
    RelativeBias,
    RelativeDot,
    Score,
    ScoredAttention,
)
from regard.attention.layer import Side
from regard.attention.relative import BIAS
from regard.layers import (
    ACTIVATIONS,
    Activation,
    DecoderBlock,
    Dropout,
    EncoderBlock,
    FeedForward,
    GatedFeedForward,
    Residual,
    Tokens,
    VocabularyOutput,
)
from regard.layers.tokens import chosen
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types
from regard.models.encoder_decoder import AttentionEncoderDecoder, DecoderStack

PIECES = 32_128
"""The tokens of the published models: 32,000 pieces, 100 sentinels, and 28 unused ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class T5Config:
    """The sizes of a T5. The defaults are those of the small model.

    Arguments:
        source_vocabulary, target_vocabulary: the number of tokens, the same for both, since they share a table.
        width: D, of the model.
        heads: H.
        head_width: E, of a head; H E can differ from D.
        feedforward_width: F, the hidden width of the feed-forward networks.
        encoder_layers, decoder_layers: numbers of blocks.
        activation: of the feed-forward networks; `relu` as published, `gelu_tanh` in version 1.1.
        gated: whether the feed-forward networks are gated, as in version 1.1.
        buckets: the number of buckets of the relative position bias; in the encoder half of them for each direction.
        maximum_distance: all distances from here on share a bucket.
        sharing: `all` = source, target and output share one table, as published; `inputs` = the output has its own, as in
            version 1.1.
        scaled_output: whether the decoder's output is multiplied by D^-1/2 before the output layer; false in version 1.1.
        dropout: probability, in training, of dropping an entry of the embeddings, of each sub-layer's output, inside the
            feed-forward networks and of the output of each stack, and an attention weight.
        norm_epsilon: added to the mean square in norms.
        alignment_layer: the decoder block whose cross-attention, averaged over heads, is `alignment`; -1 is the last.
        padding_id, start_id, end_id: special tokens; a target starts with the padding token.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "t5"

    source_vocabulary: int
    target_vocabulary: int
    width: int = 512
    heads: int = 8
    head_width: int = 64
    feedforward_width: int = 2048
    encoder_layers: int = 6
    decoder_layers: int = 6
    activation: Activation = "relu"
    gated: bool = False
    buckets: int = 32
    maximum_distance: int = 128
    sharing: Literal["all", "inputs"] = "all"
    scaled_output: bool = True
    dropout: float = 0.1
    norm_epsilon: float = 1e-6
    alignment_layer: int = -1
    padding_id: int = 0
    start_id: int = 0
    end_id: int = 1

    def __post_init__(self) -> None:
        check_types(self)
        sizes = ("width", "heads", "head_width", "feedforward_width", "encoder_layers", "decoder_layers")
        check_sizes(self, "source_vocabulary", "target_vocabulary", *sizes)
        check(
            self.source_vocabulary == self.target_vocabulary,
            "target_vocabulary",
            self.target_vocabulary,
            f"source_vocabulary, {self.source_vocabulary}",
            "T5 has one table; train one shared tokenizer (tokenizer.shared=true)",
        )
        check(
            self.buckets >= 4 and self.buckets % 2 == 0, "buckets", self.buckets, "an even number from 4", "T5 has 32"
        )
        check(
            self.maximum_distance > self.buckets // 2,
            "maximum_distance",
            self.maximum_distance,
            f"above {self.buckets // 2}, half the buckets",
            "these have separate buckets; T5 has 128",
        )
        check_shares(self, "dropout", usual="0.1 is the published rate")
        check(self.norm_epsilon > 0, "norm_epsilon", self.norm_epsilon, "above 0", "1e-6 is the published one")
        check(
            -self.decoder_layers <= self.alignment_layer < self.decoder_layers,
            "alignment_layer",
            self.alignment_layer,
            f"in [-{self.decoder_layers}, {self.decoder_layers})",
            "-1 is the last decoder block",
        )
        check_tokens(self, "padding_id", "start_id", "end_id", of="target_vocabulary")

    @property
    def maximum_positions(self) -> None:
        """None: sources and targets can have any length."""
        return None

    @classmethod
    def small(cls, vocabulary: int = PIECES) -> T5Config:
        """60,506,624 parameters."""
        return _published(vocabulary, width=512, feedforward_width=2048, layers=6, heads=8)

    @classmethod
    def base(cls, vocabulary: int = PIECES) -> T5Config:
        """222,903,552 parameters."""
        return _published(vocabulary, width=768, feedforward_width=3072, layers=12, heads=12)

    @classmethod
    def large(cls, vocabulary: int = PIECES) -> T5Config:
        """737,668,096 parameters."""
        return _published(vocabulary, width=1024, feedforward_width=4096, layers=24, heads=16)

    @classmethod
    def three_billion(cls, vocabulary: int = PIECES) -> T5Config:
        """T5-3B: 2,851,598,336 parameters."""
        return _published(vocabulary, width=1024, feedforward_width=16_384, layers=24, heads=32, head_width=128)

    @classmethod
    def eleven_billion(cls, vocabulary: int = PIECES) -> T5Config:
        """T5-11B: 11,307,321,344 parameters."""
        return _published(vocabulary, width=1024, feedforward_width=65_536, layers=24, heads=128, head_width=128)

    @classmethod
    def small_1_1(cls, vocabulary: int = PIECES) -> T5Config:
        """Version 1.1: 76,961,152 parameters."""
        return _later(vocabulary, width=512, feedforward_width=1024, layers=8, heads=6)

    @classmethod
    def base_1_1(cls, vocabulary: int = PIECES) -> T5Config:
        """Version 1.1: 247,577,856 parameters."""
        return _later(vocabulary, width=768, feedforward_width=2048, layers=12, heads=12)

    @classmethod
    def large_1_1(cls, vocabulary: int = PIECES) -> T5Config:
        """Version 1.1: 783,150,080 parameters."""
        return _later(vocabulary, width=1024, feedforward_width=2816, layers=24, heads=16)

    @classmethod
    def xl_1_1(cls, vocabulary: int = PIECES) -> T5Config:
        """Version 1.1: 2,849,757,184 parameters."""
        return _later(vocabulary, width=2048, feedforward_width=5120, layers=24, heads=32)

    @classmethod
    def xxl_1_1(cls, vocabulary: int = PIECES) -> T5Config:
        """Version 1.1: 11,135,332,352 parameters."""
        return _later(vocabulary, width=4096, feedforward_width=10_240, layers=24, heads=64)


class T5Stack(nn.Module):
    """The common part of encoder and decoder: a relative position bias that all blocks share, and a norm at the end."""

    def __init__(
        self,
        config: T5Config,
        embedding: nn.Embedding,
        layers: list[EncoderBlock] | list[DecoderBlock],
        *,
        both_ways: bool,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.relative = RelativeBias(
            config.heads, buckets=config.buckets, maximum_distance=config.maximum_distance, both_ways=both_ways
        )
        self.layers = nn.ModuleList(layers)
        self.norm = nn.RMSNorm(config.width, eps=config.norm_epsilon)
        self.dropout = Dropout(config.dropout)

    def record(self, queries: int, keys: int) -> dict[str, Tensor]:
        """The bias of each block's self-attention, (1, H, L, S), computed once."""
        return {BIAS: self.relative.between_slots(queries, keys)}


class T5Encoder(T5Stack):
    """A stack of encoder blocks."""

    def forward(self, source: Tokens) -> Tensor:
        """Source (B, S) to (B, S, D)."""
        x = self.dropout(self.embedding(source.ids))
        batch, length = source.ids.shape
        mask: Mask | None = None
        if source.padding_side != "nowhere":
            mask = Padding(source.valid).materialize(batch=batch, queries=length, keys=length, device=x.device)
        record, positions = self.record(length, length), Positions.of_text(length, source.places, device=x.device)
        for layer in self.layers:
            x = layer(x, mask, positions=positions, record=record)
        return self.dropout(self.norm(x))


class T5Decoder(T5Stack, DecoderStack):
    """A stack of decoder blocks."""

    def forward(
        self, target: Tokens, source: Tensor, source_valid: Tensor, source_places: Tensor | None = None
    ) -> Tensor:
        """Teacher forcing: target (B, L) and the encoder's output (B, S, D) to (B, L, D).

        Arguments:
            source_places: (B, S), the place of each source token where that is not its column.
        """
        x = self.dropout(self.embedding(target.ids))
        batch, length = target.ids.shape
        mask: Mask = Causal()
        if target.padding_side == "somewhere":  # what only follows is never seen
            mask = mask & Padding(target.valid)
        mask = mask.materialize(batch=batch, queries=length, keys=length, device=x.device)
        source_mask = Padding(source_valid).materialize(
            batch=batch, queries=length, keys=source.shape[1], device=x.device
        )
        record, places = self.record(length, length), target.places
        positions = Positions.of_text(length, places, device=x.device)
        across = Positions(
            length, source.shape[1], of_queries=positions.queries, of_keys=source_places, device=x.device
        )
        for layer in self.layers:
            x, _, _ = layer(
                x,
                source,
                mask=mask,
                source_mask=source_mask,
                positions=positions,
                source_positions=across,
                record=record,
            )
        return self.dropout(self.norm(x))

    def embedded(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Tokens (B, L), wherever they stand, to what the first block reads, (B, L, D)."""
        return self.dropout(self.embedding(ids))

    def finished(self, x: Tensor) -> Tensor:
        """Under the last norm, (B, L, D)."""
        return self.dropout(self.norm(x))

    def record_of_step(self, here: Tensor, places: Tensor) -> Mapping[str, Tensor]:
        """The bias of each block's self-attention, (R, H, 1, C); (1, H, 1, C) where all are at one place."""
        # Every hypothesis about a source is at one place, and a column at one in the past of each that sees it.
        return {BIAS: self.relative.between(here, places)}


class T5(AttentionEncoderDecoder):
    """T5: an encoder-decoder Transformer without positions in its vectors, its norms before the sub-layers and without a mean.

        x = E[token]
        encoder block:  self-attention, feed-forward;   decoder block:  causal self-attention, attention over the source,
        feed-forward;   each inside x + Dropout(sublayer(g x / rms(x)))
        self-attention:  softmax(q_i . k_j + b_h(j - i)), b one table for each stack;   over the source:  softmax(q . k)
        logits = D^-1/2 norm(x) E^T

    No product is divided by sqrt(E): the queries' matrices are sampled so much smaller instead.

    Arguments:
        config: its sizes.

    >>> model = T5(T5Config(source_vocabulary=9, target_vocabulary=9, width=8, heads=2, head_width=3, feedforward_width=16,
    ...                     encoder_layers=1, decoder_layers=1))
    >>> model(Tokens.pad([[3, 4, 5], [6, 7]]), Tokens.pad([[0, 3], [0, 4]])).shape
    torch.Size([2, 2, 9])
    """

    has_alignment: bool = True
    length_setting: str = ""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.config = config
        table = nn.Embedding(config.target_vocabulary, config.width)
        encoder = [
            EncoderBlock(
                attention=self._self_attention("source"), feedforward=self._feedforward(), residual=self._residual
            )
            for _ in range(config.encoder_layers)
        ]
        decoder = [
            DecoderBlock(
                attention=self._self_attention("target"),
                cross_attention=self._attention("target", "source", Dot()),
                feedforward=self._feedforward(),
                residual=self._residual,
            )
            for _ in range(config.decoder_layers)
        ]
        self.encoder = T5Encoder(config, table, encoder, both_ways=True)
        self.decoder = T5Decoder(config, table, decoder, both_ways=False)
        self.output = VocabularyOutput(config.width, config.target_vocabulary)
        if config.sharing == "all":
            self.output.weight = table.weight
        self.scale = config.width**-0.5 if config.scaled_output else 1.0
        _draw(self)

    def _self_attention(self, side: Side) -> AttentionLayer:
        return self._attention(side, side, RelativeDot())

    def _attention(self, queries: Side, keys: Side, score: Score) -> AttentionLayer:
        config = self.config
        inner = config.heads * config.head_width
        return AttentionLayer(
            query=nn.Linear(config.width, inner, bias=False),
            key=nn.Linear(config.width, inner, bias=False),
            value=nn.Linear(config.width, inner, bias=False),
            output=nn.Linear(inner, config.width, bias=False),
            attention=ScoredAttention(score, dropout=config.dropout),
            heads=config.heads,
            sequences=(queries, keys),
        )

    def _feedforward(self) -> nn.Module:
        config, activation = self.config, ACTIVATIONS[self.config.activation]
        if config.gated:
            return GatedFeedForward(
                config.width, config.feedforward_width, activation=activation, dropout=config.dropout
            )
        return FeedForward(
            config.width, config.feedforward_width, activation=activation, dropout=config.dropout, bias=False
        )

    def _residual(self) -> Residual:
        norm = nn.RMSNorm(self.config.width, eps=self.config.norm_epsilon)
        return Residual(before=norm, after=nn.Identity(), dropout=self.config.dropout)

    @property
    def maximum_source_length(self) -> int | None:
        """None: nothing depends on where a token stands but on how far from another."""
        return None

    @property
    def maximum_target_length(self) -> int | None:
        """None, likewise."""
        return None

    def forward(self, source: Tokens, target: Tokens, *, at: Tensor | None = None) -> Tensor:
        """Logits of every next target token, given the true ones before it.

        Arguments:
            source: (B, S) tokens.
            target: (B, L) tokens, shifted right: the start token first.
            at: (M,) int64, the positions, as indices into B x L, at which to compute logits; None = all.

        Returns:
            (B, L, V), or (M, V) with `at`; row l predicts target token l + 1.
        """
        return self.logits(chosen(self.decoder(target, self.encoded(source), source.valid, source.places), at))

    def encoded(self, source: Tokens) -> Tensor:
        """The encoder's output (B, S, D)."""
        return self.encoder(source)

    def logits(self, x: Tensor) -> Tensor:
        """The decoder's output (..., D) to (..., V)."""
        return self.output(x if self.scale == 1.0 else x * self.scale)


def _draw(model: T5) -> None:
    """Sample every matrix as the authors do: from a normal distribution of deviation fan-in^-1/2.

    Those of the queries are E^-1/2 times as large, which does what dividing each score does elsewhere. The table of embeddings
    has the deviation 1; where it is the output's too, D^-1/2 in front of the logits makes up for it.
    """
    deviation = model.config.width**-0.5
    nn.init.normal_(model.encoder.embedding.weight, std=1.0)
    if model.config.sharing != "all":
        nn.init.normal_(model.output.weight, std=deviation)
    for module in model.modules():
        if isinstance(module, RelativeBias):
            nn.init.normal_(module.weight, std=deviation)
        elif isinstance(module, nn.Linear) and module is not model.output:
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, AttentionLayer):
                module.query.weight.mul_(model.config.head_width**-0.5)  # type: ignore[operator, union-attr]


def _published(vocabulary: int, *, layers: int, **settings: Any) -> T5Config:
    return T5Config(
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        encoder_layers=layers,
        decoder_layers=layers,
        **settings,
    )


def _later(vocabulary: int, **sizes: int) -> T5Config:
    """Version 1.1."""
    changed = {"activation": "gelu_tanh", "gated": True, "sharing": "inputs", "scaled_output": False}
    return _published(vocabulary, **sizes, **changed)  # type: ignore[arg-type]
