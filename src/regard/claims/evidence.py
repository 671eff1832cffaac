"""Statistics of a contrast over paired seeds: its median, a distribution-free interval, and a verdict.

For each seed s two arms give one number d_s, such as the difference of their accuracies. Let M be its median over all
possible seeds. If M <= t, at most half of them are above t, so

    P(at least m of n seeds > t) <= B(m) = sum_{k >= m} C(n, k) / 2^n        (the sign test)

for any distribution: skewed, heavy-tailed, with ties. With m the smallest count for which B(m) <= level, the probability that M
is beyond one end of the interval from the (n - m + 1)th to the m-th smallest d_s is at most `level`. With five seeds and a level
of 5 % m is 5: all seeds must agree, and the interval is from the smallest to the largest. `benchmarks/claims_judge.py` compares
it with the t, the sign-flip and two bootstrap intervals.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

PartOutcome = Literal["supported", "contradicted", "inconclusive"]

LEVEL = 0.05
"""The maximum probability that a verdict other than inconclusive is wrong."""

POWER = 0.8
"""The probability with which the smallest visible effect is detected."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One bound of a prediction.

    Arguments:
        value: the threshold.
        lower: whether numbers above it support the prediction; else numbers below it.
        strict: whether a number equal to it counts for neither side; else it supports the prediction.
    """

    value: float
    lower: bool
    strict: bool = False

    def agrees(self, number: float) -> bool:
        """Whether a number is on the predicted side."""
        if number == self.value:
            return not self.strict
        return (number > self.value) == self.lower

    def opposes(self, number: float) -> bool:
        """Whether a number is on the other side."""
        return number != self.value and (number > self.value) != self.lower


@dataclass(frozen=True, slots=True)
class Evidence:
    """Statistics of a contrast over seeds.

    Arguments:
        estimate: the median.
        lower, upper: the ends of the interval, each wrong with a probability of at most `level`; infinite with too few seeds.
        level: the level of one end.
        needed: the number of seeds that must agree; None if even all are too few.
        visible: the smallest effect beyond a threshold that is detected with probability 0.8, for normal noise with the spread
            of these numbers; None if it cannot be computed.
    """

    estimate: float
    lower: float
    upper: float
    level: float
    needed: int | None
    visible: float | None


@lru_cache(maxsize=256)
def needed(count: int, level: float = LEVEL) -> int | None:
    """The minimum number of `count` seeds that must be beyond a threshold; None if all of them are too few.

    >>> needed(5), needed(8), needed(4)
    (5, 7, None)
    """
    tail, found = 0.0, None
    for agreeing in range(count, -1, -1):
        tail += math.comb(count, agreeing) / 2**count
        if tail > level:
            break
        found = agreeing
    return found


def fewest(level: float = LEVEL) -> int:
    """The minimum number of seeds with which a verdict is possible.

    >>> fewest(), fewest(0.05 / 2)
    (5, 6)
    """
    return math.ceil(math.log2(1 / level))


def evidence(numbers: Sequence[float], level: float = LEVEL) -> Evidence:
    """Statistics of a contrast, given its number for each seed.

    Arguments:
        numbers: the numbers; infinity is allowed, NaN is not.
        level: the level of one end of the interval.

    >>> found = evidence([0.31, 0.28, 0.35, 0.30, 0.27])
    >>> found.estimate, found.lower, found.upper, round(found.visible, 3)
    (0.3, 0.27, 0.35, 0.053)
    """
    ordered = sorted(numbers)
    wanted = needed(len(ordered), level)
    lower = -math.inf if wanted is None else ordered[len(ordered) - wanted]
    upper = math.inf if wanted is None else ordered[wanted - 1]
    return Evidence(
        estimate=statistics.median(ordered),
        lower=lower,
        upper=upper,
        level=level,
        needed=wanted,
        visible=_visible(ordered, wanted),
    )


def outcome_of(numbers: Sequence[float], bounds: Sequence[Bound], level: float = LEVEL) -> PartOutcome:
    """Supported if enough seeds agree with every bound, contradicted if enough oppose one bound, else inconclusive.

    >>> outcome_of([0.31, 0.28, 0.35, 0.30, 0.27], [Bound(0.2, lower=True)])
    'supported'
    >>> outcome_of([0.0, 0.0, 0.0, 0.0, 0.0], [Bound(0.0, lower=True, strict=True)])
    'inconclusive'
    """
    wanted = needed(len(numbers), level)
    if wanted is None:
        return "inconclusive"
    if all(sum(map(bound.agrees, numbers)) >= wanted for bound in bounds):
        return "supported"
    if any(sum(map(bound.opposes, numbers)) >= wanted for bound in bounds):
        return "contradicted"
    return "inconclusive"


def _visible(numbers: Sequence[float], wanted: int | None) -> float | None:
    if wanted is None or len(numbers) < 2 or not all(map(math.isfinite, numbers)):
        return None
    return _deviations(len(numbers), wanted) * statistics.stdev(numbers)


@lru_cache(maxsize=256)
def _deviations(count: int, wanted: int) -> float:
    """How far the median is from a threshold, in standard deviations, if `wanted` seeds are beyond it with probability 0.8."""

    def power(share: float) -> float:
        ways = range(wanted, count + 1)
        return sum(math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in ways)

    low, high = 0.5, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle) < POWER else (low, middle)
    return statistics.NormalDist().inv_cdf(high)
