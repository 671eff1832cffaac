"""Candidates in order, and numbers that can be ordered at all."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.errors import InputError
from regard.layers.output import not_finite


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


BLOCK = 128


def leading_sums(values: Tensor, offsets: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`leading` of values[r, w, v] + offsets[r, w] over w and v together, without laying the sums out.

    The leading `count` sums lie in the leading `count` blocks of neighbours, blocks compared by their largest sums: whatever
    lies in a block behind those has `count` others before it. So one pass finds the largest of each block, and only a
    few blocks are ranked.

    Arguments:
        values: (R, W, V) float.
        offsets: (R, W) float.

    Returns:
        sums and indices w * V + v, each (R, count).

    >>> leading_sums(torch.tensor([[[1.0, 5.0], [4.0, 3.0]]]), torch.tensor([[0.0, 2.0]]), 3)
    (tensor([[6., 5., 5.]]), tensor([[2, 1, 3]]))
    """
    width, vocabulary = values.shape[1:]
    whole = vocabulary // BLOCK
    if whole * width <= count:
        return leading((values + offsets[..., None]).flatten(1), count)
    largest = values[..., : whole * BLOCK].unflatten(-1, (whole, BLOCK)).amax(dim=-1)
    if whole * BLOCK < vocabulary:
        largest = torch.cat((largest, values[..., whole * BLOCK :].amax(dim=-1, keepdim=True)), dim=-1)
    blocks = largest.shape[2]
    _, chosen = leading((largest + offsets[..., None]).flatten(1), count)
    # In the order of their indices, so that equal sums stay in that order.
    chosen = chosen.sort(dim=1).values
    row, block = chosen // blocks, chosen % blocks
    places = (block * BLOCK)[..., None] + torch.arange(BLOCK, device=values.device)
    beyond = places >= vocabulary
    index = (row * vocabulary)[..., None] + places.clamp_max(vocabulary - 1)
    sums = values.flatten(1).gather(1, index.flatten(1)) + offsets.gather(1, row).repeat_interleave(BLOCK, dim=1)
    top, order = leading(sums.masked_fill_(beyond.flatten(1), -torch.inf), count)
    return top, index.flatten(1).gather(1, order)


def check_choosable(best: Tensor, step: int) -> None:
    """Raise unless every row has a token to choose.

    Arguments:
        best: (N,), the largest value of each row.
        step: the number of the decoder's call, for the message.

    Raises:
        InputError: for NaN or plus infinity, which the model must have made, and where every token is
            forbidden.
    """
    found = best.tolist()
    if all(map(math.isfinite, found)):
        return
    if -math.inf in found:
        raise InputError(
            f"decoding: every token is forbidden at step {step}; lower minimum_length or forbid fewer tokens"
        )
    raise not_finite(f"step {step} of decoding")
