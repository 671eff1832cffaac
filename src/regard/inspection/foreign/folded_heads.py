"""Heads that a module folds into batch rows before it attends."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.inspection.foreign.laid_out import Alive
from regard.inspection.foreign.moving import moved


class Folds:
    """Remembers in which tensors (B*H, S, E) heads were folded into rows, and how many there are of each."""

    def __init__(self) -> None:
        self._known = Alive()

    def ran(self, func: Any, arguments: tuple[Any, ...], output: Any) -> None:
        """A function gave `output`."""
        name = getattr(func, "__name__", "")
        if name in ("view", "reshape", "flatten") and isinstance(output, Tensor) and output.dim() == 3:
            given = arguments[0] if arguments else None
            if isinstance(given, Tensor) and given is not output:
                found = _folded(given, output)
                if found is not None:
                    self._known[output] = found
        elif self._known and name in ("transpose", "contiguous", "mul", "div", "to", "permute", "clone", "type_as"):
            known = self._known[arguments[0]] if arguments else None
            if known is not None and isinstance(output, Tensor) and output.dim() == 3 and output is not arguments[0]:
                axis, lead, heads_first = known
                if output.shape != arguments[0].shape or name in ("transpose", "permute"):
                    where = moved(func, arguments, {}, arguments[0], 1)
                    axes = [] if where is None else where[0][0]
                    axis = axes.index(axis - 3) if axis - 3 in axes else None
                if axis is not None:
                    self._known[output] = (axis, lead, heads_first)

    def of(self, *tensors: Any) -> tuple[tuple[int, int], bool] | None:
        """(B, H), and whether the rows go by heads first, of the first of these whose rows are heads; None where none is."""
        for tensor in tensors:
            known = self._known[tensor]
            if known is not None and known[0] == 0:
                return known[1], known[2]
        return None

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()


def _folded(given: Tensor, output: Tensor) -> tuple[int, tuple[int, int], bool] | None:
    before, after = tuple(given.shape), tuple(output.shape)
    if len(before) == 4:
        for axis in (0, 1):
            if (*before[:axis], before[axis] * before[axis + 1], *before[axis + 2 :]) == after:
                # Heads are cut from the width, so they lie closer together in memory than rows do.
                heads_first = given.stride(axis) < given.stride(axis + 1)
                first, second = before[axis : axis + 2]
                return axis, (second, first) if heads_first else (first, second), heads_first
    if len(before) == 3 and before[0] == after[0] and before[2] > after[2] and before[2] % after[2] == 0:
        heads = before[2] // after[2]
        if after[1] == before[1] * heads:
            return 1, (before[1], heads), False
    return None
