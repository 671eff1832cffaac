"""Numbers in memory for `trial` and `trial_training`, by the standard library alone."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

GROUP, TILE = 32, 16


def small_number(output: int, place: int) -> int:
    """An integer from -7 to 7."""
    return (7 * output + 3 * place) % 15 - 7


def nearly(one: float, other: float) -> bool:
    """Whether two numbers are the same but for the rounding of float32."""
    return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5)


def dot(x: Sequence[float], y: Sequence[float]) -> float:
    """The sum of products."""
    return sum(one * other for one, other in zip(x, y, strict=True))


def floats(numbers: Sequence[float]) -> ctypes.Array:
    """Numbers in float32."""
    return (ctypes.c_float * len(numbers))(*numbers)


def bfloats(numbers: Sequence[float]) -> ctypes.Array:
    """Numbers that bfloat16 holds exactly, in bfloat16: the upper half of each float32."""
    words = (ctypes.c_uint32 * len(numbers)).from_buffer(floats(numbers))
    return (ctypes.c_uint16 * len(numbers))(*(word >> 16 for word in words))


def as_floats(numbers: ctypes.Array) -> list[float]:
    """Numbers in float32 or bfloat16."""
    if numbers._type_ is ctypes.c_float:
        return list(numbers)
    words = (ctypes.c_uint32 * len(numbers))(*(word << 16 for word in numbers))
    return list((ctypes.c_float * len(numbers)).from_buffer(words))


def address(array: ctypes.Array) -> int:
    """Where an array begins."""
    return ctypes.addressof(array)
