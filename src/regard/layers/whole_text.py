"""What a model is asked that says something of whole texts, from whichever side it reads them."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from regard.layers.encoder import Encoded, EncoderConfig
from regard.layers.tokens import Tokens


class WholeTextReader(Protocol):
    """A model that tells a class, or a number, of one or two texts: an encoder, or a decoder with a head.

    The vector that the head reads is that of the first token in an encoder (`[CLS]`), and of the last in a decoder, which is the
    only one there that has seen all.
    """

    @property
    def config(self) -> EncoderConfig:
        """Its sizes, and what it tells."""
        ...

    @property
    def maximum_length(self) -> int:
        """The most tokens of one input, special ones included."""
        ...

    @property
    def length_setting(self) -> str:
        """What raises this limit in a recipe, for messages."""
        ...

    @property
    def tells_next(self) -> bool:
        """Whether it can be asked for next tokens too, which an auxiliary loss needs."""
        ...

    def __call__(
        self, tokens: Tokens, segments: Tensor | None = None, *, at: Tensor | None = None, readings: int = 1
    ) -> Encoded:
        """Vectors and logits of a batch of texts.

        Arguments:
            tokens: (B x readings, L), special tokens included.
            segments: (B x readings, L) int64, which text each token is of, for models that tell them apart.
            at: (M,) int64, places as indices into rows x L, whose logits over the vocabulary are wanted beside the head's.
            readings: how many rows, one after another, are one example; what the head reads is the sum of their vectors.
        """
        ...
