"""A mixture of layers that is learnt."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.layers.layer_choice import LayerChoice


class ScalarMix(nn.Module):
    """A weighted mean of layers, scaled (Peters et al. 2018, section 3.2, equation 1).

        mix = gamma sum_k s_k h_k,   s = softmax(w)

    All layers weigh the same, and gamma is 1, before anything is learnt.

    Arguments:
        layers: how many there are, the embedding among them.
        normalise: whether each layer's vectors are brought to mean 0 and variance 1 over all tokens first (the same section).

    >>> mix = ScalarMix(2)
    >>> mix([torch.zeros(1, 2, 3), torch.ones(1, 2, 3)]).unique().tolist()
    [0.5]
    """

    def __init__(self, layers: int, *, normalise: bool = False) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))
        self.normalise = normalise

    def forward(self, states: Sequence[Tensor], valid: Tensor | None = None) -> Tensor:
        """Vectors (B, L, D) of each layer to (B, L, D).

        Arguments:
            states: one for each layer.
            valid: (B, L) bool, True = a real token, which alone mean and variance are of; None = all are.
        """
        shares = self.weights.softmax(dim=0)
        if self.normalise:
            states = [_standardised(state, valid) for state in states]
        return self.gamma * sum(share * state for share, state in zip(shares, states, strict=True))

    def penalty(self) -> Tensor:
        """|w|^2: added to a task's loss, times a lambda of 0.001 to 1, it pulls the mix towards the mean of all layers."""
        return self.weights.square().sum()

    def choice(self) -> LayerChoice:
        """What was learnt, as a choice of layers with their weights.

        Raises:
            ValueError: where layers are normalised, which no choice of layers does.
        """
        if self.normalise:
            raise ValueError("a mix that normalises layers is no plain weighted sum of them; call the mix itself")
        weights = (self.gamma * self.weights.softmax(dim=0)).tolist()
        return LayerChoice(layers=tuple(range(len(weights))), weights=tuple(weights))

    def extra_repr(self) -> str:
        """How many layers."""
        return f"layers={len(self.weights)}" + (", normalise=True" if self.normalise else "")


def _standardised(state: Tensor, valid: Tensor | None) -> Tensor:
    counted = state if valid is None else state[valid]
    return (state - counted.mean()) / (counted.var(correction=0) + 1e-12).sqrt()
