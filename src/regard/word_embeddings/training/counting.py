"""Co-occurrence counts of words for GloVe, in bounded memory, and in random order.

Counts that do not fit into memory are written to sorted files, which are merged. The shuffled list of counts for training is a
file too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.files import writing_errors
from regard.word_embeddings.training.corpus import Progress, Report, quiet

BYTES_A_PAIR = 96
"""The most memory per pair of words during counting, reached while two sorted lists are merged."""

_LEAST = 1_000

_FILES_MERGED = 64
"""The number of files that are merged at a time; each needs a part of the memory and an open file."""


class Pairs(NamedTuple):
    """Weighted co-occurrence counts of unordered word pairs, sorted by key.

    Arguments:
        keys: (n,) int64, `first * words + second` with first <= second, ascending.
        sums: (n,) float64, the weighted counts. For a pair of a word with itself, both directions together are counted once.
    """

    keys: NDArray[np.int64]
    sums: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """A sorted file of pairs.

    Arguments:
        keys, sums: the paths of the two files.
        size: the number of pairs.
        level: 0 for a file written by counting; for a merged file, 1 more than the level of its parts.
    """

    keys: Path
    sums: Path
    size: int
    level: int


def cooccurrences(
    sentences: Iterable[Sequence[str]],
    rows: Mapping[str, int],
    *,
    window: int,
    scratch: Path,
    memory: int,
    report: Report = quiet,
) -> tuple[int, Iterator[Pairs]]:
    """Weighted co-occurrence counts of all word pairs that are at most `window` words apart in a sentence.

    A pair at distance k adds 1 / k to its count (Pennington et al. 2014, section 4.2). Words outside the vocabulary are removed
    before distances are computed, as in GloVe's own program.

    Arguments:
        sentences: lists of words.
        rows: the row of each word in the vocabulary.
        window: the largest distance, in words.
        scratch: a folder for temporary files.
        memory: the most bytes for all arrays together.
        report: is called with the progress.

    Returns:
        An upper bound of the number of pairs, and an iterator of the pairs in sorted pieces, each pair once.

    Raises:
        InputError: if the disk is full.

    >>> import tempfile
    >>> rows = {"a": 0, "b": 1}
    >>> count, pieces = cooccurrences([["a", "b", "a"]], rows, window=2, scratch=Path(tempfile.mkdtemp()), memory=1 << 24)
    >>> [(divmod(key, 2), total) for piece in pieces for key, total in zip(piece.keys.tolist(), piece.sums.tolist())]
    [((0, 0), 0.5), ((0, 1), 2.0)]
    """
    most = max(_LEAST, memory // BYTES_A_PAIR)
    held: Pairs | None = None
    runs: list[_Run] = []
    tokens = 0
    for ids, numbers in _blocks(sentences, rows, max(_LEAST, most // (2 * window))):
        new = _counted(ids, numbers, len(rows), window)
        held = new if held is None else _merged([held, new])
        if len(held.keys) > most // 2:
            _append(runs, (held,), 0, scratch)
            held = None
            _merge_full_levels(runs, most, scratch)
        tokens += len(ids)
        report(Progress("counting pairs", tokens, None, "words"))
    if not runs:
        return (0, iter(())) if held is None else (len(held.keys), iter((held,)))
    if held is not None:
        _append(runs, (held,), 0, scratch)
    return sum(run.size for run in runs), _from_files(runs, most)


def _blocks(
    sentences: Iterable[Sequence[str]], rows: Mapping[str, int], size: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
    """Blocks of whole sentences with at least `size` words: the row of each word, and the number of its sentence."""
    ids: list[int] = []
    ends: list[int] = []
    for sentence in sentences:
        ids.extend(rows[word] for word in sentence if word in rows)
        ends.append(len(ids))
        if len(ids) >= size:
            yield _block(ids, ends)
            ids, ends = [], []
    if ids:
        yield _block(ids, ends)


def _block(ids: list[int], ends: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    lengths = np.diff(np.array([0, *ends]))
    return np.array(ids, dtype=np.int64), np.repeat(np.arange(len(ends), dtype=np.int32), lengths)


def _counted(ids: NDArray[np.int64], numbers: NDArray[np.int32], words: int, window: int) -> Pairs:
    """The pairs of a block. Keys carry the distance in their lowest bits, so that one sort groups equal pairs."""
    bits = window.bit_length()
    pieces = []
    for distance in range(1, min(window, len(ids) - 1) + 1):
        together = numbers[distance:] == numbers[:-distance]
        left, right = ids[:-distance][together], ids[distance:][together]
        keys = np.minimum(left, right) * words + np.maximum(left, right)
        pieces.append((keys << bits) | distance)
    packed = np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)
    del pieces
    packed.sort()
    sums = 1.0 / (packed & ((1 << bits) - 1))
    packed >>= bits
    return _summed(packed, sums)


def _summed(keys: NDArray[np.int64], sums: NDArray[np.float64]) -> Pairs:
    """Merge equal keys of a sorted list by adding their sums."""
    if not len(keys):
        return Pairs(keys, sums)
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return Pairs(keys[starts], np.add.reduceat(sums, starts))


def _merged(lists: Sequence[Pairs]) -> Pairs:
    keys = np.concatenate([each.keys for each in lists])
    order = np.argsort(keys, kind="stable")  # the stable sort is fast for a concatenation of sorted lists
    return _summed(keys[order], np.concatenate([each.sums for each in lists])[order])


def _append(runs: list[_Run], pieces: Iterable[Pairs], level: int, scratch: Path) -> None:
    """Write `pieces` to a new file of pairs."""
    name = f"{level}-{sum(run.level == level for run in runs)}"
    keys, sums, size = scratch / f"keys-{name}", scratch / f"sums-{name}", 0
    with writing_errors(scratch), keys.open("wb") as to_keys, sums.open("wb") as to_sums:
        for piece in pieces:
            piece.keys.tofile(to_keys)
            piece.sums.tofile(to_sums)
            size += len(piece.keys)
    runs.append(_Run(keys=keys, sums=sums, size=size, level=level))


def _merge_full_levels(runs: list[_Run], most: int, scratch: Path) -> None:
    """Merge every 64 files of one level into one file of the next level, so that few files are open at a time.

    Each level writes every pair once more; a text with 64 * 64 files has two levels.
    """
    while len(last := [run for run in runs if run.level == runs[-1].level]) == _FILES_MERGED:
        del runs[-len(last) :]
        _append(runs, _from_files(last, most), last[0].level + 1, scratch)


def _read(run: _Run, start: int, count: int) -> Pairs:
    return Pairs(
        np.fromfile(run.keys, dtype=np.int64, count=count, offset=8 * start),
        np.fromfile(run.sums, dtype=np.float64, count=count, offset=8 * start),
    )


def _from_files(runs: Sequence[_Run], most: int) -> Iterator[Pairs]:
    """Merge sorted files with `most` / 2 pairs in memory; the files are removed afterwards.

    The keys that were read are complete up to the smallest of the last keys of the files with more pairs to read.
    """
    size = max(_LEAST, most // (2 * len(runs)))
    places = [0] * len(runs)
    while any(place < run.size for place, run in zip(places, runs, strict=True)):
        read = [_read(run, place, size) for place, run in zip(places, runs, strict=True)]
        goes_on = [place + size < run.size for place, run in zip(places, runs, strict=True)]
        lasts = [int(each.keys[-1]) for each, more in zip(read, goes_on, strict=True) if more]
        taken = [
            int(np.searchsorted(each.keys, min(lasts), side="right")) if lasts else len(each.keys) for each in read
        ]
        yield _merged([Pairs(each.keys[:end], each.sums[:end]) for each, end in zip(read, taken, strict=True)])
        places = [place + end for place, end in zip(places, taken, strict=True)]
    for run in runs:
        run.keys.unlink()
        run.sums.unlink()


# The training entries of GloVe, in random order.

ENTRY = np.dtype([("row", "<i4"), ("column", "<i4"), ("count", "<f4")])
"""X_ij: the word i, the context word j, and the count, which is above 0."""

BYTES_AN_ENTRY = 64
"""The most memory per entry during shuffling."""

_MOST_FILES = 256


def shuffled(
    pieces: Iterable[Pairs], words: int, *, most: int, scratch: Path, memory: int, generator: np.random.Generator
) -> NDArray[np.void]:
    """The entries of both directions of all pairs, shuffled, memory-mapped from a file.

    The entries are distributed at random to several files, each of which fits into memory and is then shuffled.

    Arguments:
        pieces: the pairs.
        words: the number of words, which the keys of the pairs were computed with.
        most: an upper bound of the number of pairs.
        scratch: a folder for temporary files.
        memory: the most bytes for all arrays together.
        generator: random number generator.

    Returns:
        (n,) array of dtype `ENTRY`.

    Raises:
        InputError: if the disk is full.
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
    once = first == second  # a word with itself has one entry, with the counts of both directions
    entries = np.empty(2 * len(first), dtype=ENTRY)
    entries["row"] = np.concatenate([first, second])
    entries["column"] = np.concatenate([second, first])
    entries["count"] = np.tile(np.where(once, 2 * pairs.sums, pairs.sums), 2)
    return entries[: len(first)] if once.all() else np.delete(entries, len(first) + np.flatnonzero(once))
