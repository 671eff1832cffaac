"""Some layers of a model, and how their vectors become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.errors import InputError

Combination = Literal["sum", "concatenate", "stack"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerChoice:
    """Some layers, and how their vectors become one (Devlin et al. 2019, section 5.3 and table 7).

    Arguments:
        layers: 0 is the embedding, 1 the first block; from the end -1 is the last block, -2 the one before.
        combine: `sum`, weighted where there are weights; `concatenate`, in the order given; `stack`, kept apart on an axis of
            their own.
        weights: one for each layer, for a sum.

    Raises:
        InputError: for no layer, or weights that do not fit.

    >>> LayerChoice(layers=(-2, -1)).combined([torch.ones(1, 2, 3), 2 * torch.ones(1, 2, 3)]).tolist()
    [[[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]]
    """

    layers: tuple[int, ...]
    combine: Combination = "sum"
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError("no layer is chosen; give one at least, such as -1, the last")
        if self.weights is None:
            return
        if self.combine != "sum":
            raise InputError(f"weights are for a sum of layers, not to {self.combine} them; leave them out")
        if len(self.weights) != len(self.layers):
            raise InputError(f"{len(self.weights)} weights are given for {len(self.layers)} layers; give one for each")

    def numbers(self, depth: int) -> tuple[int, ...]:
        """The layers counted from 0, the embedding, of a model with so many blocks.

        Raises:
            InputError: for a layer that it does not have.
        """
        for layer in self.layers:
            if not -depth - 1 <= layer <= depth:
                raise InputError(
                    f"layer {layer} is wanted of a model with {depth}; choose from 0, its embedding, to {depth}, or from -1, its "
                    f"last, to {-depth - 1}"
                )
        return tuple(layer if layer >= 0 else depth + 1 + layer for layer in self.layers)

    def combined(self, states: Sequence[Tensor]) -> Tensor:
        """Vectors (B, L, D) of each layer chosen to (B, L, D'), or to (B, L, layers, D) where they are stacked; in float32."""
        exact = [state if state.dtype == torch.float64 else state.float() for state in states]
        if self.combine == "concatenate":
            return torch.cat(exact, dim=-1)
        if self.combine == "stack":
            return torch.stack(exact, dim=-2)
        if self.weights is not None:
            exact = [state * weight for state, weight in zip(exact, self.weights, strict=True)]
        return exact[0] if len(exact) == 1 else torch.stack(exact).sum(dim=0)
