"""Sentence encoders, which compute one vector for each text, and their heads on the vectors of one or two texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.blocks import Dropout
from regard.layers.encoder import Encoded, EncoderConfig, added
from regard.layers.heads import HeadLogits
from regard.layers.tokens import Tokens, in_order, put_back, reading_order

VectorHead = Literal["none", "sequence", "choice"]
"""The prediction of a sentence encoder's head: nothing, a class or a number, or the score of a choice."""

LONGEST = 1 << 16
"""The longest text, in tokens, for models without positions; the limit of a store of texts."""


class SentenceEncoderConfig(EncoderConfig, Protocol):
    """The settings of a sentence encoder that tasks need."""

    @property
    def texts(self) -> int:
        """The number of texts that the head reads: 1, or 2 whose vectors are compared."""
        ...


class SentenceVectors(NamedTuple):
    """The vectors of a batch of texts.

    Arguments:
        hidden: (B, L, H), the vector of each token; without meaning at padding.
        vector: (B, D), the vector of each text.
    """

    hidden: Tensor
    vector: Tensor


class SentenceEncoderModel(nn.Module, ABC):
    """The base class of sentence encoders, which read each text separately and compute one vector for it.

        one text:    logits = head(u)
        two texts:   logits = head([u ; v ; |u - v| ; u * v])        (Conneau et al. 2017, section 3.1)

    The two texts of a pair do not see each other: v is the same as the vector of the second text alone. So an encoder trained on
    pairs can be used for single texts.

    Arguments:
        config: its sizes.
        head: from the vector of one text, or the features of two (`compared`), to logits; `layers.heads.NoHead` for no head.
    """

    length_setting: str = "model.maximum_positions"
    tells_next: bool = False

    def __init__(self, config: SentenceEncoderConfig, head: nn.Module) -> None:
        super().__init__()
        self.config = config
        self.head = head

    @property
    def maximum_length(self) -> int:
        """The longest text in tokens, with special tokens."""
        return self.config.maximum_positions

    @property
    @abstractmethod
    def layers(self) -> Sequence[nn.Module]:
        """The layers that token vectors pass through, in order."""

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        """The width of each tensor that `hidden_states` returns: layers + 1 numbers."""

    @abstractmethod
    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        """The token vectors after the embedding and after each layer: layers + 1 tensors (B, L, H).

        Arguments:
            tokens: (B, L), one text per row; padding can be on either side.
            segments: ignored.
        """

    @abstractmethod
    def vector(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        """The vectors of texts, (B, D), from the last layer's token vectors, (B, L, H)."""

    def read(self, tokens: Tokens) -> SentenceVectors:
        """The vectors of tokens and of texts, one text per row."""
        hidden = self.hidden_states(tokens)[-1]
        return SentenceVectors(hidden, self.vector(hidden, tokens))

    def forward(
        self, tokens: Tokens, segments: Tensor | None = None, *, at: Tensor | None = None, readings: int = 1
    ) -> Encoded:
        """Vectors and logits of a batch of texts, or of pairs of texts.

        Arguments:
            tokens: (B x readings, L), special tokens included; padding can be on either side.
            segments: (B x readings, L) int64, for a head on two texts: 0 for the first text, 1 for the second. If None, each row
                is one text, and a head on two texts is not used.
            at: ignored, because there is no head over the vocabulary.
            readings: the number of consecutive rows that are one example; the head reads the sum of their vectors.

        Returns:
            `hidden` (B x readings, L, H), `pooled` (B, D), or (B, 4D) for pairs, and `logits` (B, outputs) if there is a head.
        """
        del at
        pairs = segments if self.config.texts == 2 else None
        hidden, vector = self.read(tokens) if pairs is None else self._pair(tokens, pairs)
        pooled = added(vector, readings)
        has_input = self.config.texts == 1 or pairs is not None
        found: HeadLogits = self.head(hidden, pooled, None) if has_input else HeadLogits()
        return Encoded(hidden, pooled, found.logits, None)

    def _pair(self, tokens: Tokens, segments: Tensor) -> SentenceVectors:
        """The vectors of both texts of each row, which are read as one batch of 2 B texts."""
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
    """One text of each row as a separate batch, and the order in which its tokens were taken from the row.

    The row's first token, the start token, is included in both texts.
    """
    first = torch.zeros_like(tokens.valid).scatter_(1, tokens.valid.long().argmax(dim=1, keepdim=True), True)
    own = tokens.valid & ((segments == number) | first)
    order = reading_order(own)
    longest = max(1, int(own.sum(dim=1).max())) if len(own) else 1
    return Tokens(in_order(tokens.ids, order)[:, :longest], in_order(own, order)[:, :longest], "right"), order


def _widened(x: Tensor, width: int) -> Tensor:
    """(B, L) padded with zeros on the right to (B, width)."""
    return F.pad(x, (0, width - x.shape[1]))


class LayeredHead(nn.Module):
    """Logits of a vector by a network with one hidden layer, or by a linear map if the hidden width is 0.

        logits = W2 tanh(W1 x + b1) + b2

    Arguments:
        width: the width of x.
        hidden_width: the width of the hidden layer; 0 for no hidden layer.
        outputs: the number of outputs.
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
            raise RuntimeError("this head reads the vector of a text, and the model has none")
        x = self.dropout(pooled)
        if self.inner is not None:
            x = self.dropout(torch.tanh(self.inner(x)))
        return HeadLogits(self.output(x))
