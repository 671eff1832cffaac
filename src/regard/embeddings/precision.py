"""In what numbers a prepared encoder computes."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from regard.errors import InputError, nearest

Precision = Literal["float32", "bfloat16", "int8"]
"""`int8` is weights of one byte, in float32 for everything between the matrices."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def dtype_of(precision: Precision) -> torch.dtype:
    """What is between the linear maps."""
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def check_precision(precision: str) -> Precision:
    """The precision of that name.

    Raises:
        InputError: where there is none, with the nearest.
    """
    for known in PRECISIONS:
        if precision == known:
            return known
    raise InputError(f"precision is {precision!r}; {nearest(precision, PRECISIONS)}")
