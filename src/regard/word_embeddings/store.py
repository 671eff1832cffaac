"""A table of word embeddings, and embeddings of other words from their character n-grams, as in fastText."""

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
"""The number of rows that are read together, so that an array in a file is never completely in memory."""


class Subwords(Protocol):
    """Computes a vector for a word that is not in the table, for example from fastText's n-grams."""

    def vector(self, word: str) -> Matrix | None:
        """The vector of a word, (W,) float32; None if it has none."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class WordVectors:
    """Word embeddings: a vector for each of N words, in the order of their file, which usually has frequent words first.

    The matrix can be memory-mapped from a file; it is never copied completely.

    Arguments:
        words: all different.
        matrix: (N, W) float32, finite.
        counts: (N,) int64, the frequency of each word in training; None if unknown.
        subwords: compute vectors for other words; None = no vectors for other words.
        metadata: how the vectors were trained, as JSON values.
        name: for messages and tables.

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
        """The Euclidean norm of every vector, (N,)."""
        pieces = [
            np.linalg.norm(self.matrix[start : start + CHUNK], axis=1) for start in range(0, len(self.matrix), CHUNK)
        ]
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.float32)

    @property
    def width(self) -> int:
        """W, the dimension of the vectors."""
        return self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        """Whether the table has the word."""
        return word in self.rows

    def __getitem__(self, word: str) -> Matrix:
        """The vector of a word, (W,): its row, or computed from its subwords.

        Raises:
            InputError: for a word without a vector; the message names the most similar word.
        """
        found = self.get(word)
        if found is None:
            raise InputError(f"{self.name}: has no vector of {word!r}; {self._hint(word)}")
        return found

    def get(self, word: str) -> Matrix | None:
        """The vector of a word, (W,); None if it has none."""
        row = self.rows.get(word)
        if row is not None:
            return np.asarray(self.matrix[row])
        return None if self.subwords is None else self.subwords.vector(word)

    def has(self, word: str) -> bool:
        """Whether the word has a vector, from the table or from its subwords."""
        return word in self.rows or (self.subwords is not None and self.subwords.vector(word) is not None)

    def of(self, words: Iterable[str]) -> Matrix:
        """The vectors of some words, (n, W).

        Raises:
            InputError: for a word without a vector.
        """
        found = [self[word] for word in words]
        return np.stack(found) if found else np.empty((0, self.width), dtype=np.float32)

    def with_matrix(self, matrix: Matrix, **changes: Any) -> WordVectors:
        """The same words with other vectors, without subwords."""
        return replace(self, matrix=matrix, **{"subwords": None} | changes)

    def only(self, rows: Sequence[int] | NDArray[np.integer]) -> WordVectors:
        """Only these rows, in this order; subwords are kept.

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
        """Only the first words, which in most files are the most frequent ones."""
        return self.only(range(min(count, len(self))))

    def _hint(self, word: str) -> str:
        for other in (word.lower(), word.capitalize(), word.upper()):
            if other != word and other in self.rows:
                return f"did you mean {other!r}?"
        import difflib

        close = difflib.get_close_matches(word, self.words[:50_000], n=1, cutoff=0.7)
        return f"did you mean {close[0]!r}?" if close else "ask for a word that was in the training text"


# Vectors of other words from their n-grams.


Rows = NDArray[np.int64]

BEGIN, END = "<", ">"
SENTENCE_END = "</s>"
"""fastText's word for the end of a line, which has no n-grams."""

BASIS, PRIME = 2166136261, 16777619
LONGEST = 256
"""The largest number of characters of an n-gram."""

TOGETHER = 1 << 13
"""The number of table rows that are summed together."""


def ngrams(word: str, minimum: int = 3, maximum: int = 6) -> list[str]:
    """The n-grams of <word>, of `minimum` to `maximum` characters, in fastText's order.

    N-grams of one character do not include the two marks.

    >>> ngrams("cat", 3, 4)
    ['<ca', '<cat', 'cat', 'cat>', 'at>']
    """
    if word == SENTENCE_END:
        return []
    marked = BEGIN + word + END
    return [
        marked[start:end]
        for start in range(len(marked))
        for end in range(start + max(minimum, 1), min(start + maximum, len(marked)) + 1)
        if end - start > 1 or 0 < start < len(marked) - 1
    ]


def ngram_hash(ngram: str) -> int:
    """The FNV-1a hash (32 bits) of the UTF-8 bytes, as signed numbers, as in fastText.

    >>> ngram_hash("<ca") % 2_000_000
    916747
    """
    value = BASIS
    for byte in ngram.encode(errors="surrogatepass"):
        value ^= byte if byte < 128 else byte | 0xFFFFFF00
        value = value * PRIME & 0xFFFFFFFF
    return value


def ngram_rows(words: Sequence[str], buckets: int, minimum: int = 3, maximum: int = 6) -> tuple[Rows, Rows]:
    """The rows of the n-grams of many words, in a table with this many rows.

    Returns:
        The rows of all words, concatenated, and the number of rows of each word, (len(words),).

    >>> rows, counts = ngram_rows(["cat", "</s>"], 2_000_000, 3, 4)
    >>> counts.tolist(), rows[0] == ngram_hash("<ca") % 2_000_000
    ([5, 0], np.True_)
    """
    if not words:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    marked = [BEGIN + word + END if word != SENTENCE_END else "" for word in words]
    lengths = np.array([len(each) for each in marked])
    maximum = max(1, min(maximum, int(lengths.max())))
    ends = np.cumsum(lengths)
    letters = np.frombuffer("".join(marked).encode("utf-32-le", errors="surrogatepass"), dtype="<u4")
    left = np.repeat(ends, lengths) - np.arange(
        len(letters)
    )  # the number of characters from each to the end of its word
    size, utf_8 = _signed_utf_8(letters)
    hashes = np.zeros((len(letters), maximum), dtype=np.uint32)
    asked = np.zeros((len(letters), maximum), dtype=bool)
    starts, values = np.arange(len(letters)), np.full(len(letters), BASIS, dtype=np.uint32)
    for length in range(1, maximum + 1):
        fits = left[starts] >= length
        starts, values = starts[fits], values[fits]
        last = starts + length - 1
        for byte in range(4):
            there = size[last] > byte
            values[there] = (values[there] ^ utf_8[byte][last[there]]) * np.uint32(PRIME)
        hashes[starts, length - 1] = values
        asked[starts, length - 1] = length >= minimum
    if minimum <= 1:
        asked[ends[lengths > 0] - lengths[lengths > 0], 0] = False
        asked[ends[lengths > 0] - 1, 0] = False
    owners = np.repeat(np.arange(len(words)), lengths)
    counts = np.bincount(owners, weights=asked.sum(axis=1), minlength=len(words)).astype(np.int64)
    return (hashes[asked] % np.uint32(buckets)).astype(np.int64), counts


def _signed_utf_8(letters: NDArray[np.uint32]) -> tuple[NDArray[np.int64], list[NDArray[np.uint32]]]:
    """The number of UTF-8 bytes of each character, and its first, second, third and fourth byte, sign-extended."""
    size = 1 + (letters > 0x7F).astype(np.int64) + (letters > 0x7FF) + (letters > 0xFFFF)
    marks = np.array([0, 0, 0xC0, 0xE0, 0xF0], dtype=np.uint32)[size]
    found = []
    for place in range(4):
        shift = 6 * np.maximum(size - 1 - place, 0).astype(np.uint32)
        bits = letters >> shift
        byte = np.where(place == 0, bits | marks, (bits & 0x3F) | 0x80).astype(np.uint32)
        found.append(np.where(byte > 0x7F, byte | np.uint32(0xFFFFFF00), byte))
    return size, found


@dataclass(frozen=True, kw_only=True, eq=False)
class NgramSubwords:
    """Embeddings of words that are not in the table: the mean over their n-grams (Bojanowski et al. 2017, section 3.2).

        vector(w) = 1 / |G(w)|  sum over g in G(w) of table[hash(g) mod B]

    Arguments:
        table: (B, W) float32; it can be memory-mapped from a file.
        minimum, maximum: the lengths of n-grams, in characters.

    Raises:
        InputError: for a table of another shape, or lengths that do not fit.

    >>> subwords = NgramSubwords(table=np.ones((10, 2), dtype=np.float32))
    >>> subwords.vector("cats").tolist(), subwords.vector("</s>")
    ([1.0, 1.0], None)
    """

    table: Matrix
    minimum: int = 3
    maximum: int = 6

    def __post_init__(self) -> None:
        if self.table.ndim != 2 or self.table.dtype != np.float32 or not len(self.table):
            raise InputError(
                f"the table of n-grams is {self.table.dtype} of the shape {self.table.shape}; give (B, W) float32"
            )
        if not 1 <= self.minimum <= self.maximum <= LONGEST:
            raise InputError(
                f"n-grams of {self.minimum} to {self.maximum} characters are not possible; "
                f"give 1 <= minimum <= maximum <= {LONGEST}"
            )

    def rows(self, word: str) -> Rows:
        """The row of each of the word's n-grams."""
        found = [ngram_hash(ngram) % len(self.table) for ngram in ngrams(word, self.minimum, self.maximum)]
        return np.array(found, dtype=np.int64)

    def vector(self, word: str) -> Matrix | None:
        """The mean of the rows, (W,) float32; None for a word without n-grams."""
        rows = self.rows(word)
        if not len(rows):
            return None
        total = np.zeros(self.table.shape[1])
        for start in range(0, len(rows), TOGETHER):
            total += self.table[rows[start : start + TOGETHER]].sum(axis=0, dtype=np.float64)
        return (total / len(rows)).astype(np.float32)

    def sums(self, words: Sequence[str]) -> tuple[NDArray[np.float64], Rows]:
        """For each of many words the sum of its rows, (n, W) float64, and their number, (n,)."""
        rows, counts = ngram_rows(words, len(self.table), self.minimum, self.maximum)
        totals = np.zeros((len(words), self.table.shape[1]))
        some = np.flatnonzero(counts)
        ends = np.cumsum(counts[some])
        first = 0
        while first < len(some):  # process as many words at once as have at most TOGETHER rows
            before = ends[first] - counts[some[first]]
            beyond = max(int(np.searchsorted(ends, before + TOGETHER, side="right")), first + 1)
            here = rows[before : ends[beyond - 1]]
            starts = ends[first:beyond] - counts[some[first:beyond]] - before
            totals[some[first:beyond]] = np.add.reduceat(self.table[here].astype(np.float64), starts, axis=0)
            first = beyond
        return totals, counts
