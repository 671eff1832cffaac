"""Vectors of several layers combined, by a fixed choice (`LayerChoice`) or by a learned mixture (`ScalarMix`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import InputError

Combination = Literal["sum", "concatenate", "stack"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerChoice:
    """A choice of layers, and how their vectors are combined (Devlin et al. 2019, section 5.3 and table 7).

    Arguments:
        layers: 0 is the embedding, 1 the first block; from the end -1 is the last block, -2 the one before.
        combine: `sum`, weighted if there are weights; `concatenate`, in the given order; `stack`, on a further axis.
        weights: one for each layer, for a sum.

    Raises:
        InputError: if there is no layer, or weights do not fit.

    >>> LayerChoice(layers=(-2, -1)).combined([torch.ones(1, 2, 3), 2 * torch.ones(1, 2, 3)]).tolist()
    [[[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]]
    """

    layers: tuple[int, ...]
    combine: Combination = "sum"
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError("no layer is chosen; give at least one, such as -1, the last")
        if self.weights is None:
            return
        if self.combine != "sum":
            raise InputError(f"weights are for a sum of layers, not to {self.combine} them; leave them out")
        if len(self.weights) != len(self.layers):
            raise InputError(f"{len(self.weights)} weights are given for {len(self.layers)} layers; give one for each")

    def numbers(self, depth: int) -> tuple[int, ...]:
        """The numbers of the layers, counted from 0 (the embedding), for a model with this many blocks.

        Raises:
            InputError: for a layer that the model does not have.
        """
        for layer in self.layers:
            if not -depth - 1 <= layer <= depth:
                raise InputError(
                    f"layer {layer} does not exist in a model with {depth} layers; choose from 0, its embedding, to {depth}, or "
                    f"from -1, its last, to {-depth - 1}"
                )
        return tuple(layer if layer >= 0 else depth + 1 + layer for layer in self.layers)

    def combined(self, states: Sequence[Tensor]) -> Tensor:
        """The vectors (B, L, D) of the chosen layers to (B, L, D'), or with `stack` to (B, L, layers, D); float32."""
        exact = [state if state.dtype == torch.float64 else state.float() for state in states]
        if self.combine == "concatenate":
            return torch.cat(exact, dim=-1)
        if self.combine == "stack":
            return torch.stack(exact, dim=-2)
        if self.weights is not None:
            exact = [state * weight for state, weight in zip(exact, self.weights, strict=True)]
        return exact[0] if len(exact) == 1 else torch.stack(exact).sum(dim=0)


class ScalarMix(nn.Module):
    """A weighted mean of layers, scaled (Peters et al. 2018, section 3.2, equation 1).

        mix = gamma sum_k s_k h_k,   s = softmax(w)

    Before training all layers have the same weight, and gamma is 1.

    Arguments:
        layers: the number of layers, with the embedding.
        normalise: whether the vectors of each layer are first normalised to mean 0 and variance 1 over all tokens (same section).

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
            valid: (B, L) bool, True = a real token; mean and variance are over real tokens; None = all.
        """
        shares = self.weights.softmax(dim=0)
        if self.normalise:
            states = [_standardised(state, valid) for state in states]
        return self.gamma * sum(share * state for share, state in zip(shares, states, strict=True))

    def penalty(self) -> Tensor:
        """|w|^2, to add to the loss times a lambda of 0.001 to 1; it moves the mixture towards the mean of all layers."""
        return self.weights.square().sum()

    def choice(self) -> LayerChoice:
        """The learned mixture as a choice of layers with weights.

        Raises:
            ValueError: if layers are normalised, which a choice of layers cannot do.
        """
        if self.normalise:
            raise ValueError("a mix that normalises layers is not a weighted sum of them; call the mix itself")
        weights = (self.gamma * self.weights.softmax(dim=0)).tolist()
        return LayerChoice(layers=tuple(range(len(weights))), weights=tuple(weights))

    def extra_repr(self) -> str:
        """The number of layers."""
        return f"layers={len(self.weights)}" + (", normalise=True" if self.normalise else "")


def _standardised(state: Tensor, valid: Tensor | None) -> Tensor:
    counted = state if valid is None else state[valid]
    return (state - counted.mean()) / (counted.var(correction=0) + 1e-12).sqrt()
