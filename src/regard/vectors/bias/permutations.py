"""The permutation test of two groups of equal size: how many partitions have a sum as large as the one that is there."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

TOLERANCE = 1e-12
"""Times the sum of all sizes: sums of the same numbers in another order are the same sum."""

TOGETHER = 1 << 20
"""Numbers drawn at once."""

LARGEST_EXACT = 10**15
"""Partitions; counting 25 + 25 words (1.3e14) holds the sums of 2^25 subsets in memory twice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Permutation:
    """How probable a sum as large is under random partitions.

    Arguments:
        p: one-sided, those alike counted; never 0.
        method: whether all partitions were counted, or some drawn.
        partitions: how many there are.
        samples: how many were drawn; 0 where all were counted.
        standard_error: of p where it was sampled, else 0.
    """

    p: float
    method: Literal["exact", "sampled"]
    partitions: int
    samples: int
    standard_error: float


def permutation_test(values: Numbers, *, exact_below: int, samples: int, seed: int) -> Permutation:
    """Whether the first half of the numbers has a larger sum than halves drawn at random have.

    Sum over X minus sum over Y grows with the sum over X alone, so that is compared.

    Arguments:
        values: (2n,): those of X, then those of Y.
        exact_below: count all partitions where there are at most so many; else `samples` are drawn with the seed, and
            p = (r + 1) / (samples + 1), of which r are as large.

    >>> permutation_test(np.array([3.0, 2.0, 1.0, 0.0]), exact_below=100, samples=10, seed=0).p
    0.16666666666666666
    """
    half = len(values) // 2
    partitions = comb(2 * half, half)
    least = float(values[:half].sum()) - TOLERANCE * float(np.abs(values).sum())
    if partitions <= min(exact_below, LARGEST_EXACT):
        p = count_at_least(values, half, least) / partitions
        return Permutation(p=p, method="exact", partitions=partitions, samples=0, standard_error=0.0)
    found = _drawn_at_least(values, half, least, samples, seed)
    p = (found + 1) / (samples + 1)
    error = sqrt(p * (1 - p) / (samples + 1))
    return Permutation(p=p, method="sampled", partitions=partitions, samples=samples, standard_error=error)


def count_at_least(values: Numbers, size: int, least: float) -> int:
    """How many subsets of `size` numbers have a sum of at least `least`.

    Every subset is one of the first half of the numbers and one of the second, so that the sums of 2^n of either, sorted, tell
    all (2n choose n) (Horowitz and Sahni 1974).

    >>> count_at_least(np.array([1.0, 2.0, 3.0, 4.0]), 2, 5.0)
    4
    """
    middle = len(values) // 2
    one, two = _subsets(values[:middle]), _subsets(values[middle:])
    count = 0
    for taken in range(max(0, size - (len(values) - middle)), min(size, middle) + 1):
        left, right = np.sort(one[taken]), np.sort(two[size - taken])
        count += len(left) * len(right) - int(np.searchsorted(right, least - left, side="left").sum())
    return count


def _subsets(values: Numbers) -> list[Numbers]:
    """The sums of all subsets, by how many numbers they have."""
    sums, sizes = np.zeros(1), np.zeros(1, dtype=np.uint8)
    for value in values:
        sums = np.concatenate([sums, sums + value])
        sizes = np.concatenate([sizes, sizes + 1])
    return [sums[sizes == size] for size in range(len(values) + 1)]


def _drawn_at_least(values: Numbers, half: int, least: float, samples: int, seed: int) -> int:
    draw = np.random.default_rng(seed)
    step = max(1, TOGETHER // len(values))
    count = 0
    for start in range(0, samples, step):
        keys = draw.random((min(step, samples - start), len(values)))
        chosen = np.argpartition(keys, half - 1, axis=1)[:, :half]
        count += int((values[chosen].sum(axis=1) >= least).sum())
    return count
