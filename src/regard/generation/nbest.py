"""The best finished hypotheses of one sentence."""

from __future__ import annotations

import math
from bisect import insort_right

from regard.generation.hypothesis import Hypothesis


class NBest:
    """At most `size` hypotheses, best first; of equal scores the earlier stays ahead.

    Arguments:
        size: n, at least 1.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.hypotheses: list[Hypothesis] = []
        self.seen = 0

    @property
    def threshold(self) -> float:
        """The score to beat; minus infinity while there is room."""
        return self.hypotheses[-1].score if len(self.hypotheses) == self.size else -math.inf

    @property
    def room(self) -> int:
        """How many are still missing."""
        return self.size - len(self.hypotheses)

    def admits(self, score: float) -> bool:
        """Whether one of this score would be among the best; each finished hypothesis is asked about once."""
        self.seen += 1
        return self.room > 0 or score > self.threshold

    def add(self, hypothesis: Hypothesis) -> None:
        """Put a hypothesis in its place; the last one falls out where there was no room."""
        insort_right(self.hypotheses, hypothesis, key=lambda other: -other.score)
        del self.hypotheses[self.size :]
