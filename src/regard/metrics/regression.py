"""Metrics of predicted numbers: correlations and errors; and bootstrap intervals of any score (Efron 1979)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.errors import InputError
from regard.metrics.classification import check_alike


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A score and its bootstrap interval between two percentiles.

    Arguments:
        value: the score of the examples themselves.
        low, high: the ends.
        level: the fraction of resamples within, such as 0.95.
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
    """The percentile bootstrap interval of a score: examples are resampled with replacement.

    Arguments:
        values: one row per example: its score, or what the statistic needs, such as gold and prediction.
        statistic: from rows to the score; their mean by default.
        level: the fraction of resamples between the ends.
        resamples: their number.
        seed: of sampling; the same seed gives the same interval.

    Raises:
        InputError: without values, for a level outside (0, 1), and without resamples.

    >>> bootstrap_interval([0.0, 1.0, 1.0, 1.0], seed=1)
    Interval(value=0.75, low=0.25, high=1.0, level=0.95)
    """
    rows = np.asarray(values)
    if rows.ndim == 0 or not len(rows):
        raise InputError("there are no values to sample from; give at least one")
    if not 0.0 < level < 1.0:
        raise InputError(f"level is {level}; give a number between 0 and 1, such as 0.95")
    if resamples < 1:
        raise InputError(f"resamples is {resamples}; give at least 1")
    draw = np.random.default_rng(seed)
    scores = [float(statistic(rows[draw.integers(len(rows), size=len(rows))])) for _ in range(resamples)]
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value=float(statistic(rows)), low=float(low), high=float(high), level=level)


Numbers = Sequence[float] | NDArray[np.floating]


@dataclass(frozen=True, kw_only=True, slots=True)
class RegressionScores:
    """The scores of `regression_scores`.

    Arguments:
        pearson, spearman: correlations in [-1, 1]; NaN where undefined.
        mean_squared_error, mean_absolute_error: of prediction minus gold.
        count: number of examples.
    """

    pearson: float
    spearman: float
    mean_squared_error: float
    mean_absolute_error: float
    count: int


def pearson(gold: Numbers, predicted: Numbers) -> float:
    """Pearson's correlation: x·y / sqrt(x·x y·y) of the centred numbers, as reported for STS-B.

    It is NaN where all numbers of one side are equal, or any is not finite, as in SciPy, which GLUE's metric uses.

    Raises:
        InputError: for fewer than two examples, and for different numbers of examples and predictions.

    >>> pearson([1, 2, 3], [2, 4, 7])
    0.9933992677987828
    """
    left, right = _columns(gold, predicted)
    if not (np.isfinite(left).all() and np.isfinite(right).all()) or _constant(left) or _constant(right):
        return float("nan")
    left, right = _centred(left), _centred(right)
    return float(np.clip(left @ right / np.sqrt((left @ left) * (right @ right)), -1.0, 1.0))


def spearman(gold: Numbers, predicted: Numbers) -> float:
    """Spearman's correlation: Pearson's correlation of the ranks; equal numbers have the mean of their ranks.

    NaN where Pearson's is undefined.

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
    """The rank of each number, from 1; equal numbers have the mean of their ranks.

    >>> ranks([10.0, 30.0, 30.0, 20.0]).tolist()
    [1.0, 3.5, 3.5, 2.0]
    """
    _, group, sizes = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    return (last - (sizes - 1) / 2)[group]


def _columns(gold: Numbers, predicted: Numbers) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    left, right = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if left.ndim != 1 or right.ndim != 1:
        raise InputError(
            f"numbers of the shapes {left.shape} and {right.shape} are given; give two one-dimensional sequences"
        )
    check_alike(left, right)  # type: ignore[arg-type]
    if len(left) < 2:
        raise InputError("one example has no correlation; give at least two")
    return left, right


def _constant(values: NDArray[np.float64]) -> bool:
    return bool((values == values[0]).all())


def _centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centred to a mean of zero, and scaled near one, so that squares neither overflow nor vanish."""
    values = _near_one(values)
    return _near_one(values - values.mean())


def _near_one(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divided by a power of two, which is exact, so that the largest magnitude is in [1/2, 1)."""
    return np.ldexp(values, -np.frexp(np.abs(values).max())[1])
