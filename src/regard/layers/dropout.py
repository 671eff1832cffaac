"""Dropout, with cheaper random numbers on processors."""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.kernels import dropped


class Dropout(nn.Module):
    """Sets entries to zero with probability p in training and divides the others by 1 - p (Srivastava et al. 2014).

    On a processor with cheaper random numbers than PyTorch's, see `regard.attention.kernels.dropped`.

    Arguments:
        p: in [0, 1).

    >>> import torch
    >>> Dropout(0.5).eval()(torch.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise ValueError(f"p is {p}; it must lie in [0, 1)")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """The same shape and dtype."""
        if not self.training or self.p == 0.0:
            return x
        return dropped(x, self.p)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"
