"""How far a matrix is from one whose rows are all the same, and with that from rank one (Dong et al. 2021, section 2)."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import InputError


def composite_norm(x: Tensor) -> Tensor:
    """||X||_{1,inf} = sqrt(||X||_1 ||X||_inf), the root of the largest column sum times the largest row sum.

    The paper's norm, as its authors' code has it; sums are of absolute values. Not a norm in the strict sense: the triangle
    inequality does not hold for it.

    Arguments:
        x: (..., L, D), a matrix for each of the leading axes.

    Returns:
        (...) float64.

    >>> composite_norm(torch.tensor([[3.0, 0.0], [0.0, -4.0]])).item()
    4.0
    """
    sizes = _matrix(x).abs()
    return (sizes.sum(dim=-2).amax(dim=-1) * sizes.sum(dim=-1).amax(dim=-1)).sqrt()


def row_residual(x: Tensor) -> Tensor:
    """res(X) = X - 1 x^T: what is left of rows when the same row x is taken from all of them.

    Of two rows x, the mean of all rows and the median of each column, the one is taken that leaves less in `composite_norm`. No
    formula gives the x that leaves least; that would be at least half of what the mean leaves: by the triangle inequality the
    mean's largest row sum, and its largest column sum, are at most twice the smallest that any x leaves.

    Arguments:
        x: (..., L, D).

    Returns:
        (..., L, D) float64.

    >>> row_residual(torch.tensor([[1.0, 5.0], [3.0, 5.0]])).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    wide = _matrix(x)
    left = wide - wide.mean(dim=-2, keepdim=True), wide - wide.quantile(0.5, dim=-2, keepdim=True)
    nearer = composite_norm(left[1]) < composite_norm(left[0])
    return torch.where(nearer[..., None, None], left[1], left[0])


def relative_residual(x: Tensor) -> Tensor:
    """||res(X)||_{1,inf} / ||X||_{1,inf}: 0 where all rows are the same; 0 too for a matrix of zeros.

    Arguments:
        x: (..., L, D).

    Returns:
        (...) float64. It does not change when X is multiplied by a number.

    >>> relative_residual(torch.ones(3, 5)).item(), relative_residual(torch.eye(2)).item()
    (0.0, 1.0)
    """
    whole = composite_norm(x)
    return torch.where(whole > 0, composite_norm(row_residual(x)) / whole.clamp_min(torch.finfo(whole.dtype).tiny), 0.0)


def _matrix(x: Tensor) -> Tensor:
    if x.dim() < 2 or 0 in x.shape or not x.is_floating_point():
        raise InputError(
            f"a matrix is wanted, floats (..., rows, columns), and {x.dtype} {tuple(x.shape)} was given; give one"
        )
    return x.detach().double()
