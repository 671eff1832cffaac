"""A direction planted in drawn vectors: whether pairs of words give it back, and what taking it out changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from regard.metrics.regression import spearman
from regard.models.config import check
from regard.word_embeddings.bias import bias_subspace, hard_debiased, leftover
from regard.word_embeddings.bias.lists import unit64
from regard.word_embeddings.store import WordVectors

Numbers = NDArray[np.float64]
Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlantedDirection:
    """Words drawn from topics, all of them with some of one direction, and pairs of words that differ in it.

    A word is its topics' mean, a part of its own (half as long), and a random amount of the direction. The words of a pair share
    these, and then differ by the direction (`planted` to either side) and by noise of each word's own.

    Arguments:
        words, width: how many vectors, and how many numbers each has.
        pairs: that the direction is to be found by, and as many others that are equalised.
        topics: each word belongs to several, in shares of its own.
        planted: length of the direction's part in the words of a pair; 0 plants nothing.
        noise: length of what the words of a pair have each for itself.
        amount: standard deviation of the direction's part in other words.
        compared: pairs of words whose planted likeness is ranked against cosines.

    Raises:
        InputError: for numbers that are too small.
    """

    precision: ClassVar[str] = "no model is trained"
    words: int = 2_000
    width: int = 100
    pairs: int = 10
    topics: int = 20
    planted: float = 1.0
    noise: float = 1.0
    amount: float = 0.3
    compared: int = 5_000

    def __post_init__(self) -> None:
        check(self.pairs >= 2, "experiment.pairs", self.pairs, "2 or more", "10 are the paper's")
        check(self.words > 4 * self.pairs, "experiment.words", self.words, "above 4 times the pairs", "give more words")
        check(self.width > self.topics, "experiment.width", self.width, "above the number of topics", "give more")

    @property
    def measures(self) -> tuple[str, ...]:
        """The same for every arm."""
        return (
            "cosine with what was planted",
            "first over second component",
            "largest bias before",
            "largest bias after",
            "largest difference of distances",
            "Spearman before",
            "Spearman after",
            "change of Spearman",
        )

    def run(self, seed: int) -> dict[str, float]:
        """Draw, find the direction, take it out, and measure."""
        draw = np.random.Generator(np.random.Philox(key=[seed, 0xB1A5]))
        vectors, planted, likeness = self._vectors(draw)
        pairs = [(f"a{number}", f"b{number}") for number in range(2 * self.pairs)]
        subspace = bias_subspace(vectors, pairs[: self.pairs])
        specific = [word for pair in pairs for word in pair]
        after = hard_debiased(vectors, subspace, specific=specific, equalize=pairs)
        one, other = draw.integers(4 * self.pairs, self.words, size=(2, self.compared))
        one, other = one[one != other], other[one != other]
        gold = (likeness[one] * likeness[other]).sum(axis=1)
        before, now = (spearman(gold, _cosines(each, one, other)) for each in (vectors, after))
        numbers = (
            abs(float(subspace.direction @ planted)),
            subspace.explained[0] / subspace.explained[1],
            leftover(vectors, subspace, specific).largest,
            leftover(after, subspace, specific).largest,
            _difference_of_distances(after, pairs),
            before,
            now,
            abs(now - before),
        )
        return dict(zip(self.measures, numbers, strict=True))

    def _vectors(self, draw: np.random.Generator) -> tuple[WordVectors, Numbers, Numbers]:
        """The words, the direction, and the unit vectors of the words' topics."""
        basis = np.linalg.qr(draw.normal(size=(self.width, self.topics + 1)))[0].T
        planted, topics = basis[0], basis[1:]
        likeness = unit64(draw.dirichlet(np.full(self.topics, 0.3), size=self.words) @ topics)
        made = likeness + 0.5 * unit64(draw.normal(size=(self.words, self.width)))
        made += self.amount * draw.normal(size=(self.words, 1)) * planted
        count = 2 * self.pairs
        made[count : 2 * count] = made[:count]  # a0, a1, ..., then b0, b1, ...
        made[:count] += self.planted * planted
        made[count : 2 * count] -= self.planted * planted
        made[: 2 * count] += self.noise * unit64(draw.normal(size=(2 * count, self.width)))
        names = [f"{letter}{number}" for letter in "ab" for number in range(count)]
        names += [f"w{number}" for number in range(self.words - 2 * count)]
        return WordVectors(words=tuple(names), matrix=made.astype(np.float32)), planted, likeness


def _cosines(vectors: WordVectors, one: NDArray[np.int64], other: NDArray[np.int64]) -> Numbers:
    units = unit64(vectors.matrix)
    return (units[one] * units[other]).sum(axis=1)


def _difference_of_distances(vectors: WordVectors, pairs: list[Pair]) -> float:
    """The largest difference between the distances of a neutral word to the two words of a pair."""
    matrix = vectors.matrix.astype(np.float64)
    neutral = matrix[2 * len(pairs) :]
    ends = [np.linalg.norm(neutral - vectors[word], axis=1) for pair in pairs for word in pair]
    return max(float(np.abs(one - other).max()) for one, other in zip(ends[::2], ends[1::2], strict=True))
