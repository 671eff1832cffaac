"""The words of a task and their vectors: the one place where unknown words are dealt with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError, nearest
from regard.vectors.evaluation.extrinsic.result import Coverage
from regard.vectors.evaluation.lookup import Case, Lookup
from regard.vectors.store import Matrix, WordVectors

Unknown = Literal["subwords", "zero"]
UNKNOWN: tuple[Unknown, ...] = get_args(Unknown)
"""What becomes of a word that the table does not have: `subwords` asks these for a vector, where the vectors have any; `zero`
does not. A word without a vector is a vector of zeros to a tagger, and is left out of a text's mean; a text of such words
alone has a mean of zeros."""

Words = Sequence[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskWords:
    """Every word of a task once.

    Arguments:
        words: all different.
        matrix: (V, W) float32, zeros for a word without a vector.
        known: (V,) bool, whether it has one.
        made: (V,) bool, whether it is made of subwords.
        name: of the vectors.
    """

    words: tuple[str, ...]
    matrix: Matrix
    known: NDArray[np.bool_]
    made: NDArray[np.bool_]
    name: str

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def numbers(self, text: Words) -> NDArray[np.int64]:
        """The rows of a text's words, (L,)."""
        return np.array([self.rows[word] for word in text], dtype=np.int64)

    def means(self, texts: Sequence[Words]) -> Matrix:
        """Of each text the mean of the vectors of its words that have one, (N, W); zeros where none has."""
        found = np.zeros((len(texts), self.matrix.shape[1]), dtype=np.float32)
        for number, text in enumerate(texts):
            rows = self.numbers(text)
            rows = rows[self.known[rows]]
            if len(rows):
                found[number] = self.matrix[rows].mean(axis=0)
        return found

    def coverage(self, texts: Iterable[Words]) -> Coverage:
        """How many words of some texts have a vector."""
        counts = np.zeros(len(self.words), dtype=np.int64)
        for text in texts:
            np.add.at(counts, self.numbers(text), 1)
        there = counts > 0
        return Coverage(
            tokens=int(counts.sum()),
            known=int(counts[self.known].sum()),
            types=int(there.sum()),
            known_types=int((there & self.known).sum()),
            made=int(counts[self.made].sum()),
        )

    def redrawn(self, seed: int = 0) -> TaskWords:
        """The same words with vectors drawn from a normal distribution, for just those that have one."""
        drawn = np.random.default_rng(seed).standard_normal(self.matrix.shape, dtype=np.float32)
        return replace(self, matrix=np.where(self.known[:, None], drawn, np.float32(0)), name="random vectors")


def gathered(
    vectors: WordVectors, texts: Iterable[Words], *, unknown: Unknown = "subwords", case: Case = "lower"
) -> TaskWords:
    """The vectors of all words in some texts.

    Arguments:
        texts: lists of words.
        unknown: what becomes of a word that the table does not have, see `UNKNOWN`.
        case: how words are found; `lower`: as they stand, or else in small letters.

    Raises:
        InputError: for a way that does not exist, and where no word at all has a vector.

    >>> table = WordVectors(words=("a", "b"), matrix=np.array([[1, 0], [0, 3]], dtype=np.float32))
    >>> gathered(table, [["A", "c"], ["b"]]).means([["A", "b", "c"], ["c"]]).tolist()
    [[0.5, 1.5], [0.0, 0.0]]
    """
    if unknown not in UNKNOWN:
        raise InputError(f"there is no way {unknown!r} to treat unknown words; {nearest(unknown, UNKNOWN)}")
    words = tuple(dict.fromkeys(word for text in texts for word in text))
    lookup = Lookup(vectors=vectors, case=case)
    matrix = np.zeros((len(words), vectors.width), dtype=np.float32)
    known, made = np.zeros(len(words), dtype=bool), np.zeros(len(words), dtype=bool)
    for number, word in enumerate(words):
        own = lookup.row(word) is not None
        vector = lookup.vector(word) if own or unknown == "subwords" else None
        if vector is not None:
            matrix[number], known[number], made[number] = vector, True, not own
    if not known.any():
        shown = ", ".join(map(repr, words[:3]))
        raise InputError(f"{vectors.name}: has no vector of any word of the task, such as {shown}; take other vectors")
    return TaskWords(words=words, matrix=matrix, known=known, made=made, name=vectors.name)
