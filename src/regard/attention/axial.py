"""Axial positions: a long text laid out as a table, one vector for each row and one for each column."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class AxialPositions(nn.Module):
    """The vectors of a position's row and column, one after the other (the released code of Kitaev et al. 2020).

        P[p] = [ R[floor(p / n2)] ; C[p mod n2] ]

    n1 n2 positions cost n1 D1 + n2 D2 numbers.

    Arguments:
        shape: (n1, n2).
        widths: (D1, D2), the width of the model together.

    >>> positions = AxialPositions((3, 4), (2, 6))
    >>> positions(torch.tensor([[0, 5, 11]])).shape, sum(part.numel() for part in positions.parameters())
    (torch.Size([1, 3, 8]), 30)
    """

    def __init__(self, shape: Sequence[int], widths: Sequence[int]) -> None:
        super().__init__()
        (self.rows, self.columns), (wide, other) = shape, widths
        self.maximum = math.prod(shape)
        self.row = nn.Parameter(torch.empty(self.rows, wide))
        self.column = nn.Parameter(torch.empty(self.columns, other))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw from a standard normal distribution, as the released code does."""
        nn.init.normal_(self.row)
        nn.init.normal_(self.column)

    def forward(self, positions: Tensor) -> Tensor:
        """(B, L) integers below `maximum` to (B, L, D)."""
        return torch.cat((self.row[positions // self.columns], self.column[positions % self.columns]), dim=-1)
