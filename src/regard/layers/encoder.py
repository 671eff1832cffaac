"""What an encoder of texts is asked, and the stack that BERT and its family share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from regard.attention import Mask, Padding, positions_of
from regard.attention.positions import check_length
from regard.layers.blocks import EncoderBlock
from regard.layers.dropout import Dropout
from regard.layers.heads import HeadKind, HeadLogits, Pooler
from regard.layers.tokens import Tokens


class Encoded(NamedTuple):
    """What an encoder makes of a batch of texts.

    Arguments:
        hidden: (B, L, D), the last layer's vector of each token; what stands at padding means nothing.
        pooled: (B, D), the vector of the whole text; None where the model has no pooler. Of several readings of an example one.
        logits, next_sentence: as `HeadLogits`.
        next_token: (M, V), of the token after each place asked for, from a decoder; None from others.
    """

    hidden: Tensor
    pooled: Tensor | None = None
    logits: Tensor | None = None
    next_sentence: Tensor | None = None
    next_token: Tensor | None = None


class EncoderConfig(Protocol):
    """What the tasks need to know of an encoder."""

    @property
    def vocabulary(self) -> int:
        """V, the number of tokens."""
        ...

    @property
    def width(self) -> int:
        """D, of the vectors."""
        ...

    @property
    def layers(self) -> int:
        """The number of blocks."""
        ...

    @property
    def segments(self) -> int:
        """How many segments the model tells apart; 0 where none."""
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
        """What the model tells of a text."""
        ...

    @property
    def outputs(self) -> int:
        """How many numbers the head gives."""
        ...


def added(pooled: Tensor, readings: int) -> Tensor:
    """The vectors of so many rows, one after another, summed: (B x readings, D) to (B, D)."""
    return pooled if readings == 1 else pooled.unflatten(0, (-1, readings)).sum(dim=1)


class TextEmbedding(nn.Module):
    """Token, position and segment vectors, summed and normalised (Devlin et al. 2019, figure 2).

        x = Dropout(LayerNorm(E[token] + P[position] + S[segment]))

    Arguments:
        tokens: E.
        positions: P, learned, not sinusoids.
        segments: S; None for a model that tells no segments apart. One that has a single vector for them tells none apart either.
        epsilon: added to the variance in the layer norm.
        dropout: probability of dropping an entry in training.
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: nn.Module,
        segments: nn.Embedding | None,
        *,
        epsilon: float,
        dropout: float,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.segments = segments
        self.norm = nn.LayerNorm(tokens.embedding_dim, eps=epsilon)
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        """(B, L) ids, positions and segments (all 0 where None) to (B, L, D)."""
        x = self.tokens(ids) + self.positions(positions)
        if self.segments is not None:
            told = segments is not None and self.segments.num_embeddings > 1
            x = x + self.segments(segments if told else torch.zeros_like(ids))
        return self.dropout(self.norm(x))


class TextEncoder(nn.Module):
    """Embedding, blocks that look both ways, and a head: BERT, and whatever differs from it in a part.

    Arguments:
        config: its sizes.
        embedding: tokens to vectors.
        layers: the blocks.
        pooler: the vector of a whole text; None for none.
        head: what it tells of the text, such as `layers.heads.MaskedHead`.
    """

    length_setting: str = "model.maximum_positions"
    tells_next: bool = False

    def __init__(
        self,
        config: EncoderConfig,
        *,
        embedding: TextEmbedding,
        layers: Sequence[EncoderBlock],
        pooler: Pooler | None,
        head: nn.Module,
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.pooler = pooler
        self.head = head

    @property
    def maximum_length(self) -> int:
        """The most tokens a text can have, special ones included."""
        return self.config.maximum_positions

    def forward(
        self, tokens: Tokens, segments: Tensor | None = None, *, at: Tensor | None = None, readings: int = 1
    ) -> Encoded:
        """Vectors and logits of a batch of texts.

        Arguments:
            tokens: (B, L), special tokens included.
            segments: (B, L) int64, which text each token is of, from 0; None = all of the first.
            at: (M,) int64, for heads over the vocabulary: the places, as indices into B x L, whose logits are wanted; None = all.
            readings: how many rows, one after another, are the same example read in different ways: their pooled vectors are
                added.

        Raises:
            InputError: where a text is longer than the model has positions for.
        """
        x, mask, places = self._embedded(tokens, segments)
        for layer in self.layers:
            x = layer(x, mask, places=places)
        pooled = None if self.pooler is None else added(self.pooler(x, tokens.valid), readings)
        told: HeadLogits = self.head(x, pooled, at)
        return Encoded(x, pooled, told.logits, told.next_sentence)

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        """The embedding's vectors and those of each layer, (B, L, D) each: one more than there are layers.

        Raises:
            InputError: where a text is longer than the model has positions for.
        """
        x, mask, places = self._embedded(tokens, segments)
        states = [x]
        for layer in self.layers:
            states.append(layer(states[-1], mask, places=places))
        return tuple(states)

    def _embedded(self, tokens: Tokens, segments: Tensor | None) -> tuple[Tensor, Mask | None, Tensor | None]:
        batch, length = tokens.ids.shape
        check_length(length, self.config.maximum_positions, "text")
        positions = positions_of(tokens.valid)
        x = self.embedding(tokens.ids, positions, segments)
        mask = Padding(tokens.valid).evaluated(batch=batch, queries=length, keys=length, device=x.device)
        return x, mask, positions if tokens.padded == "somewhere" else None
