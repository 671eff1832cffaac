"""The order in which a padded batch is read: real tokens first, forwards or backwards, padding after them."""

from __future__ import annotations

import torch
from torch import Tensor


def reading_order(valid: Tensor, *, backwards: bool = False) -> Tensor | None:
    """For every row the places of its tokens in the order they are read; padding, on whichever side it stands, last.

    Only real tokens are turned round by `backwards`: reversing a padded row as it stands would put the padding in front.

    Arguments:
        valid: (B, S) bool, True = a real token.
        backwards: from the last real token to the first.

    Returns:
        (B, S) int64, a permutation of each row's places; None where the batch stands in that order already.

    >>> valid = torch.tensor([[True, True, True], [False, True, True]])
    >>> reading_order(valid, backwards=True).tolist()
    [[2, 1, 0], [2, 1, 0]]
    >>> reading_order(valid).tolist()
    [[0, 1, 2], [1, 2, 0]]
    """
    if not backwards and bool((valid[:, 1:] <= valid[:, :-1]).all()):
        return None
    length = valid.shape[1]
    place = torch.arange(length, device=valid.device)
    return torch.where(valid, length - 1 - place if backwards else place, length + place).argsort(dim=1)


def in_order(x: Tensor, order: Tensor | None) -> Tensor:
    """What stands at the places of `order` (B, S), in that order: x (B, S, ...) to the same shape; x itself where it is None."""
    if order is None:
        return x
    rows = torch.arange(len(order), device=order.device).unsqueeze(1) * order.shape[1]
    # One index_select on flat rows: its backward pass is twice as fast as that of `gather`.
    return x.flatten(0, 1).index_select(0, (rows + order).flatten()).view(x.shape)


def put_back(x: Tensor, order: Tensor | None) -> Tensor:
    """The inverse of `in_order`."""
    return x if order is None else in_order(x, order.argsort(dim=1))
