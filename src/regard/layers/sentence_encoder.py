"""A model that makes one vector of each text, and what it says of one text, or of two, by their vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.blocks import Dropout
from regard.layers.encoder import Encoded, EncoderConfig, HeadLogits, added
from regard.layers.tokens import Tokens, in_order, put_back, reading_order

VectorHead = Literal["none", "sequence", "choice"]
"""What a model that makes vectors can tell: nothing, a class or a number, how well a text answers."""

LONGEST = 1 << 16
"""Tokens of the longest text that a model without positions is given: what a store of texts holds."""


class SentenceEncoderConfig(EncoderConfig, Protocol):
    """What the tasks need to know of such a model."""

    @property
    def texts(self) -> int:
        """How many texts its head reads: 1, or 2 whose vectors are compared."""
        ...


class SentenceVectors(NamedTuple):
    """What a model makes of texts that are alone.

    Arguments:
        hidden: (B, L, H), a vector of each token; what is at padding means nothing.
        vector: (B, D), the vector of each text.
    """

    hidden: Tensor
    vector: Tensor


class SentenceEncoderModel(nn.Module, ABC):
    """A model that reads each text by itself and makes one vector of it: a sentence encoder.

        one text:    logits = head(u)
        two texts:   logits = head([u ; v ; |u - v| ; u * v])        (Conneau et al. 2017, section 3.1)

    The two texts of a pair never see each other: v is what the second would have as a text alone. So what was learned on
    pairs is a vector of one text.

    Arguments:
        config: its sizes.
        head: from the vector of one text, or what `compared` makes of two, to logits; `layers.encoder.NoHead` for none.
    """

    length_setting: str = "model.maximum_positions"
    tells_next: bool = False

    def __init__(self, config: SentenceEncoderConfig, head: nn.Module) -> None:
        super().__init__()
        self.config = config
        self.head = head

    @property
    def maximum_length(self) -> int:
        """The most tokens a text can have, special ones included."""
        return self.config.maximum_positions

    @property
    @abstractmethod
    def layers(self) -> Sequence[nn.Module]:
        """What the vectors of tokens go through, layer by layer."""

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        """Of the vectors of tokens that `hidden_states` gives, one more than there are layers."""

    @abstractmethod
    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        """The embedded tokens and what each layer makes of them, (B, L, H) each, of texts that are alone.

        Arguments:
            tokens: (B, L), padding on either side.
            segments: not looked at.
        """

    @abstractmethod
    def vector(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        """The last layer's vectors of tokens (B, L, H) to those of their texts (B, D)."""

    def read(self, tokens: Tokens) -> SentenceVectors:
        """Texts that are alone: the vectors of their tokens, and their own."""
        hidden = self.hidden_states(tokens)[-1]
        return SentenceVectors(hidden, self.vector(hidden, tokens))

    def forward(
        self, tokens: Tokens, segments: Tensor | None = None, *, at: Tensor | None = None, readings: int = 1
    ) -> Encoded:
        """Vectors and logits of a batch of texts, or of pairs of texts.

        Arguments:
            tokens: (B x readings, L), special tokens included; padding may be on either side.
            segments: (B x readings, L) int64, 1 from the second text on, where the head reads two; without them each row is
                a text alone, and such a head says nothing.
            at: not looked at: there is no head over the vocabulary.
            readings: how many rows, one after another, are one example; what the head reads is the sum of their vectors.

        Returns:
            `hidden` (B x readings, L, H), `pooled` (B, D), of pairs (B, 4D), and `logits` (B, outputs) where there is a head.
        """
        del at
        pairs = segments if self.config.texts == 2 else None
        hidden, vector = self.read(tokens) if pairs is None else self._pair(tokens, pairs)
        pooled = added(vector, readings)
        speaks = self.config.texts == 1 or pairs is not None
        found: HeadLogits = self.head(hidden, pooled, None) if speaks else HeadLogits()
        return Encoded(hidden, pooled, found.logits, None)

    def _pair(self, tokens: Tokens, segments: Tensor) -> SentenceVectors:
        """Both texts of each row, read one next to the other in one batch of twice as many."""
        apart = [_text(tokens, segments, number) for number in (0, 1)]
        longest = max(each.ids.shape[1] for each, _ in apart)
        found = self.read(
            Tokens(
                torch.cat([_widened(each.ids, longest) for each, _ in apart]),
                torch.cat([_widened(each.valid, longest) for each, _ in apart]),
                "right",
            )
        )
        length = tokens.ids.shape[1]
        first, second = (
            put_back(F.pad(hidden, (0, 0, 0, max(0, length - longest)))[:, :length], order)
            for hidden, (_, order) in zip(found.hidden.chunk(2), apart, strict=True)
        )
        hidden = torch.where((segments > 0).unsqueeze(-1), second, first)
        return SentenceVectors(hidden, compared(*found.vector.chunk(2)))


def compared(first: Tensor, second: Tensor) -> Tensor:
    """The features of two texts, from their vectors u and v, (B, D) each: [u ; v ; |u - v| ; u * v], (B, 4D).

    >>> compared(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 1.0]])).tolist()
    [[1.0, 2.0, 3.0, 1.0, 2.0, 1.0, 3.0, 2.0]]
    """
    return torch.cat([first, second, (first - second).abs(), first * second], dim=-1)


def _text(tokens: Tokens, segments: Tensor, number: int) -> tuple[Tokens, Tensor | None]:
    """One text of each row as if it was alone, and the order in which its tokens came out of the row.

    The row's first token, which starts its first text, starts the second one too.
    """
    first = torch.zeros_like(tokens.valid).scatter_(1, tokens.valid.long().argmax(dim=1, keepdim=True), True)
    own = tokens.valid & ((segments == number) | first)
    order = reading_order(own)
    longest = max(1, int(own.sum(dim=1).max())) if len(own) else 1
    return Tokens(in_order(tokens.ids, order)[:, :longest], in_order(own, order)[:, :longest], "right"), order


def _widened(x: Tensor, width: int) -> Tensor:
    """(B, L) with padding, zeros, up to `width` columns."""
    return F.pad(x, (0, width - x.shape[1]))


class LayeredHead(nn.Module):
    """Logits of a vector by a net with one hidden layer, or, with a hidden width of 0, by a linear map.

        logits = W2 tanh(W1 x + b1) + b2

    Arguments:
        width: of x.
        hidden_width: of the hidden layer; 0 for none.
        outputs: how many numbers.
        dropout: probability of dropping an entry of x, and of the hidden layer, in training.
    """

    def __init__(self, width: int, hidden_width: int, outputs: int, *, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.inner = nn.Linear(width, hidden_width) if hidden_width else None
        self.output = nn.Linear(hidden_width or width, outputs)

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Pooled (B, width) to (B, outputs)."""
        del hidden, at
        if pooled is None:
            raise RuntimeError("this head reads the vector of a text and the model has none")
        x = self.dropout(pooled)
        if self.inner is not None:
            x = self.dropout(torch.tanh(self.inner(x)))
        return HeadLogits(self.output(x))
