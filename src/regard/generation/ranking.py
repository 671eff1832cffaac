"""Candidates in order, and numbers that can be ordered at all."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import InputError


def leading(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest values of each row, falling, with their indices; of equals the lower index first.

    `topk` alone leaves ties open. Here ties inside the selection are put in order, and a row whose tie
    crosses the end of the selection, which is rare, is sorted in full. Ties at minus infinity stay open:
    nothing follows from them.

    Arguments:
        values: (R, W) float.
        count: where it is above W, the rest is minus infinity at index 0.

    Returns:
        values and indices, each (R, count).

    >>> leading(torch.tensor([[1.0, 2.0, 2.0, 2.0]]), 2)[1].tolist()
    [[1, 2]]
    """
    width = values.shape[1]
    top, index = values.topk(min(count + 1, width), dim=1)
    index, order = index.sort(dim=1)
    top, order = top.gather(1, order).sort(dim=1, descending=True, stable=True)
    index = index.gather(1, order)
    if width > count:
        crossing = (top[:, count] == top[:, count - 1]) & (top[:, count] > -torch.inf)
        top, index = top[:, :count], index[:, :count]
        if crossing.any():
            full, places = values[crossing].sort(dim=1, descending=True, stable=True)
            top, index = top.clone(), index.clone()
            top[crossing], index[crossing] = full[:, :count], places[:, :count]
    elif width < count:
        missing = (0, count - width)
        top = torch.nn.functional.pad(top, missing, value=-torch.inf)
        index = torch.nn.functional.pad(index, missing, value=0)
    return top, index


def check_choosable(best: Tensor, step: int) -> None:
    """Raise unless every row has a token to choose.

    Arguments:
        best: (N,), the largest value of each row.
        step: the number of the decoder's call, for the message.

    Raises:
        InputError: for NaN or plus infinity, which the model must have made, and where every token is
            forbidden.
    """
    if best.isfinite().all():
        return
    if (best == -torch.inf).any():
        raise InputError(
            f"decoding: every token is forbidden at step {step}; lower minimum_length or forbid fewer tokens"
        )
    raise InputError(
        f"decoding: the model's logits at step {step} are not finite; its weights hold NaN or "
        "infinity, or the precision overflows: check the checkpoint, or run in float32"
    )
