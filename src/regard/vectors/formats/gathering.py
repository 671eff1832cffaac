"""Pieces of a table of vectors, as readers hand them on, made one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.vectors.store import CHUNK, Counts, Matrix

Say = Callable[[str], None]


class Piece(NamedTuple):
    """Some words after one another and their vectors, (n, W) float32."""

    words: list[str]
    matrix: Matrix


class Table(NamedTuple):
    """Words, their vectors (N, W) and, where they are known, how often each was seen."""

    words: list[str]
    matrix: Matrix
    counts: Counts | None = None


def gathered(pieces: Iterable[Matrix], width: int) -> Matrix:
    """All rows; each piece is let go as soon as it is copied, so that the table never stands in memory twice.

    >>> gathered(iter([np.ones((1, 2), dtype=np.float32)] * 2), 2).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    kept = deque(pieces)
    matrix = np.empty((sum(len(piece) for piece in kept), width), dtype=np.float32)
    row = 0
    while kept:
        piece = kept.popleft()
        matrix[row : row + len(piece)] = piece
        row += len(piece)
    return matrix


def table_of(pieces: Iterable[Piece], width: int) -> Table:
    """The words and vectors of all pieces."""
    words: list[str] = []

    def matrices() -> Iterator[Matrix]:
        for piece in pieces:
            words.extend(piece.words)
            yield piece.matrix

    matrix = gathered(matrices(), width)
    return Table(words=words, matrix=matrix)


def without_repeats(table: Table, where: Callable[[int], str], say: Say) -> Table:
    """Every word once, with its first vector, as in gensim; what is left out is said, with the first of them.

    Arguments:
        table: whose rows are moved.
        where: names the place of a row in the file.
    """
    rows: dict[str, int] = {}
    for row, word in enumerate(table.words):
        rows.setdefault(word, row)
    count = len(table.words)
    if len(rows) == count:
        return table
    row = next(row for row, word in enumerate(table.words) if rows[word] != row)
    word = table.words[row]
    say(
        f"{count - len(rows):,} of {count:,} vectors are left out, because their words have one already: "
        f"the first is {word!r}, {where(row)}, after {where(rows[word])}"
    )
    keep = np.fromiter(rows.values(), dtype=np.int64, count=len(rows))
    matrix = table.matrix
    for start in range(0, len(keep), CHUNK):  # rows only ever move up, so none is lost
        chosen = keep[start : start + CHUNK]
        matrix[start : start + len(chosen)] = matrix[chosen]
    counts = None if table.counts is None else table.counts[keep]
    return Table(words=list(rows), matrix=matrix[: len(keep)], counts=counts)


def described(kind: str, path: Path, stored: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The metadata of vectors that were read: what the file says, its format, and where it is.

    Where the file says itself that its vectors were read from another one, that stays as their origin.

    >>> described("folder", Path("b"), {"format": "glove", "source": "a.txt"})
    {'origin': {'format': 'glove', 'source': 'a.txt'}, 'format': 'folder', 'source': 'b'}
    """
    kept = dict(stored or {})
    before = {name: kept.pop(name) for name in ("format", "source") if name in kept}
    if before and "origin" not in kept:
        kept["origin"] = before
    return kept | {"format": kind, "source": str(path)}
