"""A decoder with a head: GPT as it is fine-tuned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from regard.layers.blocks import CausalBlock
from regard.layers.causal import CausalConfig, CausalStack
from regard.layers.embeddings import PositionedEmbedding
from regard.layers.encoder import Encoded, EncoderConfig, added
from regard.layers.tokens import Tokens


class CausalClassifierConfig(CausalConfig, EncoderConfig, Protocol):
    """What the stack and the tasks need to know of the model."""


class CausalClassifier(CausalStack):
    """The stack with a head on the last token of a text, the only one that has seen all of it (Radford et al. 2018, section 3.2).

        p(class | x_1 .. x_m) = softmax(W h_m),   h the last block's vectors, x_m the token that asks for the class

    Beside the class it can tell the next token at any place, for the auxiliary loss.

    Arguments:
        config: its sizes.
        embedding: tokens to vectors.
        layers: the blocks.
        norm: after the last of them; `nn.Identity()` for none.
        head: what it tells of the text, such as `layers.heads.PooledHead`.
        bands: how many tokens back each block looks; as in `CausalStack`.
    """

    tells_next: bool = True

    def __init__(
        self,
        config: CausalClassifierConfig,
        *,
        embedding: PositionedEmbedding,
        layers: Sequence[CausalBlock],
        norm: nn.Module,
        head: nn.Module,
        bands: Sequence[int | None] = (),
    ) -> None:
        super().__init__(config, embedding=embedding, layers=layers, norm=norm, bands=bands)
        self.head = head

    def forward(
        self, tokens: Tokens, segments: Tensor | None = None, *, at: Tensor | None = None, readings: int = 1
    ) -> Encoded:
        """Vectors and logits of a batch of texts.

        Arguments:
            tokens: (B x readings, L), special tokens included; padding may stand on either side.
            segments: not looked at: a token between two texts parts them.
            at: (M,) int64, the places, as indices into rows x L, whose next token is to be told; None = none.
            readings: how many rows, one after another, are the same example read in different ways, such as a pair in both
                orders: the vectors at their ends are added (section 3.3).

        Returns:
            `logits` (B, outputs) and, where asked for, `next_token` (M, V).

        Raises:
            InputError: where a text is longer than the model has positions for.
        """
        del segments
        hidden, _ = self.hidden(tokens, self.start(len(tokens)))
        pooled = added(hidden[torch.arange(len(hidden), device=hidden.device), _last(tokens.valid)], readings)
        told = None if at is None else self.logits(hidden.flatten(0, 1).index_select(0, at))
        return Encoded(hidden, pooled, self.head(hidden, pooled, None).logits, None, told)


def _last(valid: Tensor) -> Tensor:
    """The place of the last real token of each row, (B, L) bool to (B,), on whichever side padding stands."""
    return valid.shape[1] - 1 - valid.flip(1).long().argmax(dim=1)
