"""What an extrinsic evaluation finds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from regard.metrics.bootstrap import Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """How much of a text has vectors.

    Arguments:
        tokens, known: words in a row, and those with a vector.
        types, known_types: different words, and those with a vector.
        made: of the tokens known, those whose vector was made of subwords.

    >>> Coverage(tokens=10, known=9, types=5, known_types=4, made=0).share
    0.9
    """

    tokens: int
    known: int
    types: int
    known_types: int
    made: int

    @property
    def share(self) -> float:
        """Of the tokens that have a vector."""
        return self.known / self.tokens if self.tokens else 0.0

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"share": self.share}


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtrinsicResult:
    """How well a small model does on top of some vectors.

    Arguments:
        task: what was done: `classification`, `tagging`, `cosines of pairs`, `features of pairs`.
        vectors: their name.
        scores: by the metric's name, each with its bootstrap interval over the test examples.
        floors: the same of what needs no such vectors, by its name: vectors drawn at random for the same words, and the best
            that can be said without looking.
        coverage: of the test texts.
        train, test: how many examples.
        unknown: what became of words without a vector of their own.
        settings: of the model.
    """

    task: str
    vectors: str
    scores: Mapping[str, Interval]
    floors: Mapping[str, Mapping[str, Interval]]
    coverage: Coverage
    train: int
    test: int
    unknown: str
    settings: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As JSON values; a score that is not defined is None."""
        return {
            "task": self.task,
            "vectors": self.vectors,
            "scores": _intervals(self.scores),
            "floors": {name: _intervals(scores) for name, scores in self.floors.items()},
            "coverage": self.coverage.to_json(),
            "train": self.train,
            "test": self.test,
            "unknown": self.unknown,
            "settings": dict(self.settings),
        }


def _intervals(scores: Mapping[str, Interval]) -> dict[str, Any]:
    return {
        name: {key: value if math.isfinite(value) else None for key, value in asdict(interval).items()}
        for name, interval in scores.items()
    }
