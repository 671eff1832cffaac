"""How far a score might move with other examples: bootstrap intervals (Efron 1979)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A score and the interval between two percentiles of its bootstrap.

    Arguments:
        value: of the examples as they are.
        low, high: the ends.
        level: the share of resamples within, such as 0.95.
    """

    value: float
    low: float
    high: float
    level: float


def bootstrap_interval(
    values: ArrayLike | Sequence[float],
    statistic: Callable[[NDArray], float] = np.mean,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """The percentile interval of a score over examples drawn again with replacement.

    Arguments:
        values: one row for each example: its score, or whatever the statistic needs of it, such as gold and prediction.
        statistic: from rows to the score; their mean unless given.
        level: how much of the bootstrap lies between the ends.
        resamples: how often the examples are drawn anew.
        seed: of the drawing; the same seed gives the same interval.

    Raises:
        InputError: no values, a level outside (0, 1), or no resamples.

    >>> bootstrap_interval([0.0, 1.0, 1.0, 1.0], seed=1)
    Interval(value=0.75, low=0.25, high=1.0, level=0.95)
    """
    rows = np.asarray(values)
    if rows.ndim == 0 or not len(rows):
        raise InputError("there are no values to draw from; give one at least")
    if not 0.0 < level < 1.0:
        raise InputError(f"level is {level}; it must lie between 0 and 1, as 0.95")
    if resamples < 1:
        raise InputError(f"resamples is {resamples}; it must be 1 at least")
    draw = np.random.default_rng(seed)
    scores = [float(statistic(rows[draw.integers(len(rows), size=len(rows))])) for _ in range(resamples)]
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value=float(statistic(rows)), low=float(low), high=float(high), level=level)
