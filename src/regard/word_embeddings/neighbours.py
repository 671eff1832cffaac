"""Nearest neighbours, analogies, and the odd one out. All vectors are compared; there is no approximate index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from regard.embeddings.pooling import unit
from regard.errors import InputError, nearest
from regard.word_embeddings.store import CHUNK, Matrix, WordVectors

Method = Literal["add", "multiply"]
METHODS: tuple[Method, ...] = get_args(Method)

EPSILON = 0.001
"""The constant in the denominator of `multiply`, as published."""


class Neighbour(NamedTuple):
    """A word of a result.

    Arguments:
        word: the word.
        score: its cosine with the query, or its score by the method of the analogy.
    """

    word: str
    score: float


def cosines(vectors: WordVectors, queries: Matrix) -> NDArray[np.float32]:
    """The cosine of each query (Q, W) with every vector, (Q, N); 0 for a zero vector.

    >>> table = WordVectors(words=("a", "b"), matrix=np.array([[1, 0], [1, 1]], dtype=np.float32))
    >>> cosines(table, np.array([[2, 0]], dtype=np.float32)).round(3).tolist()
    [[1.0, 0.7070000171661377]]
    """
    if queries.ndim != 2 or queries.shape[1] != vectors.width:
        raise InputError(f"{vectors.name}: the queries have the shape {queries.shape}; give (Q, {vectors.width})")
    wanted = unit(np.asarray(queries, dtype=np.float32))
    found = np.empty((len(queries), len(vectors)), dtype=np.float32)
    for start in range(0, len(vectors), CHUNK):
        here = slice(start, start + CHUNK)
        lengths = vectors.lengths[here]
        np.matmul(wanted, vectors.matrix[here].T, out=found[:, here])
        found[:, here] /= np.where(lengths == 0, 1, lengths)
    return found


def neighbours(
    vectors: WordVectors,
    query: str | Matrix,
    count: int = 10,
    *,
    leave_out: Iterable[str] = (),
    among: int | None = None,
) -> list[Neighbour]:
    """The words with the largest cosines to a word, without the word itself, or to a vector.

    Arguments:
        query: a word, or a vector (W,).
        count: the number of words.
        leave_out: words to exclude.
        among: only search this many words from the top of the table, in most files the most frequent ones.

    Raises:
        InputError: for a word without a vector, or a number below 1.

    >>> table = WordVectors(words=("a", "b", "c"), matrix=np.array([[1, 0], [1, 1], [0, 1]], dtype=np.float32))
    >>> [each.word for each in neighbours(table, "a")]
    ['b', 'c']
    """
    out = {*leave_out}
    if isinstance(query, str):
        out.add(query)
        query = vectors[query]
    return _best(vectors, cosines(vectors, query[None])[0], count, out, among)


def analogy(
    vectors: WordVectors,
    a: str,
    b: str,
    c: str,
    count: int = 10,
    *,
    method: Method = "add",
    with_given: bool = False,
    among: int | None = None,
) -> list[Neighbour]:
    """The words that are to `c` as `b` is to `a`: man, king, woman should give queen.

    With unit vectors, over all words except the three (Mikolov et al. 2013; Levy and Goldberg 2014):

        add        cos(x, b - a + c)
        multiply   cos'(x, b) cos'(x, c) / (cos'(x, a) + 0.001),   cos' = (cos + 1) / 2

    Arguments:
        count, among: as in `neighbours`.
        with_given: also allow the three words; then the result is usually one of them.

    Raises:
        InputError: for a word without a vector, or a method that does not exist.

    >>> table = WordVectors(words=("man", "king", "woman", "queen", "tree"), matrix=np.array(
    ...     [[1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 1], [-1, -1, 0]], dtype=np.float32))
    >>> analogy(table, "man", "king", "woman", 1)[0].word
    'queen'
    """
    scores = analogy_scores(vectors, np.stack([vectors[word] for word in (a, b, c)])[None], method)[0]
    return _best(vectors, scores, count, set() if with_given else {a, b, c}, among)


def analogy_scores(vectors: WordVectors, triples: NDArray[np.float32], method: Method = "add") -> NDArray[np.float32]:
    """The score of every word for analogies a : b = c : x, (Q, N), from the vectors (Q, 3, W) of a, b and c.

    Raises:
        InputError: for a method that does not exist.
    """
    check_method(method)
    a, b, c = (unit(triples[:, place]) for place in range(3))
    if method == "add":
        return cosines(vectors, b - a + c)
    to_a, to_b, to_c = ((cosines(vectors, each) + 1) / 2 for each in (a, b, c))
    return np.asarray(to_b * to_c / (to_a + EPSILON), dtype=np.float32)


def check_method(method: str) -> None:
    """Refuse an unknown method for analogies.

    Raises:
        InputError: with the nearest method.
    """
    if method not in METHODS:
        raise InputError(f"there is no method {method!r} for analogies; {nearest(method, METHODS)}")


def odd_one_out(vectors: WordVectors, words: Sequence[str]) -> list[Neighbour]:
    """The words sorted by their cosine with the mean of all, the smallest first, so that the odd one out comes first.

    The mean is over the unit vectors of all words, as in word2vec's test.

    Raises:
        InputError: for fewer than three words, or one without a vector.

    >>> table = WordVectors(words=("breakfast", "lunch", "car"), matrix=np.array([[1, 0], [1, 0.1], [0, 1]], dtype=np.float32))
    >>> odd_one_out(table, ["breakfast", "car", "lunch"])[0].word
    'car'
    """
    if len(words) < 3:
        raise InputError(f"{len(words)} words are given; give at least three, one of which does not belong")
    units = unit(vectors.of(words))
    found = units @ unit(units.mean(axis=0, keepdims=True))[0]
    order = np.argsort(found, kind="stable")
    return [Neighbour(words[place], float(found[place])) for place in map(int, order)]


def _best(
    vectors: WordVectors, scores: NDArray[np.float32], count: int, leave_out: set[str], among: int | None
) -> list[Neighbour]:
    """The words with the largest scores; ties are ordered by their index."""
    if count < 1:
        raise InputError(f"count is {count}; give 1 or more")
    if among is not None and among < 1:
        raise InputError(f"among is {among}; give 1 or more, or none")
    scores = scores[:among] if among is not None else scores
    wanted = min(count + len(leave_out), len(scores))
    if wanted < len(scores):  # select the candidates first, then sort only them
        least = np.partition(scores, len(scores) - wanted)[len(scores) - wanted] if wanted else np.inf
        candidates = np.flatnonzero(scores >= least)
    else:
        candidates = np.arange(len(scores))
    order = candidates[np.argsort(-scores[candidates], kind="stable")]
    words = ((vectors.words[row], float(scores[row])) for row in map(int, order))
    return [Neighbour(word, score) for word, score in words if word not in leave_out][:count]
