"""Which words of a list have a vector, and those vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regard.vectors.evaluation.lookup import Case, Lookup
from regard.vectors.store import WordVectors

Numbers = NDArray[np.float64]

NAMED = 8
"""Words without a vector that a sentence names; JSON has all."""


@dataclass(frozen=True)
class Presence:
    """Vectors, asked for lists of words some of which they may lack; a vector of zeros has no direction, and counts as none.

    Arguments:
        vectors: of words.
        case: how a word is found. `lower`: as it is written, or else in lower case, so that the names of a published test are
            found in lower-cased vectors, and "Will" is not taken for "will" where both have a vector.

    >>> vectors = WordVectors(words=("amy", "Will", "will"), matrix=np.eye(3, dtype=np.float32))
    >>> Presence(vectors).of(["Amy", "Will", "Zoe"]), Presence(vectors, "exact").of(["Amy", "Will", "Zoe"])
    (('amy', 'Will'), ('Will',))
    """

    vectors: WordVectors
    case: Case = "lower"

    @property
    def name(self) -> str:
        """Of the vectors."""
        return self.vectors.name

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(vectors=self.vectors, case=self.case)

    def form(self, word: str) -> str | None:
        """The form of the word that has a vector other than zero, such as "amy" for "Amy"; None where none has."""
        row = self._lookup.row(word)
        form = word if row is None else self.vectors.words[row]
        found = self.vectors.get(form)
        return form if found is not None and bool(found.any()) else None

    def forms(self, words: Iterable[str]) -> dict[str, str]:
        """The form of each word that has a vector, by the word; of several words with one form only the first."""
        first: dict[str, str] = {}
        found: dict[str, str] = {}
        for word in words:
            form = self.form(word)
            if form is not None and first.setdefault(form, word) == word:
                found[word] = form
        return found

    def of(self, words: Iterable[str]) -> tuple[str, ...]:
        """The forms of those that have a vector, in their order, each once."""
        return tuple(self.forms(words).values())

    def missing(self, words: Iterable[str]) -> tuple[str, ...]:
        """Those that have none, as they were written."""
        return tuple(word for word in words if self.form(word) is None)

    def vectors_of(self, words: Sequence[str]) -> Numbers:
        """The unit vectors of words that all have one, (n, W) float64."""
        return unit64(self.vectors.of(words).astype(np.float64))


def rows_of(vectors: WordVectors, words: Iterable[str]) -> list[int]:
    """The rows of those words that are in the table itself, each once: as they are written, or else in lower case.

    >>> rows_of(WordVectors(words=("mary", "she"), matrix=np.eye(2, dtype=np.float32)), ["Mary", "mary", "he"])
    [0]
    """
    lookup = Lookup(vectors=vectors, case="lower")
    return list(dict.fromkeys(row for row in map(lookup.row, words) if row is not None))


def said_missing(what: str, missing: Sequence[str], total: int) -> tuple[str, ...]:
    """A sentence about those words of a list that have no vector, with the first of their names; none where all have one.

    >>> said_missing("occupations", ["smith"], 3)
    ('occupations: 1 of 3 has no vector: smith',)
    """
    if not missing:
        return ()
    more = f" and {len(missing) - NAMED:,} more" if len(missing) > NAMED else ""
    have = "has" if len(missing) == 1 else "have"
    return (f"{what}: {len(missing):,} of {total:,} {have} no vector: {', '.join(missing[:NAMED])}{more}",)


def unit64(vectors: NDArray[np.floating]) -> Numbers:
    """Vectors (..., W) divided by their lengths, in float64; those of zeros stay.

    >>> unit64(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    wide = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    return wide / np.where(lengths > 0, lengths, 1.0)
