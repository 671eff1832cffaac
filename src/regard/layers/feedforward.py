"""The position-wise feed-forward networks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.layers.dropout import Dropout


class FeedForward(nn.Module):
    """Two linear maps with a non-linearity between, at every position alike (Vaswani et al. 2017, section 3.3).

        FFN(x) = W2 f(W1 x + b1) + b2,   f = max(0, .) in the paper

    Arguments:
        width: D, of the model; also the width of the output.
        inner_width: F, between the two maps (2048 in the base model).
        activation: f.
        dropout: probability of dropping an inner entry in training (0 in the paper).
        bias: whether there are b1 and b2; T5 has none.
    """

    def __init__(
        self,
        width: int,
        inner_width: int,
        *,
        activation: Callable[[Tensor], Tensor],
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.inner = nn.Linear(width, inner_width, bias=bias)
        self.outer = nn.Linear(inner_width, width, bias=bias)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        return self.outer(self.dropout(self.activation(self.inner(x))))


class ChunkedFeedForward(FeedForward):
    """The same, so many positions at a time (Kitaev et al. 2020, section 3).

        FFN(X) = [FFN(X_1); ...; FFN(X_c)]

    The F numbers of a position stand in memory for one chunk alone, in the backward pass too, which computes them again.

    Arguments:
        chunk: positions at a time; 0 = all.

    The others are `FeedForward`'s.
    """

    def __init__(
        self,
        width: int,
        inner_width: int,
        *,
        activation: Callable[[Tensor], Tensor],
        dropout: float = 0.0,
        bias: bool = True,
        chunk: int,
    ) -> None:
        super().__init__(width, inner_width, activation=activation, dropout=dropout, bias=bias)
        self.chunk = chunk

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        whole = super().forward
        if not self.chunk or x.shape[1] <= self.chunk:
            return whole(x)
        parts = x.split(self.chunk, dim=1)
        if not torch.is_grad_enabled():
            return torch.cat([whole(part) for part in parts], dim=1)
        return torch.cat([checkpoint(whole, part, use_reentrant=False) for part in parts], dim=1)


class GatedFeedForward(nn.Module):
    """Two linear maps inside, one of which says how much of the other passes (Shazeer 2020, equation 6; T5 1.1).

        FFN(x) = W2 (f(Wg x) * W1 x),   f = GELU in GEGLU

    Arguments:
        width: D, of the model; also the width of the output.
        inner_width: F; three matrices of it weigh as much as two of 1.5 F.
        activation: f.
        dropout: probability of dropping an inner entry in training.
    """

    def __init__(
        self, width: int, inner_width: int, *, activation: Callable[[Tensor], Tensor], dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner_width, bias=False)
        self.inner = nn.Linear(width, inner_width, bias=False)
        self.outer = nn.Linear(inner_width, width, bias=False)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        return self.outer(self.dropout(self.activation(self.gate(x)) * self.inner(x)))
