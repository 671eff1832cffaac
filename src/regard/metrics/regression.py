"""How near predicted numbers are to the right ones; and bootstrap intervals of any score (Efron 1979)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.errors import InputError
from regard.metrics.classification import check_alike


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
    """The percentile interval of a score over examples sampled again with replacement.

    Arguments:
        values: one row for each example: its score, or whatever the statistic needs of it, such as gold and prediction.
        statistic: from rows to the score; their mean unless given.
        level: how much of the bootstrap lies between the ends.
        resamples: how often the examples are sampled again.
        seed: of the sampling; the same seed gives the same interval.

    Raises:
        InputError: no values, a level outside (0, 1), or no resamples.

    >>> bootstrap_interval([0.0, 1.0, 1.0, 1.0], seed=1)
    Interval(value=0.75, low=0.25, high=1.0, level=0.95)
    """
    rows = np.asarray(values)
    if rows.ndim == 0 or not len(rows):
        raise InputError("there are no values to sample from; give at least one")
    if not 0.0 < level < 1.0:
        raise InputError(f"level is {level}; it must lie between 0 and 1, as 0.95")
    if resamples < 1:
        raise InputError(f"resamples is {resamples}; it must be 1 at least")
    draw = np.random.default_rng(seed)
    scores = [float(statistic(rows[draw.integers(len(rows), size=len(rows))])) for _ in range(resamples)]
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value=float(statistic(rows)), low=float(low), high=float(high), level=level)


Numbers = Sequence[float] | NDArray[np.floating]


@dataclass(frozen=True, kw_only=True, slots=True)
class RegressionScores:
    """What `regression_scores` found.

    Arguments:
        pearson, spearman: correlations in [-1, 1], nan where they are undefined.
        mean_squared_error, mean_absolute_error: of prediction minus gold.
        count: examples.
    """

    pearson: float
    spearman: float
    mean_squared_error: float
    mean_absolute_error: float
    count: int


def pearson(gold: Numbers, predicted: Numbers) -> float:
    """Pearson's correlation: x·y / sqrt(x·x y·y) of the two, each centred, as reported for STS-B.

    It is undefined, and nan, where all numbers of one side are the same or any is not finite; so it is in SciPy, which GLUE's own
    metric calls.

    Raises:
        InputError: fewer than two examples, or different numbers of examples.

    >>> pearson([1, 2, 3], [2, 4, 7])
    0.9933992677987828
    """
    left, right = _columns(gold, predicted)
    if not (np.isfinite(left).all() and np.isfinite(right).all()) or _constant(left) or _constant(right):
        return float("nan")
    left, right = _centred(left), _centred(right)
    return float(np.clip(left @ right / np.sqrt((left @ left) * (right @ right)), -1.0, 1.0))


def spearman(gold: Numbers, predicted: Numbers) -> float:
    """Spearman's correlation: Pearson's of the ranks, numbers alike having the mean of their ranks.

    Undefined, and nan, where Pearson's is.

    Raises:
        InputError: as `pearson`.

    >>> spearman([1, 2, 3], [2, 4, 70])
    1.0
    """
    left, right = _columns(gold, predicted)
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        return float("nan")
    return pearson(ranks(left), ranks(right))


def regression_scores(gold: Numbers, predicted: Numbers) -> RegressionScores:
    """All metrics of predicted numbers.

    Raises:
        InputError: as `pearson`.

    >>> regression_scores([1, 2, 3], [1, 2, 5]).mean_squared_error
    1.3333333333333333
    """
    left, right = _columns(gold, predicted)
    error = right - left
    return RegressionScores(
        pearson=pearson(left, right),
        spearman=spearman(left, right),
        mean_squared_error=float(np.mean(error**2)),
        mean_absolute_error=float(np.mean(np.abs(error))),
        count=len(left),
    )


def ranks(values: Numbers) -> NDArray[np.float64]:
    """The rank of each number, from 1; those alike have the mean of their ranks.

    >>> ranks([10.0, 30.0, 30.0, 20.0]).tolist()
    [1.0, 3.5, 3.5, 2.0]
    """
    _, group, sizes = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    return (last - (sizes - 1) / 2)[group]


def _columns(gold: Numbers, predicted: Numbers) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    left, right = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if left.ndim != 1 or right.ndim != 1:
        raise InputError(f"numbers of the shapes {left.shape} and {right.shape} are given; give two rows of numbers")
    check_alike(left, right)  # type: ignore[arg-type]
    if len(left) < 2:
        raise InputError("one example has no correlation; give two at least")
    return left, right


def _constant(values: NDArray[np.float64]) -> bool:
    return bool((values == values[0]).all())


def _centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """With a mean of zero, and all of them near one, so that squares neither overflow nor vanish."""
    values = _near_one(values)
    return _near_one(values - values.mean())


def _near_one(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divided by a power of two, which loses no digit, so that the largest is below 1 and not below 1/2."""
    return np.ldexp(values, -np.frexp(np.abs(values).max())[1])
