"""Attention that a module computes by itself: a softmax whose result is multiplied into something."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SOFTMAX = frozenset({F.softmax, torch.softmax, Tensor.softmax})
CARRYING = frozenset(
    {
        F.dropout,
        torch.dropout,
        Tensor.to,
        Tensor.type_as,
        Tensor.type,
        Tensor.float,
        Tensor.half,
        Tensor.bfloat16,
        Tensor.contiguous,
        Tensor.view,
        Tensor.reshape,
        torch.reshape,
        Tensor.flatten,
        Tensor.unflatten,
        Tensor.expand,
        Tensor.squeeze,
        Tensor.unsqueeze,
        Tensor.nan_to_num,
        torch.nan_to_num,
    }
)
"""What stands between the softmax and the product, and changes nothing that is to be seen: weights are shown before dropout."""
PRODUCTS = frozenset(
    {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.baddbmm, torch.einsum}
)


class Softmaxes:
    """Remembers softmaxes over the last axis until they are multiplied into something, which makes them attention weights."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}

    def made(self, arguments: tuple[Any, ...], named: dict[str, Any], output: Tensor) -> None:
        """A softmax gave `output`."""
        axis = named.get("dim", arguments[1] if len(arguments) > 1 else None)
        if isinstance(axis, int) and output.dim() >= 2 and axis in (-1, output.dim() - 1):
            self._wait(output, output)

    def before_dropout(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Dropout is about to be applied; where it works in place, what it is applied to is copied first."""
        in_place = named.get("inplace", arguments[3] if len(arguments) > 3 else False)
        training = named.get("training", arguments[2] if len(arguments) > 2 else True)
        given = named.get("input", arguments[0] if arguments else None)
        origin = self._origin(given)
        if in_place and training and origin is not None and isinstance(given, Tensor):
            self._wait(given, origin.clone())

    def carried(self, given: Any, output: Any) -> None:
        """What may be a softmax became `output`, which stands for it from now on."""
        origin = self._origin(given)
        if origin is not None and isinstance(output, Tensor) and output is not given:
            self._wait(output, origin)

    def multiplied(self, operands: Iterable[Any]) -> Tensor | None:
        """The softmax among the operands of a product; None where there is none."""
        for operand in operands:
            for one in operand if isinstance(operand, list | tuple) else (operand,):
                origin = self._origin(one)
                if origin is not None:
                    return origin
        return None

    def clear(self) -> None:
        """Forget all."""
        self._waiting.clear()

    def _wait(self, tensor: Tensor, origin: Tensor) -> None:
        place = id(tensor)
        waiting = self._waiting
        # The callback frees the origin, and the number, which another tensor may get.
        waiting[place] = (weakref.ref(tensor, lambda _: waiting.pop(place, None)), origin.detach())

    def _origin(self, tensor: Any) -> Tensor | None:
        if not isinstance(tensor, Tensor):
            return None
        reference, origin = self._waiting.get(id(tensor), (None, None))
        return origin if reference is not None and reference() is tensor else None
