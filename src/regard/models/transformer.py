"""Attention is all you need (Vaswani et al. 2017): the encoder-decoder Transformer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeVar

from torch import Tensor, nn

from regard.attention import (
    Attention,
    AttentionLayer,
    Causal,
    LearnedPositions,
    MultiHeadAttention,
    NoPositions,
    Padding,
    Positions,
    RelativeAttention,
    RelativeVectors,
    Rows,
    ScaledDot,
    SinusoidalPositions,
    Unpadded,
    positions_of,
)
from regard.attention.layer import Side
from regard.attention.positions import check_length
from regard.layers import (
    ACTIVATIONS,
    FeedForward,
    NormPlacement,
    OutputBias,
    PositionedEmbedding,
    Residual,
    Tokens,
    VocabularyOutput,
    token_embedding,
)
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.padding import in_row, lays_texts_out, positions_in_row, trains_without_padding
from regard.layers.tokens import chosen
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types
from regard.models.encoder_decoder import AttentionEncoderDecoder, DecoderStack, TransformerState
from regard.models.own_attention import attention_named, check_attention
from regard.parts import Choice

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig:
    """The sizes of an encoder-decoder Transformer; the defaults are the paper's base model (table 3).

    Arguments:
        source_vocabulary, target_vocabulary: numbers of tokens.
        width: D, of the model.
        heads: H; divides the width.
        feedforward_width: F, the hidden width of the feed-forward networks.
        encoder_layers, decoder_layers: numbers of blocks.
        norm: `post` normalises after each residual sum, as published; `pre` before each sub-layer, with one more norm at the end
            of each stack.
        positions: `sinusoidal` (fixed); `learned`; `relative`, vectors for the distance between query and key in self-attention
            (Shaw et al. 2018); or `none`, and then the encoder does not depend on the order of its tokens.
        relative_distance: the largest distance that relative positions distinguish; 16 in the base model of their paper.
        maximum_positions: the longest source or target, in tokens. Sinusoidal positions have no parameters, so it can be large.
        first_position: the row of position 0 in tables of learned positions; rows before it are not used. BART has 2.
        scaled_embedding: whether embeddings are multiplied by sqrt(D), as published; BART does not.
        embedding_norm: one more layer norm, of the sum of token and position vectors, as in BART.
        sharing: `all` = source, target and output share one table (needs one vocabulary); `target` = target and output; `none`.
        score, alignment: of every attention: `scaled_dot` and `softmax`, or your own score and alignment, or your own mechanism
            as `score`.
        scale_power: attention scores are q . k / E^scale_power, E the width of a head: 0.5 as published, 0 the plain inner
            product, 1 the error of some lectures.
        attention_bias: biases in the attention projections; the published model has none.
        dropout: probability of dropping an entry of each sub-layer's output and of the embeddings in training.
        attention_dropout: of attention weights (0 as published).
        feedforward_dropout: inside the feed-forward networks (0 as published).
        activation: of the feed-forward networks; `relu` as published.
        norm_epsilon: added to the variance in layer norms. Other tools that open the folder assume 1e-5.
        output_bias: `padding` excludes the padding token: its logit is -10,000, and its row of the tables stays zero; `trained`
            adds a trained bias to each logit; `none` adds nothing.
        alignment_layer: the decoder block whose cross-attention, averaged over heads, is `alignment`; -1 is the last.
        padding_id, start_id, end_id: special tokens of the target.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "transformer"

    source_vocabulary: int
    target_vocabulary: int
    width: int = 512
    heads: int = 8
    feedforward_width: int = 2048
    encoder_layers: int = 6
    decoder_layers: int = 6
    norm: NormPlacement = "post"
    positions: Literal["sinusoidal", "learned", "relative", "none"] = "sinusoidal"
    relative_distance: int = 16
    maximum_positions: int = 1024
    first_position: int = 0
    scaled_embedding: bool = True
    embedding_norm: bool = False
    sharing: Literal["all", "target", "none"] = "all"
    score: Annotated[str, Choice(("scaled_dot",), ("score", "mechanism"))] = "scaled_dot"
    alignment: Annotated[str, Choice(("softmax",), ("alignment",))] = "softmax"
    scale_power: float = 0.5
    attention_bias: bool = False
    dropout: float = 0.1
    attention_dropout: float = 0.0
    feedforward_dropout: float = 0.0
    activation: Literal["relu", "gelu", "swish"] = "relu"
    norm_epsilon: float = 1e-5
    output_bias: OutputBias = "padding"
    alignment_layer: int = -1
    padding_id: int = 0
    start_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(
            self,
            "source_vocabulary",
            "target_vocabulary",
            "width",
            "heads",
            "feedforward_width",
            "encoder_layers",
            "decoder_layers",
            "maximum_positions",
        )
        check(
            self.width % self.heads == 0,
            "heads",
            self.heads,
            f"a divisor of width {self.width}",
            "change one of the two",
        )
        check(
            self.positions != "sinusoidal" or self.width % 2 == 0,
            "width",
            self.width,
            "even for sinusoidal positions",
            "add one or choose positions=learned",
        )
        check(
            math.isfinite(self.scale_power),
            "scale_power",
            self.scale_power,
            "a finite number",
            "0.5 is the published scale",
        )
        relative = self.positions == "relative"
        check(self.relative_distance >= 0, "relative_distance", self.relative_distance, "at least 0", "16 is usual")
        scaled = not relative or self.scale_power == 0.5
        check(scaled, "scale_power", self.scale_power, "0.5 beside positions=relative", "leave it out")
        first = self.first_position
        check(first >= 0, "first_position", first, "at least 0", "BART has 2")
        check(
            first == 0 or self.positions == "learned",
            "first_position",
            first,
            "0 without learned positions",
            "leave it out",
        )
        own = self.score != "scaled_dot"
        usual = self.alignment == "softmax" and not own
        check(
            not relative or usual,
            "positions",
            self.positions,
            "another beside a score or alignment of your own",
            "leave it out",
        )
        check(
            not own or self.scale_power == 0.5,
            "scale_power",
            self.scale_power,
            f"0.5 beside score={self.score}",
            "leave it out",
        )
        check_attention(self.score, self.alignment)
        check(
            self.sharing != "all" or self.source_vocabulary == self.target_vocabulary,
            "sharing",
            self.sharing,
            f"'target' or 'none' for vocabularies of {self.source_vocabulary} and {self.target_vocabulary} tokens",
            "or train one shared tokenizer (tokenizer.shared=true)",
        )
        check_shares(self, "dropout", "attention_dropout", "feedforward_dropout", usual="0.1 to 0.3 is usual")
        check(
            -self.decoder_layers <= self.alignment_layer < self.decoder_layers,
            "alignment_layer",
            self.alignment_layer,
            f"in [-{self.decoder_layers}, {self.decoder_layers})",
            "-1 is the last decoder block",
        )
        check_tokens(self, "padding_id", "start_id", "end_id", of="target_vocabulary")

    @property
    def ruled_out(self) -> int | None:
        """The token that is never predicted, whose rows stay zero: padding, unless padding is also the end token."""
        return self.padding_id if self.output_bias == "padding" and self.padding_id != self.end_id else None

    @classmethod
    def base(cls, vocabulary: int = 37_000) -> TransformerConfig:
        """The base model of table 3: 63,045,632 parameters at 37,000 shared tokens."""
        return cls(source_vocabulary=vocabulary, target_vocabulary=vocabulary)

    @classmethod
    def big(cls, vocabulary: int = 37_000) -> TransformerConfig:
        """The big model of table 3: 214,171,648 parameters at 37,000 shared tokens."""
        return cls(
            source_vocabulary=vocabulary,
            target_vocabulary=vocabulary,
            width=1024,
            heads=16,
            feedforward_width=4096,
            dropout=0.3,
        )


class TransformerEncoder(nn.Module):
    """A stack of encoder blocks."""

    def __init__(self, embedding: PositionedEmbedding, layers: list[EncoderBlock], norm: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def forward(self, source: Tokens) -> Tensor:
        """Source (B, S) to (B, S, D)."""
        places = positions_of(source.valid)
        x = self.embedding(source.ids, places)
        batch, length = source.ids.shape
        mask = Padding(source.valid).materialize(batch=batch, queries=length, keys=length, device=x.device)
        positions = Positions.of_text(length, places if source.padding_side == "somewhere" else None, device=x.device)
        for layer in self.layers:
            x = layer(x, mask, positions=positions)
        return self.norm(x)

    def in_row(self, source: Tokens, rows: Rows) -> Tensor:
        """The same for the real tokens in one row: (1, T, D)."""
        ids, places = in_row(source)
        mask = Unpadded.over(rows, rows)
        x, positions = self.embedding(ids, places), positions_in_row(places)
        for layer in self.layers:
            x = layer(x, mask, positions=positions)
        return self.norm(x)


class TransformerDecoder(DecoderStack):
    """A stack of decoder blocks."""

    def __init__(self, embedding: PositionedEmbedding, layers: list[DecoderBlock], norm: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def forward(
        self, target: Tokens, source: Tensor, source_valid: Tensor, source_places: Tensor | None = None
    ) -> Tensor:
        """Teacher forcing: target (B, L) and the encoder's output (B, S, D) to (B, L, D).

        Arguments:
            source_places: (B, S), the position of each source token, if that is not its column.
        """
        places = positions_of(target.valid)
        x = self.embedding(target.ids, places)
        batch, length = target.ids.shape
        device = x.device
        mask = (Causal() & Padding(target.valid)).materialize(batch=batch, queries=length, keys=length, device=device)
        source_mask = Padding(source_valid).materialize(
            batch=batch, queries=length, keys=source.shape[1], device=device
        )
        positions = Positions.of_text(length, places if target.padding_side == "somewhere" else None, device=device)
        across = Positions(length, source.shape[1], of_queries=places, of_keys=source_places, device=device)
        for layer in self.layers:
            x, _, _ = layer(
                x,
                source,
                mask=mask,
                source_mask=source_mask,
                positions=positions,
                source_positions=across,
            )
        return self.norm(x)

    def in_row(self, target: Tokens, rows: Rows, source: Tensor, source_places: Tensor, sources: Rows) -> Tensor:
        """The same for the real tokens in one row: (1, T, D).

        Arguments:
            target, rows: the tokens (B, L), and their row.
            source, source_places, sources: the encoder's output in a row, (1, S, D), the positions (1, S), and their row.
        """
        ids, places = in_row(target)
        mask, source_mask = Unpadded.over(rows, rows, causal=True), Unpadded.over(rows, sources)
        x, positions, across = (
            self.embedding(ids, places),
            positions_in_row(places),
            positions_in_row(places, source_places),
        )
        for layer in self.layers:
            x, _, _ = layer(x, source, mask=mask, source_mask=source_mask, positions=positions, source_positions=across)
        return self.norm(x)

    def embedded(self, ids: Tensor, positions: Tensor) -> Tensor:
        """The input of the first block: tokens (B, L) at positions (B, L) to (B, L, D)."""
        return self.embedding(ids, positions)

    def finished(self, x: Tensor) -> Tensor:
        """The output of the last block after the last norm, (B, L, D)."""
        return self.norm(x)


class Transformer(AttentionEncoderDecoder):
    """The encoder-decoder Transformer (Vaswani et al. 2017), post-norm as published or pre-norm.

        x = sqrt(D) E[token] + PE[position]
        encoder block:  self-attention, feed-forward;   decoder block:  causal self-attention, cross-attention, feed-forward
        each sub-layer:  LayerNorm(x + Dropout(sublayer(x))), or with pre-norm x + Dropout(sublayer(LayerNorm(x)))
        logits = x E^T, and -10,000 for padding

    Arguments:
        config: its sizes.

    >>> model = Transformer(TransformerConfig(source_vocabulary=9, target_vocabulary=9, width=8, heads=2, feedforward_width=16,
    ...                                       encoder_layers=1, decoder_layers=1))
    >>> model(Tokens.pad([[3, 4, 5], [6, 7]]), Tokens.pad([[1, 3], [1, 4]])).shape
    torch.Size([2, 2, 9])
    """

    has_alignment: bool = True
    length_setting: str = "model.maximum_positions"

    encoder: TransformerEncoder

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        shared, padding = config.sharing == "all", config.ruled_out
        target_table = token_embedding(config.target_vocabulary, config.width, padding=padding)
        source_table = target_table if shared else token_embedding(config.source_vocabulary, config.width)
        self.encoder = TransformerEncoder(
            self._embedding(source_table),
            [
                EncoderBlock(
                    attention=self._attention("source", "source"),
                    feedforward=self._feedforward(),
                    residual=self._residual,
                )
                for _ in range(config.encoder_layers)
            ],
            self._final_norm(),
        )
        self.decoder = TransformerDecoder(
            self._embedding(target_table),
            [
                DecoderBlock(
                    attention=self._attention("target", "target"),
                    cross_attention=self._attention("target", "source"),
                    feedforward=self._feedforward(),
                    residual=self._residual,
                )
                for _ in range(config.decoder_layers)
            ],
            self._final_norm(),
        )
        bias = "none" if config.output_bias == "padding" and padding is None else config.output_bias
        self.output = VocabularyOutput(config.width, config.target_vocabulary, bias=bias, padding=padding)
        if config.sharing != "none":
            self.output.weight = target_table.weight

    def _embedding(self, table: nn.Embedding) -> PositionedEmbedding:
        config = self.config
        width, maximum = config.width, config.maximum_positions
        if config.positions == "learned":
            positions: nn.Module = LearnedPositions(width, maximum, first=config.first_position)
        else:
            positions = (SinusoidalPositions if config.positions == "sinusoidal" else NoPositions)(width, maximum)
        return PositionedEmbedding(
            table,
            positions,
            dropout=config.dropout,
            scale=None if config.scaled_embedding else 1.0,
            norm=nn.LayerNorm(width, eps=config.norm_epsilon) if config.embedding_norm else None,
        )

    def _attention(self, queries: Side, keys: Side) -> MultiHeadAttention:
        config = self.config
        layer = MultiHeadAttention(
            config.width,
            config.heads,
            bias=config.attention_bias,
            attention=self._mechanism(queries, keys),
            sequences=(queries, keys),
        )
        return _drawn(layer)

    def _mechanism(self, queries: Side, keys: Side) -> Attention:
        config = self.config
        if config.positions != "relative" or queries != keys:  # between two sequences there is no distance
            score = ScaledDot(config.scale_power) if config.score == "scaled_dot" else None
            width, dropout = config.width // config.heads, config.attention_dropout
            return attention_named(config.score, config.alignment, score, width=width, dropout=dropout)
        of_keys, of_values = (
            RelativeVectors(config.width // config.heads, config.relative_distance, both_ways=queries == "source")
            for _ in range(2)
        )
        return RelativeAttention(of_keys, of_values, dropout=config.attention_dropout)

    def _feedforward(self) -> FeedForward:
        config = self.config
        layer = FeedForward(
            config.width,
            config.feedforward_width,
            activation=ACTIVATIONS[config.activation],
            dropout=config.feedforward_dropout,
        )
        return _drawn(layer)

    def _residual(self) -> Residual:
        config = self.config
        return Residual.with_norm(config.norm, config.width, dropout=config.dropout, epsilon=config.norm_epsilon)

    def _final_norm(self) -> nn.Module:
        if self.config.norm == "post":
            return nn.Identity()
        return nn.LayerNorm(self.config.width, eps=self.config.norm_epsilon)

    @property
    def maximum_source_length(self) -> int | None:
        """The number of positions, of which the end token of the source takes one."""
        return self.config.maximum_positions

    @property
    def maximum_target_length(self) -> int | None:
        """The number of positions, of which the start token takes one; the end token needs none."""
        return self.config.maximum_positions

    def forward(self, source: Tokens, target: Tokens, *, at: Tensor | None = None) -> Tensor:
        """Logits of every next target token, given the true previous tokens (teacher forcing).

        Arguments:
            source: (B, S) tokens.
            target: (B, L) tokens, shifted right: the start token first.
            at: (M,) int64, the positions, as indices into B x L, at which to compute logits; None = all.

        Returns:
            (B, L, V), or (M, V) with `at`; row l predicts target token l + 1.

        Raises:
            InputError: if source or target is longer than `maximum_positions`.
        """
        check_length(target.ids.shape[1], self.config.maximum_positions, "target")
        if self._lays_texts_out and trains_without_padding(self, source, target):
            check_length(source.ids.shape[1], self.config.maximum_positions, "source")
            sources, targets = Rows.of(source.valid), Rows.of(target.valid)
            memory = self.encoder.in_row(source, sources)
            places = in_row(source)[1]
            row: Tensor = self.decoder.in_row(target, targets, memory, places, sources)  # pyright: ignore[reportCallIssue]
            x = targets.laid_out(row.squeeze(0))
        else:
            x = self.decoder(target, self.encoded(source), source.valid, source.places)
        return self.logits(chosen(x, at))

    @property
    def _lays_texts_out(self) -> bool:
        """Whether all attention is the fused one."""
        blocks = [*self.encoder.layers, *self.decoder.layers]
        return lays_texts_out(
            *(part for block in blocks for part in block.modules() if isinstance(part, AttentionLayer))
        )

    def encoded(self, source: Tokens) -> Tensor:
        """The encoder's output (B, S, D).

        Raises:
            InputError: if the source is longer than `maximum_positions`.
        """
        check_length(source.ids.shape[1], self.config.maximum_positions, "source")
        return self.encoder(source)

    def logits(self, x: Tensor) -> Tensor:
        """The decoder's output (..., D) to (..., V)."""
        return self.output(x)

    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after.

        Raises:
            InputError: if the target has reached `maximum_positions`.
        """
        check_length(state.longest + 1, self.config.maximum_positions, "target")
        return super().step(tokens, state)


def _drawn(layer: M) -> M:
    """`layer` with Glorot-uniform matrices and zero biases, as in the authors' code."""
    for module in layer.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return layer
