"""How often words stand near each other, and the shuffled list of these counts that GloVe is trained on.

Counting is in pieces: what does not fit into memory goes to sorted files, which are merged; the list is a file too.
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
"""That the counting takes for a pair of words at its worst, while two sorted lists become one."""

_LEAST = 1_000


class Pairs(NamedTuple):
    """Pairs of words and their counts, in rising order of `first * words + second` where first is not above second.

    Arguments:
        keys: those numbers, (n,) int64.
        sums: the weighted counts, (n,) float64: of a word with itself once for the two directions.
    """

    keys: NDArray[np.int64]
    sums: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """Pairs in a file."""

    keys: Path
    sums: Path
    size: int


def cooccurrences(
    sentences: Iterable[Sequence[str]],
    rows: Mapping[str, int],
    *,
    window: int,
    scratch: Path,
    memory: int,
    report: Report = quiet,
) -> tuple[int, Iterator[Pairs]]:
    """The weighted counts of all pairs of words that stand in one sentence at most `window` words apart.

    A pair at the distance k counts 1 / k (Pennington et al. 2014, section 4.2). Words without a row are left out before the
    distances are taken, as GloVe's own program does it.

    Arguments:
        rows: the row of each word.
        scratch: a folder for sorted files.
        memory: bytes that the arrays may take together.

    Returns:
        No fewer than the pairs there are, and the pairs, each once, in pieces.

    Raises:
        InputError: for a full disk.

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
            runs.append(_written(held, scratch, len(runs)))
            held = None
        tokens += len(ids)
        report(Progress("counting pairs", tokens, None, "words"))
    if not runs:
        return (0, iter(())) if held is None else (len(held.keys), iter((held,)))
    if held is not None:
        runs.append(_written(held, scratch, len(runs)))
    return sum(run.size for run in runs), _from_files(runs, max(_LEAST, most // (2 * len(runs))))


def _blocks(
    sentences: Iterable[Sequence[str]], rows: Mapping[str, int], size: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
    """Rows of words, and the numbers of their sentences: whole sentences, of `size` words or a few more."""
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
    """The pairs of a block. A key carries the distance in its last bits, so that one sort brings like pairs together."""
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
    """Sorted keys, each once, with the sum of what it had."""
    if not len(keys):
        return Pairs(keys, sums)
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return Pairs(keys[starts], np.add.reduceat(sums, starts))


def _merged(lists: Sequence[Pairs]) -> Pairs:
    keys = np.concatenate([each.keys for each in lists])
    order = np.argsort(keys, kind="stable")  # which takes sorted lists as they are and merges them
    return _summed(keys[order], np.concatenate([each.sums for each in lists])[order])


def _written(pairs: Pairs, scratch: Path, number: int) -> _Run:
    run = _Run(keys=scratch / f"keys-{number}", sums=scratch / f"sums-{number}", size=len(pairs.keys))
    with writing_errors(scratch):
        pairs.keys.tofile(run.keys)
        pairs.sums.tofile(run.sums)
    return run


def _read(run: _Run, start: int, count: int) -> Pairs:
    return Pairs(
        np.fromfile(run.keys, dtype=np.int64, count=count, offset=8 * start),
        np.fromfile(run.sums, dtype=np.float64, count=count, offset=8 * start),
    )


def _from_files(runs: Sequence[_Run], size: int) -> Iterator[Pairs]:
    """The merger of sorted files, `size` pairs of each in memory.

    Of what is read, all is complete up to the smallest of the last keys of those files that go on.
    """
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


# The entries of GloVe's training, in an order drawn at random.

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
