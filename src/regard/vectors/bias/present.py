"""Which words of a list have a vector, and those vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.vectors.store import WordVectors

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Presence:
    """Vectors, asked for lists of words some of which they may lack; a vector of zeros has no direction, and counts as none.

    Arguments:
        vectors: of words.
    """

    vectors: WordVectors

    @property
    def name(self) -> str:
        """Of the vectors."""
        return self.vectors.name

    def has(self, word: str) -> bool:
        """Whether the word has a vector that is not zero."""
        found = self.vectors.get(word)
        return found is not None and bool(found.any())

    def of(self, words: Iterable[str]) -> tuple[str, ...]:
        """Those that have a vector, in their order."""
        return tuple(word for word in words if self.has(word))

    def missing(self, words: Iterable[str]) -> tuple[str, ...]:
        """Those that have none."""
        return tuple(word for word in words if not self.has(word))

    def vectors_of(self, words: Sequence[str]) -> Numbers:
        """The unit vectors of words that all have one, (n, W) float64."""
        return unit64(self.vectors.of(words).astype(np.float64))


def unit64(vectors: NDArray[np.floating]) -> Numbers:
    """Vectors (..., W) divided by their lengths, in float64; those of zeros stay.

    >>> unit64(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    wide = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    return wide / np.where(lengths > 0, lengths, 1.0)
