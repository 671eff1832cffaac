"""Metrics of predicted numbers: Pearson's and Spearman's correlation, squared and absolute error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.metrics.classification import check_alike

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
