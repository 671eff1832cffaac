"""The one-sided permutation test of two groups: how many partitions differ as much as the one that is there."""

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

LARGEST_EXACT = 1 << 25
"""Sums of subsets that are held in memory twice: those of 25 words, with which partitions of 25 + 25 are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Permutation:
    """How probable a difference as large is under random partitions: a one-sided permutation test.

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

    @property
    def extent(self) -> str:
        """Whether p is exact or sampled, and of how many partitions.

        >>> Permutation(p=0.5, method="exact", partitions=924, samples=0, standard_error=0.0).extent
        'exact, all 924'
        """
        there = f"{self.partitions:,}" if self.partitions < 10**9 else f"{self.partitions:.1e}"
        return f"exact, all {there}" if self.method == "exact" else f"sampled, {self.samples:,} of {there}"

    @property
    def said(self) -> str:
        """The p-value as text, with its standard error where partitions were drawn."""
        return f"{self.p:.2g}" + (f" ± {self.standard_error:.1g}" if self.method == "sampled" else "")


def permutation_test(first: Numbers, second: Numbers, *, exact_below: int, samples: int, seed: int) -> Permutation:
    """How probable it is that a partition drawn at random differs as much, and the same way, as the one that is there.

    Partitions are of all numbers into two groups of the sizes that are there. With these sizes the difference of the means, and
    that of the sums, grow with the sum over X alone, so that is compared.

    Arguments:
        first, second: (m,) and (n,), of X and of Y.
        exact_below: count all partitions where there are at most so many, and their sums fit into memory; else `samples` are
            drawn with the seed, and p = (r + 1) / (samples + 1), of which r differ as much.

    >>> permutation_test(np.array([3.0, 2.0]), np.array([1.0, 0.0]), exact_below=100, samples=10, seed=0).p
    0.16666666666666666
    """
    values, size = np.concatenate([first, second]), len(first)
    partitions, fewer = comb(len(values), size), min(size, len(values) - size)
    slack = TOLERANCE * float(np.abs(values).sum())
    if partitions <= exact_below and _sums(len(values) - len(values) // 2, fewer) <= LARGEST_EXACT:
        # The smaller group says which the other is, and has fewer subsets: a large sum over X is a small one over Y.
        smaller = (values, float(first.sum())) if fewer == size else (-values, -float(second.sum()))
        p = count_at_least(smaller[0], fewer, smaller[1] - slack) / partitions
        return Permutation(p=p, method="exact", partitions=partitions, samples=0, standard_error=0.0)
    found = _drawn_at_least(values, size, float(first.sum()) - slack, samples, seed)
    p = (found + 1) / (samples + 1)
    error = sqrt(p * (1 - p) / (samples + 1))
    return Permutation(p=p, method="sampled", partitions=partitions, samples=samples, standard_error=error)


def count_at_least(values: Numbers, size: int, least: float) -> int:
    """How many subsets of `size` numbers have a sum of at least `least`.

    Every subset is one of the first half of the numbers and one of the second, so that the sums of the subsets of either,
    sorted, tell all (Horowitz and Sahni 1974).

    >>> count_at_least(np.array([1.0, 2.0, 3.0, 4.0]), 2, 5.0)
    4
    """
    middle = len(values) // 2
    one, two = _subsets(values[:middle], size), _subsets(values[middle:], size)
    count = 0
    for taken in range(max(0, size - (len(values) - middle)), min(size, middle) + 1):
        left, right = np.sort(one[taken]), np.sort(two[size - taken])
        count += len(left) * len(right) - int(np.searchsorted(right, least - left, side="left").sum())
    return count


def _subsets(values: Numbers, most: int) -> list[Numbers]:
    """The sums of all subsets of at most so many numbers, by how many they have."""
    sums = [np.zeros(1), *(np.empty(0) for _ in values[:most])]
    for value in values:
        for taken in range(len(sums) - 1, 0, -1):
            sums[taken] = np.concatenate([sums[taken], sums[taken - 1] + value])
    return sums


def _sums(count: int, most: int) -> int:
    """How many subsets of `count` numbers have at most `most` of them."""
    return sum(comb(count, taken) for taken in range(min(count, most) + 1))


def _drawn_at_least(values: Numbers, size: int, least: float, samples: int, seed: int) -> int:
    draw = np.random.default_rng(seed)
    step = max(1, TOGETHER // len(values))
    count = 0
    for start in range(0, samples, step):
        keys = draw.random((min(step, samples - start), len(values)))
        chosen = np.argpartition(keys, size - 1, axis=1)[:, :size]
        count += int((values[chosen].sum(axis=1) >= least).sum())
    return count
