"""Where the axes of a tensor are after a view, and a function called again on another tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor


def kept_axis(given: Tensor, output: Tensor, axis: int | None) -> int | None:
    """Where an axis is after a view in which the axes behind it hold as many numbers as before."""
    if axis is None:
        return None
    size, behind = given.shape[axis], math.prod(given.shape[given.dim() + axis + 1 :])
    for place in range(-1, -output.dim() - 1, -1):
        if output.shape[place] == size and math.prod(output.shape[output.dim() + place + 1 :]) == behind:
            return place
    return None


def moved(
    func: Any, arguments: tuple[Any, ...], named: Mapping[str, Any], given: Tensor, count: int
) -> list[tuple[list[int | None], dict[int, int]]] | None:
    """For each output of a view: the axis of the input that each axis is, and where axes begin; None where it is no view.

    Read off the strides of the same view of a tensor without storage, all of whose strides differ.
    """
    if any(isinstance(one, Tensor) and one is not given for one in _indices(arguments[1:])):
        return None
    strides = [1]
    for size in reversed(given.shape[1:]):
        strides.insert(0, strides[0] * (size + 1))
    probe = torch.empty_strided(given.shape, strides, device="meta")
    try:
        outputs = replaced(func, arguments, named, given, probe)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None  # asks for numbers, which the probe has none of
    outputs = outputs if isinstance(outputs, list | tuple) else (outputs,)
    if len(outputs) != count:
        return None
    found = []
    for one in outputs:
        offset, starts = one.storage_offset(), {}
        for axis, stride in zip(range(-len(strides), 0), strides, strict=True):
            starts[axis], offset = divmod(offset, stride)
        axes = [
            # An axis of size 1 that was put in may stand as far apart as another.
            strides.index(stride) - len(strides)
            if stride in strides and (size > 1 or one.stride().count(stride) == 1)
            else None
            for stride, size in zip(one.stride(), one.shape, strict=True)
        ]
        found.append((axes, starts))
    return found


def _indices(arguments: Any) -> Iterator[Any]:
    for one in arguments:
        if isinstance(one, list | tuple):
            yield from _indices(one)
        else:
            yield one


def replaced(
    func: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any], given: Tensor, other: Tensor
) -> Any:
    """What a function gives of another tensor in the place of one of its arguments."""
    return func(
        *_exchanged(arguments, given, other), **{name: other if one is given else one for name, one in named.items()}
    )


def _exchanged(arguments: Any, given: Tensor, other: Tensor) -> list[Any]:
    return [
        other if one is given else _exchanged(one, given, other) if isinstance(one, list) else one for one in arguments
    ]
