"""Maxout (Goodfellow et al. 2013), the output non-linearity of the first aligners."""

from __future__ import annotations

from torch import Tensor


def maxout(x: Tensor) -> Tensor:
    """The larger of each pair of neighbouring channels: (..., 2l) to (..., l) (Bahdanau et al. 2015, appendix A.1.2).

        t_i = max(t~_{2i-1}, t~_{2i})

    >>> import torch
    >>> maxout(torch.tensor([1.0, 5.0, -2.0, -3.0])).tolist()
    [5.0, -2.0]
    """
    return x.unflatten(-1, (-1, 2)).amax(dim=-1)
