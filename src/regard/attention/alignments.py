"""Alignments: how scores become weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.attention.inputs import AttentionInputs


class Alignment(nn.Module, ABC):
    """Scores to weights.

    `distribution` declares whether the weights of a query that sees a key are non-negative and sum to one;
    `plain_softmax` whether they are exactly the softmax that PyTorch's fused kernel computes; `drawn` whether `draw` fills the
    record with random numbers.
    """

    distribution: bool = True
    plain_softmax: bool = False
    drawn: bool = False

    def draw(self, inputs: AttentionInputs, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        """What is random in the weights of these inputs, by name, to stand in their record; nothing is by default."""
        return {}

    @abstractmethod
    def forward(self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs) -> Tensor:
        """Scores (B, H, L, S) to weights (B, H, L, S).

        Arguments:
            scores: (B, H, L, S).
            visible: bool, broadcastable to (B, H, L, S), True = may attend; None = all.
            inputs: what the scores came from, for alignments that need positions or the record.
        """


class Soft(Alignment):
    """The softmax over the keys a query may see (Bahdanau et al. 2015, equation 6).

        weights_ij = exp(score_ij) / sum_k exp(score_ik),   k over the visible keys

    A query that may attend nowhere gets weights of exactly zero, and passes back a gradient of exactly zero.
    """

    plain_softmax = True

    def forward(self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs) -> Tensor:
        """Scores (B, H, L, S) to weights (B, H, L, S)."""
        if visible is None:
            return scores.softmax(dim=-1)
        # The lowest finite number instead of minus infinity: a row with nothing visible stays finite (uniform) here, in
        # the value and in the gradient, and the second fill makes it the zeros it has to be.
        lowest = torch.finfo(scores.dtype).min
        return scores.masked_fill(~visible, lowest).softmax(dim=-1).masked_fill(~visible, 0.0)
