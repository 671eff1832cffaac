"""The counts that GloVe is trained on, in an order drawn at random, in a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.files import writing_errors
from regard.vectors.training.cooccurrence import Pairs

ENTRY = np.dtype([("row", "<i4"), ("column", "<i4"), ("count", "<f4")])
"""X_ij: the word i, the word j of its context, and the count, above 0."""

BYTES_AN_ENTRY = 64
"""That the shuffling takes for an entry at its worst."""

_MOST_FILES = 256


def shuffled(
    pieces: Iterable[Pairs], words: int, *, most: int, scratch: Path, memory: int, generator: np.random.Generator
) -> NDArray[np.void]:
    """Both directions of all pairs as entries, shuffled, and mapped from a file.

    The entries are dealt to as many files as make each fit into memory, and these are shuffled one by one.

    Arguments:
        words: by which the keys of the pairs are made.
        most: no fewer than there are pairs.
        scratch: the folder of the file.
        memory: bytes that the arrays may take together.

    Raises:
        InputError: for a full disk.
    """
    parts = int(min(_MOST_FILES, max(1, -(-2 * most * BYTES_AN_ENTRY // memory))))
    paths = [scratch / f"part-{number}" for number in range(parts)]
    target = scratch / "entries"
    with writing_errors(scratch), contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for piece in pieces:
            for start in range(0, len(piece.keys), 1 << 20):
                here = slice(start, start + (1 << 20))
                entries = _both_directions(Pairs(piece.keys[here], piece.sums[here]), words)
                dealt = generator.integers(parts, size=len(entries), dtype=np.uint8)
                ends = np.cumsum(np.bincount(dealt, minlength=parts))[:-1]
                for file, part in zip(files, np.split(entries[np.argsort(dealt, kind="stable")], ends), strict=True):
                    part.tofile(file)
    with writing_errors(scratch), target.open("wb") as whole:
        for path in paths:
            entries = np.fromfile(path, dtype=ENTRY)
            generator.shuffle(entries)
            entries.tofile(whole)
            path.unlink()
    return np.memmap(target, dtype=ENTRY, mode="r") if target.stat().st_size else np.empty(0, dtype=ENTRY)


def _both_directions(pairs: Pairs, words: int) -> NDArray[np.void]:
    first, second = np.divmod(pairs.keys, words)
    once = first == second  # a word near itself is in the context of either, and has one entry
    entries = np.empty(2 * len(first), dtype=ENTRY)
    entries["row"] = np.concatenate([first, second])
    entries["column"] = np.concatenate([second, first])
    entries["count"] = np.tile(np.where(once, 2 * pairs.sums, pairs.sums), 2)
    return entries[: len(first)] if once.all() else np.delete(entries, len(first) + np.flatnonzero(once))
