"""Vectors of words: a table of them, and how a word that is not in it gets one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

Matrix = NDArray[np.float32]
Counts = NDArray[np.int64]

CHUNK = 1 << 16
"""Rows that are looked at together where all are: an array in a file never stands in memory whole."""


class Subwords(Protocol):
    """What makes a vector for a word that no table has, such as fastText's n-grams."""

    def vector(self, word: str) -> Matrix | None:
        """Of width (W,) float32; None for a word it can say nothing about."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class WordVectors:
    """A vector for each of N words, in the order of their file: most often the commonest first.

    The matrix may be mapped from a file; nothing here copies it whole.

    Arguments:
        words: all different.
        matrix: (N, W) float32, finite.
        counts: how often each word was seen in training, (N,) int64; None where nobody kept it.
        subwords: for words that are not among these; None for none.
        metadata: how the vectors came about, as JSON values.
        name: what messages and tables call them.

    Raises:
        InputError: for a word given twice, a number that is not finite, or sizes that do not fit.

    >>> vectors = WordVectors(words=("king", "queen"), matrix=np.eye(2, dtype=np.float32))
    >>> vectors["queen"].tolist(), "prince" in vectors, len(vectors), vectors.width
    ([0.0, 1.0], False, 2, 2)
    """

    words: Sequence[str]
    matrix: Matrix
    counts: Counts | None = None
    subwords: Subwords | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    name: str = "vectors"

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or self.matrix.dtype != np.float32:
            raise InputError(
                f"{self.name}: the matrix is {self.matrix.dtype} of the shape {self.matrix.shape}; give (N, W) float32"
            )
        if len(self.words) != len(self.matrix):
            raise InputError(f"{self.name}: {len(self.words):,} words have {len(self.matrix):,} vectors; give one each")
        if self.counts is not None and self.counts.shape != (len(self.words),):
            raise InputError(f"{self.name}: {len(self.words):,} words have counts of the shape {self.counts.shape}")
        if len(self.rows) != len(self.words):
            seen: set[str] = set()
            twice = next(word for word in self.words if word in seen or seen.add(word))
            raise InputError(f"{self.name}: the word {twice!r} is there twice; remove one of its lines")
        for start in range(0, len(self.matrix), CHUNK):
            fine = np.isfinite(self.matrix[start : start + CHUNK]).all(axis=1)
            if not fine.all():
                word = self.words[start + int(np.argmin(fine))]
                raise InputError(
                    f"{self.name}: the vector of {word!r} has a number that is not finite; remove its line"
                )

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def lengths(self) -> Matrix:
        """The Euclidean length of every vector, (N,)."""
        pieces = [
            np.linalg.norm(self.matrix[start : start + CHUNK], axis=1) for start in range(0, len(self.matrix), CHUNK)
        ]
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.float32)

    @property
    def width(self) -> int:
        """W."""
        return self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        """Whether the table itself has the word."""
        return word in self.rows

    def __getitem__(self, word: str) -> Matrix:
        """The word's vector, (W,): its row, or what its subwords make of it.

        Raises:
            InputError: for a word that has none, with the nearest spelling.
        """
        found = self.get(word)
        if found is None:
            raise InputError(f"{self.name}: has no vector of {word!r}; {self._hint(word)}")
        return found

    def get(self, word: str) -> Matrix | None:
        """The word's vector, (W,); None where it has none."""
        row = self.rows.get(word)
        if row is not None:
            return np.asarray(self.matrix[row])
        return None if self.subwords is None else self.subwords.vector(word)

    def has(self, word: str) -> bool:
        """Whether the word has a vector, its row or one made of subwords."""
        return word in self.rows or (self.subwords is not None and self.subwords.vector(word) is not None)

    def of(self, words: Iterable[str]) -> Matrix:
        """The vectors of some words, (n, W).

        Raises:
            InputError: as for one of them.
        """
        found = [self[word] for word in words]
        return np.stack(found) if found else np.empty((0, self.width), dtype=np.float32)

    def with_matrix(self, matrix: Matrix, **changes: Any) -> WordVectors:
        """The same words with other vectors, which subwords know nothing of."""
        return replace(self, matrix=matrix, **{"subwords": None} | changes)

    def only(self, rows: Sequence[int] | NDArray[np.integer]) -> WordVectors:
        """These rows alone, in this order; subwords stay.

        >>> WordVectors(words=("a", "b", "c"), matrix=np.eye(3, dtype=np.float32)).only([2, 0]).words
        ('c', 'a')
        """
        chosen = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            words=tuple(self.words[row] for row in chosen.tolist()),
            matrix=np.asarray(self.matrix[chosen]),
            counts=None if self.counts is None else self.counts[chosen],
        )

    def first(self, count: int) -> WordVectors:
        """The first words alone, which in most files are the commonest."""
        return self.only(range(min(count, len(self))))

    def _hint(self, word: str) -> str:
        for other in (word.lower(), word.capitalize(), word.upper()):
            if other != word and other in self.rows:
                return f"did you mean {other!r}?"
        import difflib

        close = difflib.get_close_matches(word, self.words[:50_000], n=1, cutoff=0.7)
        return f"did you mean {close[0]!r}?" if close else "ask for a word that was in the training text"
