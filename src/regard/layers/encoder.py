"""Encoders: their interface, their embedding, and the stack of the BERT family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from regard.attention import Mask, Near, Padding, Positions, Rows, Unpadded, Window, positions_of
from regard.attention.positions import check_length
from regard.layers.blocks import Dropout, EncoderBlock
from regard.layers.heads import HeadKind, HeadLogits
from regard.layers.padding import in_row, lays_texts_out, positions_in_row, trains_without_padding
from regard.layers.tokens import Tokens


class Encoded(NamedTuple):
    """The output of an encoder for a batch of texts.

    Arguments:
        hidden: (B, L, D), the last layer's vector of each token; without meaning at padding.
        pooled: (B, D), the vector of the text; None without a pooler. Several readings of an example have one.
        logits, next_sentence: as in `HeadLogits`.
        next_token: (M, V), logits of the token after each requested position, from a decoder; None from other models.
    """

    hidden: Tensor
    pooled: Tensor | None = None
    logits: Tensor | None = None
    next_sentence: Tensor | None = None
    next_token: Tensor | None = None


class EncoderConfig(Protocol):
    """The settings of an encoder that tasks need."""

    @property
    def vocabulary(self) -> int:
        """V, the number of tokens."""
        ...

    @property
    def width(self) -> int:
        """D, the width of the vectors."""
        ...

    @property
    def layers(self) -> int:
        """The number of blocks."""
        ...

    @property
    def segments(self) -> int:
        """The number of segment embeddings; 0 = none."""
        ...

    @property
    def maximum_positions(self) -> int:
        """The longest text, in tokens."""
        ...

    @property
    def padding_id(self) -> int:
        """The id that fills padding."""
        ...

    @property
    def head(self) -> HeadKind:
        """The head, see `Head`."""
        ...

    @property
    def outputs(self) -> int:
        """The number of outputs of the head."""
        ...


def added(pooled: Tensor, readings: int) -> Tensor:
    """The sums over consecutive rows: (B x readings, D) to (B, D)."""
    return pooled if readings == 1 else pooled.unflatten(0, (-1, readings)).sum(dim=1)


class TextEmbedding(nn.Module):
    """Token, position and segment vectors, summed and normalised (Devlin et al. 2019, figure 2).

        x = Dropout(LayerNorm(E[token] + P[position] + S[segment]))

    Arguments:
        tokens: E.
        positions: P, learned.
        segments: S; None = no segment embeddings.
        epsilon: added to the variance in the layer norm.
        dropout: probability of dropping an entry in training.
        projection: from the embedding width to the width of the blocks, after dropout (ELECTRA); None if they are equal.
        norm_bias: whether the layer norm has a bias.
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: nn.Module,
        segments: nn.Embedding | None,
        *,
        epsilon: float,
        dropout: float,
        projection: nn.Linear | None = None,
        norm_bias: bool = True,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.segments = segments
        self.norm = nn.LayerNorm(tokens.embedding_dim, eps=epsilon, bias=norm_bias)
        self.dropout = Dropout(dropout)
        self.projection = projection

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        """(B, L) ids, positions and segments (None = all 0) to (B, L, D)."""
        x = self.tokens(ids) + self.positions(positions)
        if self.segments is not None:
            given = segments is not None and self.segments.num_embeddings > 1
            x = x + self.segments(segments if given else torch.zeros_like(ids))
        x = self.dropout(self.norm(x))
        return x if self.projection is None else self.projection(x)


class OneSegment(nn.Embedding):
    """A segment embedding that uses the first row for every token, as in RoBERTa."""

    def forward(self, input: Tensor) -> Tensor:
        """(B, L) of any integers to (B, L, D)."""
        return super().forward(torch.zeros_like(input))


class TextEncoder(nn.Module):
    """Embedding, bidirectional blocks, and a head: BERT, and models that differ from it in some parts.

    Arguments:
        config: its sizes.
        embedding: tokens to vectors.
        layers: the blocks.
        pooler: computes the vector of a text; None = no pooler.
        head: such as `layers.heads.MaskedHead`.
        norm: after the last pre-norm block; None = no norm.
        windows: for each block the number of tokens on either side that a token sees; None = all. Empty = all for every block.
    """

    length_setting: str = "model.maximum_positions"
    tells_next: bool = False

    def __init__(
        self,
        config: EncoderConfig,
        *,
        embedding: TextEmbedding,
        layers: Sequence[EncoderBlock],
        pooler: nn.Module | None,
        head: nn.Module,
        norm: nn.Module | None = None,
        windows: Sequence[int | None] = (),
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.pooler = pooler
        self.head = head
        self.windows = tuple(windows) or (None,) * len(layers)

    @property
    def maximum_length(self) -> int:
        """The longest text in tokens, with special tokens."""
        return self.config.maximum_positions

    def forward(
        self, tokens: Tokens, segments: Tensor | None = None, *, at: Tensor | None = None, readings: int = 1
    ) -> Encoded:
        """Vectors and logits of a batch of texts.

        Arguments:
            tokens: (B, L), special tokens included.
            segments: (B, L) int64, the text of each token, from 0; None = all 0.
            at: (M,) int64, for heads over the vocabulary: the positions, as indices into B x L, at which to compute logits;
                None = all.
            readings: the number of consecutive rows that are the same example; their pooled vectors are added.

        Raises:
            InputError: if a text is longer than the model's positions.
        """
        plain = all(type(layer) is EncoderBlock and lays_texts_out(layer.attention) for layer in self.layers)
        if plain and not any(self.windows) and trains_without_padding(self, tokens):
            x = self._without_padding(tokens, segments)
        else:
            x, masks, positions = self._embedded(tokens, segments)
            for layer, mask in zip(self.layers, masks, strict=True):
                x = layer(x, mask, positions=positions)
        if self.norm is not None:
            x = self.norm(x)
        pooled = None if self.pooler is None else added(self.pooler(x, tokens.valid), readings)
        found: HeadLogits = self.head(x, pooled, at)
        return Encoded(x, pooled, found.logits, found.next_sentence)

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        """The vectors after the embedding and after each layer: layers + 1 tensors (B, L, D).

        A norm after the last block is part of the last layer.

        Raises:
            InputError: if a text is longer than the model's positions.
        """
        x, masks, positions = self._embedded(tokens, segments)
        states = [x]
        for layer, mask in zip(self.layers, masks, strict=True):
            states.append(layer(states[-1], mask, positions=positions))
        if self.norm is not None:
            states[-1] = self.norm(states[-1])
        return tuple(states)

    def _without_padding(self, tokens: Tokens, segments: Tensor | None) -> Tensor:
        """The last block's vectors (B, L, D), zeros at padding, for which nothing is computed."""
        check_length(tokens.ids.shape[1], self.config.maximum_positions, "text")
        rows, (ids, places) = Rows.of(tokens.valid), in_row(tokens)
        own = None if segments is None else segments[tokens.valid].unsqueeze(0)
        x, mask, positions = self.embedding(ids, places, own), Unpadded.over(rows, rows), positions_in_row(places)
        for layer in self.layers:
            x = layer(x, mask, positions=positions)
        return rows.laid_out(x.squeeze(0))

    def _embedded(self, tokens: Tokens, segments: Tensor | None) -> tuple[Tensor, list[Mask | None], Positions]:
        batch, length = tokens.ids.shape
        check_length(length, self.config.maximum_positions, "text")
        places = positions_of(tokens.valid)
        x = self.embedding(tokens.ids, places, segments)
        padding = Padding(tokens.valid)
        mask: Mask = padding.materialize(batch=batch, queries=length, keys=length, device=x.device)
        masks: dict[int | None, Mask | None] = {None: mask}
        for window in dict.fromkeys(self.windows):
            # An exported model must support all lengths.
            if window is None or (window >= length - 1 and not torch.compiler.is_exporting()):
                masks[window] = mask
                continue
            # With padding between two tokens, distances in columns and in positions differ.
            somewhere = tokens.padding_side == "somewhere"
            near = padding & (Near(places, window) if somewhere else Window(before=window, after=window))
            masks[window] = near.materialize(batch=batch, queries=length, keys=length, device=x.device)
        # With padding only on the right, positions are the columns, which makes some mechanisms faster.
        return (
            x,
            [masks[window] for window in self.windows],
            Positions.of_text(length, places if tokens.padding_side == "somewhere" else None, device=x.device),
        )


class SequenceClassifier(Protocol):
    """A model that predicts a class, or a number, of one or two texts: an encoder, or a decoder with a head.

    The head reads the vector of the first token in an encoder (`[CLS]`), and of the last token in a decoder, the only one that
    has seen the whole text.
    """

    @property
    def config(self) -> EncoderConfig:
        """The sizes and the head."""
        ...

    @property
    def maximum_length(self) -> int:
        """The longest input in tokens, with special tokens."""
        ...

    @property
    def length_setting(self) -> str:
        """The recipe setting that raises this limit, for messages."""
        ...

    @property
    def tells_next(self) -> bool:
        """Whether it can also predict next tokens, which an auxiliary loss needs."""
        ...

    def __call__(
        self, tokens: Tokens, segments: Tensor | None = None, *, at: Tensor | None = None, readings: int = 1
    ) -> Encoded:
        """Vectors and logits of a batch of texts.

        Arguments:
            tokens: (B x readings, L), special tokens included.
            segments: (B x readings, L) int64, the text of each token, for models with segment embeddings.
            at: (M,) int64, positions, as indices into rows x L, at which to compute logits over the vocabulary too.
            readings: the number of consecutive rows that are one example; the head reads the sum of their vectors.
        """
        ...
