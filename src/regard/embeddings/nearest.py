"""Search by meaning: the vectors nearest to one, exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.embeddings.pooling import unit
from regard.errors import InputError

CHUNK = 1 << 16
"""Rows compared at once: an array in a file is read piece by piece."""


class Nearest(NamedTuple):
    """What was found for some queries, the best first.

    Arguments:
        rows: (Q, K) int64, which vectors.
        cosines: (Q, K) float32.
    """

    rows: NDArray[np.int64]
    cosines: NDArray[np.float32]


def nearest(vectors: NDArray[np.float32], queries: NDArray[np.float32], count: int, *, chunk: int = CHUNK) -> Nearest:
    """The vectors with the largest cosines to each query; of those alike the first ones come first.

    Every vector is looked at: what is found is what is there. A memory-mapped array is read once, in pieces.

    Arguments:
        vectors: (N, W), of any length but zero; one of zeros is at a cosine of 0 to all.
        queries: (Q, W).
        count: K, or N where there are fewer.
        chunk: rows compared at once. It changes memory and speed.

    Raises:
        InputError: for widths that differ, or a count below 1.

    >>> found = nearest(np.eye(3, dtype=np.float32), np.array([[0.0, 2.0, 1.0]], dtype=np.float32), 2)
    >>> found.rows.tolist(), found.cosines.round(3).tolist()
    ([[1, 2]], [[0.8939999938011169, 0.44699999690055847]])
    """
    if vectors.ndim != 2 or queries.ndim != 2 or vectors.shape[1] != queries.shape[1]:
        raise InputError(
            f"vectors of the shape {vectors.shape} are searched for {queries.shape}; give (N, W) and (Q, W), of one model"
        )
    if count < 1:
        raise InputError(f"count is {count}; give 1 or more")
    wanted = unit(np.asarray(queries, dtype=np.float32))
    rows = np.empty((len(queries), 0), dtype=np.int64)
    cosines = np.empty((len(queries), 0), dtype=np.float32)
    for start in range(0, len(vectors), chunk):
        piece = unit(np.asarray(vectors[start : start + chunk], dtype=np.float32))
        found = wanted @ piece.T
        rows = np.concatenate([rows, np.broadcast_to(np.arange(start, start + len(piece)), found.shape)], axis=1)
        cosines = np.concatenate([cosines, found], axis=1)
        # What was found before stands before, so a stable order keeps the first of those alike.
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
        rows, cosines = np.take_along_axis(rows, best, axis=1), np.take_along_axis(cosines, best, axis=1)
    return Nearest(rows, cosines)
