"""Analogies between two words such as man and woman: what they answer, and which pairs of words lie along them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.vectors.bias.present import Presence, unit64
from regard.vectors.neighbours import Neighbour, analogy
from regard.vectors.store import WordVectors

Numbers = NDArray[np.float64]

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

    With them it is mostly the word itself: a method that cannot give a word back must give another, whatever the vectors
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
