"""Bias directions: the subspace in which pairs of words differ, projections on it, and analogies (Bolukbasi et al. 2016)."""

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
    """The subspace in which sets of words, such as woman and man, differ.

    Arguments:
        directions: (k, W) float64, orthonormal, sorted by falling explained variance. By convention each points towards the
            first word of the first set.
        explained: the share of variance explained by each principal component (all of them), sorted from large to small.
        sets: the sets that were used.
        missing: the words without a vector. A set needs at least two words with vectors to be used.
    """

    directions: Numbers
    explained: tuple[float, ...]
    sets: tuple[WordSet, ...]
    missing: tuple[str, ...] = ()

    @property
    def direction(self) -> Numbers:
        """The first direction, g, (W,)."""
        return self.directions[0]

    @property
    def ends(self) -> tuple[str, str]:
        """The names of the positive and the negative end of the first direction: the first two words of the first set."""
        return self.sets[0][0], self.sets[0][1]

    def projected(self, vectors: NDArray[np.floating]) -> Numbers:
        """The projection of vectors (..., W) onto the subspace, (..., W) float64."""
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
    """The principal components of sets of words that differ in one aspect, each set centred (Bolukbasi et al. 2016).

    With unit vectors w and the mean mu_i of the set D_i,

        C = sum over i, and over w in D_i, of (w - mu_i) (w - mu_i)^T / |D_i|

    and the directions are the eigenvectors of C with the largest eigenvalues. The paper's text uses the differences of the
    pairs; its code, and this function, centre each pair, so that the order of the words in a pair does not matter.

    Arguments:
        vectors: the word embeddings.
        sets: pairs or larger sets of words. A set with fewer than two known words is left out; `missing` of the result has the
            words without a vector.
        components: k, the number of directions.

    Raises:
        InputError: if no set is left, all words of the sets have the same vector, or the sets span fewer than k directions.

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
            f"{vectors.name}: none of the {len(sets)} pairs has vectors for both words; give pairs of known words"
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
    """A set minus its mean, divided by sqrt(|D|), so that its outer product has the weight 1 / |D|."""
    return (units - units.mean(axis=0)) / np.sqrt(len(units))


# Projections of words on a direction, direct bias and indirect bias.


class Projection(NamedTuple):
    """The projection of a word on a direction.

    Arguments:
        word: the word.
        cosine: the cosine of its vector and the direction; positive towards the positive end.
    """

    word: str
    cosine: float


def projections(vectors: WordVectors, direction: Numbers, words: Sequence[str]) -> list[Projection]:
    """The cosine of each word's vector with a direction, sorted from the positive to the negative end.

    The he and she occupations in the paper's Figure 1 are the two ends of such a list. They are not analogies; for those see
    `analogy_answers` and `analogy_pairs`.

    Arguments:
        vectors: the word embeddings.
        direction: (W,).
        words: words; those without a vector are left out.

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
    """The direct bias DB_c = mean over words w of |cos(w, g)|^c (Bolukbasi et al. 2016).

    Arguments:
        vectors: the word embeddings.
        direction: g, (W,).
        words: words that should be neutral; those without a vector are left out.
        strictness: c, above 0; with a smaller c, small cosines have more weight.

    Raises:
        InputError: if no word has a vector, or c is not above 0.

    >>> vectors = WordVectors(words=("nurse", "smith"), matrix=np.array([[3, 4], [-4, 3]], dtype=np.float32))
    >>> round(direct_bias(vectors, np.array([1.0, 0.0]), ["nurse", "smith"]), 6)
    0.7
    """
    if not strictness > 0:
        raise InputError(f"strictness is {strictness}; give a number above 0")
    found = projections(vectors, direction, words)
    if not found:
        raise InputError(f"{vectors.name}: has no vector for any of the {len(words)} words; give known words")
    return float(np.mean(np.abs([each.cosine for each in found]) ** strictness))


def random_direct_bias(
    vectors: WordVectors, words: Sequence[str], strictness: float = 1.0, *, directions: int = 100, seed: int = 0
) -> float:
    """The mean direct bias along random directions, as a baseline for `direct_bias`.

    Arguments:
        vectors, words, strictness: as for `direct_bias`.
        directions: the number of random directions.
        seed: seed of the directions.

    Raises:
        InputError: as `direct_bias`.
    """
    here = Presence(vectors)
    present = here.of(dict.fromkeys(words))
    if not present:
        raise InputError(f"{vectors.name}: has no vector for any of the {len(words)} words; give known words")
    sampled = unit64(np.random.default_rng(seed).normal(size=(directions, vectors.width)))
    return float(np.mean(np.abs(here.vectors_of(present) @ sampled.T) ** strictness))


def indirect_bias(vectors: WordVectors, subspace: BiasSubspace, word: str, others: Sequence[str]) -> list[Projection]:
    """The indirect bias beta(w, v): the share of the inner product of w and v that is due to the subspace, for each other word v.

        beta(w, v) = (w.v - w'.v' / (|w'| |v'|)) / w.v

    with unit vectors, where w' is w minus its projection onto the subspace. beta is 0 if the subspace contributes nothing. It is
    nan if w.v is 0, or if w or v lies completely in the subspace.

    Arguments:
        vectors: the word embeddings.
        subspace: the bias subspace.
        word: w.
        others: the words v; those without a vector are left out.

    Raises:
        InputError: if `word` has no vector.

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
    """Unit vectors minus their projection onto the subspace; exactly zero for vectors that lie completely in it."""
    left = units - subspace.projected(units)
    lengths = np.linalg.norm(left, axis=-1, keepdims=True)
    return np.where(lengths > 1e-7, left, 0.0)


# Analogies between two words such as man and woman: answers for given words, and pairs with the same difference.

ROWS = 256
"""The number of words that are compared with all others at a time."""

KEPT = 1 << 19
"""The number of pairs with the highest scores that are held in memory."""

AMONG = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class AnalogyAnswer:
    """The answers to the analogy a : word = b : ?.

    Arguments:
        word: the word, such as doctor.
        answer: the best answer that is not one of the three words, as analogies are usually evaluated.
        with_given: the best answer among all words, which is often the word itself.
    """

    word: str
    answer: Neighbour
    with_given: Neighbour

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"word": self.word, "answer": self.answer._asdict(), "with_given": self.with_given._asdict()}


class AnalogyPair(NamedTuple):
    """Two words with a similar difference as a and b.

    Arguments:
        first, second: x, which corresponds to a, and y, which corresponds to b.
        score: cos(a - b, x - y).
    """

    first: str
    second: str
    score: float


def analogy_answers(
    vectors: WordVectors, a: str, b: str, words: Sequence[str], *, among: int | None = AMONG
) -> list[AnalogyAnswer]:
    """The answers to a : word = b : ? (such as man : doctor = woman : ?), with and without the three words as possible answers.

    If the three words are allowed, the answer is usually the word itself. Without them the method must return another word,
    whatever the embeddings contain (Nissim, van Noord and van der Goot 2020).

    Arguments:
        vectors: the word embeddings.
        a, b: the two words, such as man and woman.
        words: words to ask about; words without a vector, `a` and `b` are left out.
        among: the number of words from the beginning of the table that can be answers; None for all.

    Raises:
        InputError: if `a` or `b` has no vector.

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
    """Pairs (x, y) with a : x = b : y, sorted by falling score (Bolukbasi et al. 2016).

        S(x, y) = cos(a - b, x - y) if |x - y| <= distance, else 0

    with unit vectors. Both words of a pair are found together, so no word has to be excluded. Each word occurs at most once as x
    and at most once as y.

    Arguments:
        vectors: the word embeddings.
        a, b: two words, such as she and he.
        count: the most pairs.
        distance: the largest distance between x and y.
        among: the number of words from the beginning of the table; all their pairs are considered.

    Raises:
        InputError: if `a` or `b` has no vector, both have the same vector, or a number is not above 0.

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
    """The rows of x, the rows of y and the scores of the pairs with the highest scores."""
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
        with np.errstate(divide="ignore", invalid="ignore"):  # equal vectors have no difference
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
    """The `count` best pairs such that each word occurs at most once as x and at most once as y."""
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
