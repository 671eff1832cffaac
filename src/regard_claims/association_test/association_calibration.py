"""The association test (WEAT) on random vectors: its p-values without an association, and its effect sizes with a planted one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.models.config import check
from regard.word_embeddings.bias import Association, AssociationTest, NamedWords, association_test
from regard.word_embeddings.store import WordVectors

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
SETS = "xyab"


@dataclass(frozen=True, kw_only=True, slots=True)
class AssociationCalibration:
    """Association tests of two target sets X, Y and two attribute sets A, B of random vectors, sampled for each test.

    A vector is normal noise plus the strength times a direction for X and A, or minus it for Y and B. At strength 1 the direction
    is about as long as the noise.

    Arguments:
        runs: the number of tests without an association.
        planted_runs: the number of tests at each strength; their mean effect size is measured.
        size: the number of words in each set.
        width: the number of dimensions of a vector.
        ddof: 0 for the population standard deviation in the effect size, 1 for the sample standard deviation.
        samples: the number of random partitions for the sampled p-value.

    Raises:
        InputError: for a number out of range.
    """

    precision: ClassVar[str] = "no model is trained"
    runs: int = 300
    planted_runs: int = 20
    size: int = 8
    width: int = 50
    ddof: int = 0
    samples: int = 2_000

    def __post_init__(self) -> None:
        check(self.ddof in (0, 1), "experiment.ddof", self.ddof, "0 or 1", "0 is the population's deviation")
        check(self.runs >= 2, "experiment.runs", self.runs, "2 or more", "300 are judged")
        check(self.size >= 2, "experiment.size", self.size, "2 or more", "8 is what most published tests have")

    @property
    def measures(self) -> tuple[str, ...]:
        """The same measures for each arm."""
        return (
            "p of the Kolmogorov-Smirnov test",
            "mean |d| without association",
            *(f"d at strength {strength:g}" for strength in STRENGTHS),
            "sampled minus exact p in standard errors",
            "share within two standard errors",
        )

    def run(self, seed: int) -> dict[str, float]:
        """Sample vectors, test them, and compute the measures.

        Raises:
            InputError: if SciPy is not installed.
        """
        draw = np.random.Generator(np.random.Philox(key=[seed, 0x3EA7]))
        null = [(self._test(vectors), self._test(vectors, number)) for number, vectors in self._nulls(draw)]
        exact = np.array([each.p for each, _ in null])
        sampled = np.array([each.p for _, each in null])
        errors = (sampled - exact) / np.sqrt(np.maximum(exact * (1 - exact), 1 / self.samples) / self.samples)
        effects = [self._mean_effect(draw, strength) for strength in STRENGTHS]
        numbers = (
            _uniform(exact),
            float(np.mean([abs(each.effect_size) for each, _ in null])),
            *effects,
            math.sqrt(float(np.mean(errors**2))),
            float(np.mean(np.abs(errors) <= 2)),
        )
        return dict(zip(self.measures, numbers, strict=True))

    def _nulls(self, draw: np.random.Generator) -> list[tuple[int, WordVectors]]:
        return [(number, self._vectors(draw, 0.0)) for number in range(self.runs)]

    def _mean_effect(self, draw: np.random.Generator, strength: float) -> float:
        made = (self._test(self._vectors(draw, strength)) for _ in range(self.planted_runs))
        return float(np.mean([each.effect_size for each in made]))

    def _vectors(self, draw: np.random.Generator, strength: float) -> WordVectors:
        noise = draw.normal(size=(4 * self.size, self.width)) / np.sqrt(self.width)
        direction = draw.normal(size=self.width)
        direction /= np.linalg.norm(direction)
        signs = np.repeat([1.0, -1.0, 1.0, -1.0], self.size)
        matrix = noise + strength * signs[:, None] * direction
        names = tuple(f"{letter}{number}" for letter in SETS for number in range(self.size))
        return WordVectors(words=names, matrix=matrix.astype(np.float32))

    def _test(self, vectors: WordVectors, sampling: int | None = None) -> Association:
        """The exact test over all partitions, or with the seed `sampling` a test over random ones."""
        x, y, a, b = (
            NamedWords(name=letter, words=tuple(f"{letter}{number}" for number in range(self.size))) for letter in SETS
        )
        test = AssociationTest(name="drawn", targets=(x, y), attributes=(a, b))
        ddof: Literal[0, 1] = 1 if self.ddof else 0
        if sampling is None:
            return association_test(vectors, test, ddof=ddof)
        return association_test(vectors, test, ddof=ddof, exact_below=0, samples=self.samples, seed=sampling)


def _uniform(values: NDArray[np.float64]) -> float:
    """The p-value of the Kolmogorov-Smirnov test against the uniform distribution from 0 to 1."""
    try:
        from scipy.stats import kstest
    except ImportError:
        raise InputError("the Kolmogorov-Smirnov test needs SciPy: pip install 'regard[eval]'") from None
    return float(kstest(values, "uniform").pvalue)
