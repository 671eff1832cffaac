"""How far a training is, told to whoever wants to show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """What is being done, and how much of it is done.

    Arguments:
        stage: such as `epoch 2 of 5`.
        done, total: in `unit`; the total is None where nobody knows it yet.
        unit: what is counted, such as `words`.
    """

    stage: str
    done: int
    total: int | None
    unit: str


Report = Callable[[Progress], None]
"""Is called between pieces of work, and must be quick."""


def quiet(progress: Progress) -> None:
    """Tells nobody."""
