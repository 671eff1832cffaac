"""A bias direction planted in random vectors: estimating it from pairs of words, and the effects of debiasing."""

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
    """Random word vectors with a planted bias direction, and pairs of words that differ in it.

    A vector is the sum of a unit vector in the span of the topics, an individual unit vector times 0.5, and the direction times a
    normal random number. The two vectors of a pair are equal in these three parts; then the direction times `planted` is added to
    one and subtracted from the other, and independent noise is added to both.

    Arguments:
        words: the number of vectors.
        width: the number of dimensions of a vector.
        pairs: the number of pairs that the direction is estimated from. As many further pairs are equalized together with them.
        topics: the number of topics; each word has random weights for all of them.
        planted: the coefficient of the direction in the words of a pair; 0 plants nothing.
        noise: the length of the independent noise of the words of a pair.
        amount: the standard deviation of the coefficient of the direction in all words.
        compared: the number of sampled pairs of other words in the rank correlation of cosines with the similarity of topics.

    Raises:
        InputError: for a number below its minimum.
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
        """The same measures for each arm."""
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
        """Sample vectors, estimate the direction, debias the vectors, and compute the measures."""
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
        """The word vectors, the direction (D,), and the unit topic vector of each word (words, D)."""
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
