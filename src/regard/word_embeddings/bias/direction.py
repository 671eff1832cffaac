"""The directions in which pairs of words differ, and what lies along them (Bolukbasi et al. 2016).

The subspace of the pairs, projections and biases, and the analogies of two words such as man and woman.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.word_embeddings.bias.lists import Presence, WordSet, unit64
from regard.word_embeddings.neighbours import Neighbour, analogy
from regard.word_embeddings.store import WordVectors

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BiasSubspace:
    """What sets of words, such as woman and man, differ in.

    Arguments:
        directions: (k, W) float64, of length one and at right angles, the one that explains most first. Each points towards the
            first word of the first set: the sign is a convention.
        explained: the share of the sets' variance that each principal component has, all of them, the largest first.
        sets: those that were used.
        missing: words of sets that could not be used, because fewer than two of a set have vectors, and others without one.
    """

    directions: Numbers
    explained: tuple[float, ...]
    sets: tuple[WordSet, ...]
    missing: tuple[str, ...] = ()

    @property
    def direction(self) -> Numbers:
        """The first one, g, (W,)."""
        return self.directions[0]

    @property
    def ends(self) -> tuple[str, str]:
        """What lies at its positive and at its negative end, in short: the words of the first set."""
        return self.sets[0][0], self.sets[0][1]

    def projected(self, vectors: NDArray[np.floating]) -> Numbers:
        """The part of vectors (..., W) that lies in the subspace."""
        return (np.asarray(vectors, dtype=np.float64) @ self.directions.T) @ self.directions

    def to_json(self) -> dict[str, Any]:
        """As `regard vectors bias --json` prints it, without the directions."""
        return {
            "components": len(self.directions),
            "explained": list(self.explained),
            "positive": self.ends[0],
            "negative": self.ends[1],
            "sets": [list(words) for words in self.sets],
            "missing": list(self.missing),
        }


def bias_subspace(vectors: WordVectors, sets: Sequence[WordSet], components: int = 1) -> BiasSubspace:
    """The principal components of sets of words that differ in one thing, each set centred (Bolukbasi et al. 2016).

    With unit vectors w and the mean mu_i of the set D_i,

        C = sum over i, and over w in D_i, of (w - mu_i) (w - mu_i)^T / |D_i|

    and the directions are the eigenvectors of C with the largest eigenvalues. The paper's text speaks of the differences of the
    pairs; its code, and this, centre each pair, so that it does not matter which word comes first.

    Arguments:
        sets: pairs, or larger sets; one of which fewer than two words have vectors is left out, and said.
        components: k; 1 for a direction.

    Raises:
        InputError: where no set is left, its words all have the same vectors, or k is more than they span.

    >>> vectors = WordVectors(words=("she", "he", "her", "his"), matrix=np.array(
    ...     [[1, 1, 0], [-1, 1, 0], [1, 0, 1], [-1, 0, 1]], dtype=np.float32))
    >>> found = bias_subspace(vectors, [("she", "he"), ("her", "his")])
    >>> found.direction.round(6).tolist(), found.explained[0].__round__(6)
    ([1.0, 0.0, 0.0], 1.0)
    """
    if components < 1:
        raise InputError(f"components is {components}; give 1 or more")
    here = Presence(vectors)
    used = [found for found in (here.of(dict.fromkeys(words)) for words in sets) if len(found) >= 2]
    if not used:
        raise InputError(
            f"{vectors.name}: no pair of the {len(sets)} has vectors of both its words; give pairs of words that it has"
        )
    centred = [_centred(here.vectors_of(words)) for words in used]
    _, sizes, found = np.linalg.svd(np.concatenate(centred), full_matrices=False)
    variances = sizes**2
    rank = int((sizes > 1e-6 * max(1.0, float(sizes[0]))).sum())
    if rank < components:
        raise InputError(
            f"{vectors.name}: the words of the pairs differ in {rank} directions, and components is {components}; "
            "give more pairs, or fewer components"
        )
    first = centred[0][0]
    directions = found[:components] * np.where(found[:components] @ first < 0, -1.0, 1.0)[:, None]
    return BiasSubspace(
        directions=directions,
        explained=tuple((variances / variances.sum())[:rank].tolist()),
        sets=tuple(used),
        missing=tuple(dict.fromkeys(word for words in sets for word in here.missing(words))),
    )


def _centred(units: Numbers) -> Numbers:
    """A set without its mean, such that the product with itself has the weight 1 / |D|."""
    return (units - units.mean(axis=0)) / np.sqrt(len(units))


# How much of words lies along a direction: projections, direct and indirect bias.


class Projection(NamedTuple):
    """A word on a direction.

    Arguments:
        word: it.
        cosine: of its vector and the direction; positive towards the direction's first word.
    """

    word: str
    cosine: float


def projections(vectors: WordVectors, direction: Numbers, words: Sequence[str]) -> list[Projection]:
    """The cosine of each word's vector with a direction, from the positive end to the negative one.

    The lists of he and she occupations in the paper's Figure 1 are the two ends of this. They are no analogies: those are
    `analogy_answers` and `analogy_pairs`.

    Arguments:
        words: those without a vector are left out.

    >>> vectors = WordVectors(words=("nurse", "smith"), matrix=np.array([[3, 4], [-4, 3]], dtype=np.float32))
    >>> projections(vectors, np.array([1.0, 0.0]), ["smith", "nurse", "unheard"])
    [Projection(word='nurse', cosine=0.6), Projection(word='smith', cosine=-0.8)]
    """
    here = Presence(vectors)
    present = here.of(dict.fromkeys(words))
    if not present:
        return []
    cosines = (here.vectors_of(present) @ unit64(direction)).tolist()
    found = [Projection(word, cosine) for word, cosine in zip(present, cosines, strict=True)]
    return sorted(found, key=lambda each: -each.cosine)


def direct_bias(vectors: WordVectors, direction: Numbers, words: Sequence[str], strictness: float = 1.0) -> float:
    """DB_c = mean over words of |cos(w, g)|^c.

    Arguments:
        words: gender-neutral ones; those without a vector are left out.
        strictness: c; the smaller, the more small cosines count.

    Raises:
        InputError: where no word has a vector, or c is not above 0.

    >>> vectors = WordVectors(words=("nurse", "smith"), matrix=np.array([[3, 4], [-4, 3]], dtype=np.float32))
    >>> round(direct_bias(vectors, np.array([1.0, 0.0]), ["nurse", "smith"]), 6)
    0.7
    """
    if not strictness > 0:
        raise InputError(f"strictness is {strictness}; give a number above 0")
    found = projections(vectors, direction, words)
    if not found:
        raise InputError(f"{vectors.name}: has a vector of none of the {len(words)} words; give words that it has")
    return float(np.mean(np.abs([each.cosine for each in found]) ** strictness))


def random_direct_bias(
    vectors: WordVectors, words: Sequence[str], strictness: float = 1.0, *, directions: int = 100, seed: int = 0
) -> float:
    """The mean direct bias along random directions: what a direction that means nothing would have.

    Raises:
        InputError: as `direct_bias`.
    """
    here = Presence(vectors)
    present = here.of(dict.fromkeys(words))
    if not present:
        raise InputError(f"{vectors.name}: has a vector of none of the {len(words)} words; give words that it has")
    drawn = unit64(np.random.default_rng(seed).normal(size=(directions, vectors.width)))
    return float(np.mean(np.abs(here.vectors_of(present) @ drawn.T) ** strictness))


def indirect_bias(vectors: WordVectors, subspace: BiasSubspace, word: str, others: Sequence[str]) -> list[Projection]:
    """beta(w, v): the share of the inner product of two words that comes from the subspace, for each other word.

        beta(w, v) = (w.v - w'.v' / (|w'| |v'|)) / w.v

    with unit vectors, and w' what is left of w without its part in the subspace. 0 where nothing comes from it; nan where w.v is
    0, or nothing is left.

    Raises:
        InputError: for a word without a vector; of the others those are left out.

    >>> vectors = WordVectors(words=("nurse", "softball"), matrix=np.array([[1, 1, 0], [1, 0, 1]], dtype=np.float32))
    >>> axis = BiasSubspace(directions=np.array([[1.0, 0, 0]]), explained=(1.0,), sets=(("she", "he"),))
    >>> round(indirect_bias(vectors, axis, "softball", ["nurse"])[0].cosine, 6)
    1.0
    """
    here = Presence(vectors)
    present = here.of(dict.fromkeys(others))
    one = unit64(vectors[word])
    many = here.vectors_of(present) if present else np.empty((0, vectors.width))
    whole = many @ one
    left = unit64(_without(many, subspace)) @ unit64(_without(one, subspace))
    gone = ~(_without(many, subspace).any(axis=1) & bool(_without(one, subspace).any()))
    with np.errstate(divide="ignore", invalid="ignore"):
        beta = np.where(gone | (whole == 0), np.nan, (whole - left) / whole)
    return [Projection(word, value) for word, value in zip(present, beta.tolist(), strict=True)]


def _without(units: Numbers, subspace: BiasSubspace) -> Numbers:
    """What is left without the part in the subspace; exactly zero where that is all."""
    left = units - subspace.projected(units)
    lengths = np.linalg.norm(left, axis=-1, keepdims=True)
    return np.where(lengths > 1e-7, left, 0.0)


# Analogies between two words: what they answer, and which pairs of words lie along them.

ROWS = 256
"""Words that are compared with all others at once."""

KEPT = 1 << 19
"""Pairs with the highest scores that are held in memory."""

AMONG = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class AnalogyAnswer:
    """What a : word = b : ? answers.

    Arguments:
        word: such as doctor.
        answer: the best one that is none of the three words, as analogies are mostly asked.
        with_given: the best one of all words, which is often the word itself.
    """

    word: str
    answer: Neighbour
    with_given: Neighbour

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"word": self.word, "answer": self.answer._asdict(), "with_given": self.with_given._asdict()}


class AnalogyPair(NamedTuple):
    """Two words that differ as a and b do.

    Arguments:
        first, second: x on the side of a, and y on that of b.
        score: cos(a - b, x - y).
    """

    first: str
    second: str
    score: float


def analogy_answers(
    vectors: WordVectors, a: str, b: str, words: Sequence[str], *, among: int | None = AMONG
) -> list[AnalogyAnswer]:
    """What man : word = woman : ? answers, with and without the three words themselves among the answers.

    With them it is mostly the word itself: a method that cannot give a word back must give another, for any vectors
    hold (Nissim, van Noord and van der Goot 2020).

    Arguments:
        words: those without a vector, and `a` and `b`, are left out.
        among: answer with one of so many words from the top of the table; None for all.

    Raises:
        InputError: where `a` or `b` has no vector.

    >>> vectors = WordVectors(words=("man", "woman", "doctor", "nurse"), matrix=np.array(
    ...     [[1, 0, 0], [1, 0.3, 0], [0.1, 0, 1], [0, 0.9, 1]], dtype=np.float32))
    >>> found = analogy_answers(vectors, "man", "woman", ["doctor"])[0]
    >>> found.answer.word, found.with_given.word
    ('nurse', 'doctor')
    """
    for word in (a, b):
        _ = vectors[word]
    asked = [word for word in Presence(vectors).of(dict.fromkeys(words)) if word not in (a, b)]
    made = []
    for word in asked:
        answers = analogy(vectors, a, word, b, 1, among=among)
        if answers:
            given = analogy(vectors, a, word, b, 1, with_given=True, among=among)
            made.append(AnalogyAnswer(word=word, answer=answers[0], with_given=given[0]))
    return made


def analogy_pairs(
    vectors: WordVectors,
    a: str,
    b: str,
    count: int = 20,
    *,
    distance: float = 1.0,
    among: int = AMONG,
) -> list[AnalogyPair]:
    """Pairs x, y for which a : x = b : y, each word on one side once, the highest scores first (Bolukbasi et al. 2016).

        S(x, y) = cos(a - b, x - y) where |x - y| <= distance, else 0

    with unit vectors. A pair is told by both its words; nothing is asked about one word, and none is left out.

    Arguments:
        among: so many words from the top of the table; every pair of them is looked at.

    Raises:
        InputError: where `a` or `b` has no vector, both have the same, or the count, distance or `among` is not above 0.

    >>> vectors = WordVectors(words=("she", "he", "queen", "king"), matrix=np.array(
    ...     [[1, 0, 0], [0.5, 0.8, 0], [1, 0, 0.5], [0.5, 0.8, 0.5]], dtype=np.float32))
    >>> [(each.first, each.second) for each in analogy_pairs(vectors, "she", "he", 2)]
    [('she', 'he'), ('queen', 'king')]
    """
    if count < 1 or among < 1 or not distance > 0:
        raise InputError(f"count is {count}, among {among} and distance {distance}; give numbers above 0")
    ends = unit64(vectors.of([a, b]))
    axis = unit64(ends[0] - ends[1])
    if not axis.any():
        raise InputError(f"{vectors.name}: {a!r} and {b!r} have the same vector; give two words that differ")
    table = vectors.first(among)
    units = unit64(table.matrix)
    rows, columns, scores = _best_pairs(units, units @ axis, distance)
    return _each_once(table.words, rows, columns, scores, count)


def _best_pairs(
    units: Numbers, along: Numbers, distance: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], Numbers]:
    """The pairs with the highest |S|, each as row, column (x and y) and score."""
    rows, columns, scores = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    least = 1.0 - distance**2 / 2
    fine = np.linalg.norm(units, axis=1) > 0
    for start in range(0, len(units), ROWS):
        cosines = units[start : start + ROWS] @ units[start:].T
        one, other = np.nonzero((cosines >= least) & fine[start : start + ROWS, None] & fine[None, start:])
        later = other > one
        one, other = one[later], other[later]
        apart = np.sqrt(np.maximum(2.0 - 2.0 * cosines[one, other], 0.0))
        one, other = one + start, other + start
        with np.errstate(divide="ignore", invalid="ignore"):  # the same vector twice has no direction
            score = np.where(apart > 1e-6, (along[one] - along[other]) / apart, 0.0)
        rows, columns, scores = (np.concatenate(both) for both in ((rows, one), (columns, other), (scores, score)))
        if len(scores) > KEPT:
            best = np.argpartition(-np.abs(scores), KEPT)[:KEPT]
            rows, columns, scores = rows[best], columns[best], scores[best]
    turned = scores < 0
    return np.where(turned, columns, rows), np.where(turned, rows, columns), np.abs(scores)


def _each_once(
    words: Sequence[str], rows: NDArray[np.int64], columns: NDArray[np.int64], scores: Numbers, count: int
) -> list[AnalogyPair]:
    """From the highest score down, each word once on either side."""
    order = np.lexsort((columns, rows, -scores))
    first: set[int] = set()
    second: set[int] = set()
    found: list[AnalogyPair] = []
    for place in order.tolist():
        x, y, score = int(rows[place]), int(columns[place]), float(scores[place])
        if score < 1e-3 or len(found) == count:
            break
        if x in first or y in second:
            continue
        first.add(x)
        second.add(y)
        found.append(AnalogyPair(words[x], words[y], score))
    return found
