"""Numbers over the steps of a run that are drawn next to its attention on one axis of time, such as what a memory was given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Track:
    """N numbers for each of T steps: a row of the maps' queries is a step.

    Arguments:
        name: what the numbers are.
        values: (T, N), kept as float32, read-only; NaN where there is none.
        unit: what each of the N is, in the singular, such as `slot`.
        first: the number of the first of them, 0 or 1.
        signed: whether they may be negative: then the colours of both signs are drawn, also where none is.
        border: a step behind which a line is drawn, from 0; none where None.
        example: which of the view's examples it belongs to.

    Raises:
        InputError: values that are no such numbers.

    >>> Track(name="read", values=[[0.5, -1.0], [0.0, 2.0]], unit="entry", signed=True).largest
    2.0
    """

    name: str
    values: np.ndarray
    unit: str
    first: int = 0
    signed: bool = False
    border: int | None = None
    example: int = 0

    def __post_init__(self) -> None:
        """Convert the numbers and check that there are some."""
        try:
            values = np.array(self.values, dtype=np.float32)
        except (TypeError, ValueError):
            values = np.empty(0)
        if values.ndim != 2 or not values.size or np.isinf(values).any():
            raise InputError(f"track {self.name!r}: values are not finite numbers of shape (steps, numbers)")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    def __eq__(self, other: object) -> bool:
        """Equal in every field, the numbers bit for bit."""
        if not isinstance(other, Track):
            return NotImplemented
        return self._about() == other._about() and self.values.tobytes() == other.values.tobytes()

    __hash__ = None  # type: ignore[assignment]  # it holds an array

    @property
    def largest(self) -> float:
        """The size of the largest number; 0 where there is none."""
        sizes = np.abs(self.values[~np.isnan(self.values)])
        return float(sizes.max()) if sizes.size else 0.0

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data; a number that is not there is None."""
        numbers = [[None if np.isnan(x) else float(f"{x:.9g}") for x in row] for row in self.values]
        return {**self._about(), "values": numbers}

    def _about(self) -> dict[str, Any]:
        names = ("name", "unit", "first", "signed", "border", "example")
        return {**{name: getattr(self, name) for name in names}, "values": self.values.shape}


TRACK_FIELDS = ("name", "unit", "first", "signed", "border", "example", "values")
"""Of `Track.to_json`."""
