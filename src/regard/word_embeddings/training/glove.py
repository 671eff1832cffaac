"""GloVe (Pennington, Socher and Manning 2014): vectors whose dot products approximate log co-occurrence counts, by AdaGrad.

Co-occurrence counts that do not fit into memory are written to sorted files, which are merged. The shuffled list of counts for
training is a file too.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError
from regard.files import writing_errors
from regard.kernels import kernels
from regard.kernels.interface import LANES, CountTablesStruct
from regard.word_embeddings.store import Matrix
from regard.word_embeddings.training.corpus import Progress, Report, VectorSettings, Vocabulary, per_second, quiet

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


# Training.


MIB = 1 << 20

FEWEST_BATCHES = 100
"""The fewest batches per epoch; otherwise all entries of a small text would be one large step."""

_TOGETHER = 2_048
"""The number of dot products that are computed at a time, so that their inputs stay in the processor's cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GloveTables:
    """The learned parameters.

    Arguments:
        words, contexts: (N, W) float32, the word vectors w and the context vectors w~.
        word_biases, context_biases: (N,) float32, the biases b and b~.
        costs: for each epoch the mean over entries of f(X) (w w~ + b + b~ - log X)^2 / 2, each computed before its update.
    """

    words: Matrix
    contexts: Matrix
    word_biases: Matrix
    context_biases: Matrix
    costs: tuple[float, ...]

    @property
    def sum(self) -> Matrix:
        """The sum w + w~, which the paper evaluates."""
        return self.words + self.contexts


@dataclass(frozen=True, slots=True)
class _Table:
    """The parameters of words or of contexts, and their AdaGrad accumulators (sums of squared gradients).

    A row is (vector, bias, 1) in one table and (vector, 1, bias) in the other, filled up with zeros, so that the dot product of
    two rows includes both biases. The accumulators of 1 and of the zeros are infinite, so they never change.
    """

    rows: Tensor
    squares: Tensor
    width: int
    bias: int

    def vectors(self) -> Matrix:
        return self.rows[:, : self.width].to(torch.float32).numpy().copy()

    def biases(self) -> Matrix:
        return self.rows[:, self.bias].to(torch.float32).numpy().copy()


@dataclass(frozen=True, slots=True)
class _Side:
    """The rows of one table in a batch of B entries, U of them different.

    Arguments:
        ids: (U,), the different rows.
        local: (B,), the index into `ids` of each entry.
        order: (B,), the entries sorted by row.
        starts: (U,), the position in `order` where each row begins.
        counts: (U, 1), the number of entries of each row.
    """

    ids: Tensor
    local: Tensor
    order: Tensor
    starts: Tensor
    counts: Tensor


def glove_tables(
    sentences: Iterable[Sequence[str]],
    vocabulary: Vocabulary,
    settings: VectorSettings,
    *,
    scratch: Path,
    report: Report = quiet,
) -> tuple[GloveTables, dict[str, Any]]:
    """Count co-occurrences in a text and train GloVe on them.

    Arguments:
        sentences: lists of words.
        vocabulary: the vocabulary of the text.
        settings: the settings of training.
        scratch: an empty folder for temporary files.
        report: is called with the progress.

    Returns:
        The learned parameters; and the number of counts, the speed of counting and of training, and the final cost.

    Raises:
        InputError: as `train_vectors`.
    """
    began = time.monotonic()
    rows = {word: row for row, word in enumerate(vocabulary.words)}
    memory = settings.memory * MIB
    most, pieces = cooccurrences(sentences, rows, window=settings.window, scratch=scratch, memory=memory, report=report)
    generator = np.random.Generator(np.random.Philox(key=[settings.seed, 0x5EED]))
    entries = shuffled(pieces, len(vocabulary), most=most, scratch=scratch, memory=memory, generator=generator)
    counted = time.monotonic()
    tables = train_glove(entries, len(vocabulary), settings, report=report)
    ended = time.monotonic()
    facts = {
        "counts": len(entries),
        "words_per_second": per_second(vocabulary.tokens, counted - began),
        "counts_per_second": per_second(len(entries) * settings.epochs, ended - counted),
        "cost": tables.costs[-1],
    }
    return tables, facts


def train_glove(
    entries: NDArray[np.void],
    words: int,
    settings: VectorSettings,
    *,
    report: Report = quiet,
    dtype: torch.dtype = torch.float32,
) -> GloveTables:
    """Minimize the sum over X_ij > 0 of f(X_ij) (w_i w~_j + b_i + b~_j - log X_ij)^2 by AdaGrad.

    As in GloVe's own program, accumulators start at 1, a step divides by the square root of the accumulator before the step,
    and parameters are initialised uniformly from -0.5 / (W + 1) to 0.5 / (W + 1). The compiled kernel processes entries one
    after another, as that program does. Without it, and in float64, they are processed in batches, with a warning: a row that
    occurs once in a batch is updated as in the program; if a row occurs c times, its c gradients are computed at the same
    parameters, and their sum is divided by the square root of the mean of the accumulators that c single steps would have used.

    Arguments:
        entries: (n,) array of dtype `ENTRY`, in memory or memory-mapped. It is cut into batches in this order; each epoch
            processes the batches in a new random order, a batch in its own.
        words: N, the number of words.
        settings: the settings of training.
        report: is called with the progress.
        dtype: the dtype of parameters and accumulators.

    Raises:
        InputError: for no entries, or if numbers overflow because the learning rate is too high.
    """
    if not len(entries):
        raise InputError("no two words are near each other in the text; give sentences of two words or more")
    generator = np.random.Generator(np.random.Philox(key=[settings.seed, 0x610E]))
    left, right = (_table(words, settings.width, generator, bias, dtype) for bias in (0, 1))
    update = _updater(dtype)
    size = max(1, min(settings.batch, len(entries) // FEWEST_BATCHES))
    costs: list[float] = []
    for epoch in range(1, settings.epochs + 1):
        cost, done = 0.0, 0
        for batch in _batches(entries, size, generator):
            cost += update(left, right, batch, settings)
            done += len(batch)
            report(Progress(f"epoch {epoch} of {settings.epochs}", done, len(entries), "counts"))
        if not np.isfinite(cost):
            raise InputError(
                f"the vectors overflow in epoch {epoch}; lower learning_rate, which is {settings.learning_rate:g}"
            )
        costs.append(cost / len(entries))
    return GloveTables(
        words=left.vectors(),
        contexts=right.vectors(),
        word_biases=left.biases(),
        context_biases=right.biases(),
        costs=tuple(costs),
    )


def weights(counts: Tensor, settings: VectorSettings) -> Tensor:
    """GloVe's weighting function f of counts X; the same shape as `counts`.

    >>> weights(torch.tensor([1.0, 50.0, 500.0]), VectorSettings(method="glove", power=1.0)).tolist()
    [0.009999999776482582, 0.5, 1.0]
    """
    if settings.weighting == "none":
        return torch.ones_like(counts)
    if settings.weighting == "step":
        return (counts >= settings.largest_count).to(counts.dtype)
    return (counts / settings.largest_count).clamp(max=1.0) ** settings.power


def _table(words: int, width: int, generator: np.random.Generator, bias: int, dtype: torch.dtype) -> _Table:
    """Sampled parameters; the bias comes directly after the vector, or after the 1 (`bias` 0 or 1)."""
    stride = -(-(width + 2) // LANES) * LANES
    rows = torch.zeros(words, stride, dtype=dtype)
    rows[:, width : width + 2] = 1.0
    squares = torch.full((words, stride), float("inf"), dtype=dtype)
    sampled = (generator.random((words, width + 1), dtype=np.float32) - 0.5) / (
        width + 1
    )  # the program includes the bias in the width
    for columns, part in ((slice(width), sampled[:, :width]), ([width + bias], sampled[:, width:])):
        rows[:, columns] = torch.from_numpy(part).to(dtype)
        squares[:, columns] = 1.0
    return _Table(rows, squares, width, width + bias)


_Update = Callable[[_Table, _Table, NDArray[np.void], VectorSettings], float]


def _updater(dtype: torch.dtype) -> _Update:
    """What updates both tables for a batch and returns the sum of the entries' costs before their updates."""
    found = kernels()
    if found.library is None:
        warnings.warn(f"{found.why}: training GloVe takes several times as long", UserWarning, stacklevel=3)
    return partial(_each, found.library) if found.library is not None and dtype == torch.float32 else _update


def _each(
    library: ctypes.CDLL, left: _Table, right: _Table, batch: NDArray[np.void], settings: VectorSettings
) -> float:
    """Update both tables for one entry after another, by the kernel."""
    entries = np.ascontiguousarray(batch)
    counts = torch.from_numpy(entries["count"].copy())
    logs, factors = counts.log(), weights(counts, settings).contiguous()
    places = (each.data_ptr() for each in (left.rows, right.rows, left.squares, right.squares))
    tables = CountTablesStruct(*places, left.rows.shape[1])
    given = (entries.ctypes.data, logs.data_ptr(), factors.data_ptr(), len(entries))
    return library.regard_glove(tables, *given, settings.learning_rate, settings.clip)


def _batches(entries: NDArray[np.void], size: int, generator: np.random.Generator) -> Iterator[NDArray[np.void]]:
    for start in generator.permutation(np.arange(0, len(entries), size)).tolist():
        yield entries[start : start + size]


def _side(ids: NDArray[np.int32]) -> _Side:
    packed = (ids.astype(np.int64) << 32) | np.arange(len(ids))
    packed.sort()
    order, ordered = packed & 0xFFFFFFFF, packed >> 32
    first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    starts = np.flatnonzero(first)
    local = np.empty(len(ids), dtype=np.int64)
    local[order] = np.cumsum(first) - 1
    counts = np.diff(np.append(starts, len(ids)))[:, None]
    return _Side(*(torch.from_numpy(each) for each in (ordered[starts], local, order, starts, counts)))


def _update(left: _Table, right: _Table, batch: NDArray[np.void], settings: VectorSettings) -> float:
    """Update both tables for all entries of a batch at once, in PyTorch."""
    dtype = left.rows.dtype
    counts = torch.from_numpy(np.array(batch["count"])).to(dtype)
    one, other = _side(batch["row"]), _side(batch["column"])
    lefts, rights = _taken(left.rows, one.ids), _taken(right.rows, other.ids)
    wrong = _products(lefts, one.local, rights, other.local) - counts.log()
    pull = weights(counts, settings) * wrong
    steps = [
        _sums(mine, of, theirs, pull, settings) for mine, of, theirs in ((one, other, rights), (other, one, lefts))
    ]
    for table, side, rows, (gradients, squares) in zip(
        (left, right), (one, other), (lefts, rights), steps, strict=True
    ):
        before = _taken(table.squares, side.ids)
        met = torch.addcmul(before, squares, (side.counts - 1) / (2 * side.counts).to(dtype))
        _put(table.rows, side.ids, rows.addcdiv_(gradients, met.sqrt_(), value=-1.0))
        _put(table.squares, side.ids, before.add_(squares))
    return 0.5 * float(pull @ wrong)


def _taken(table: Tensor, ids: Tensor) -> Tensor:
    """Rows of a table; NumPy is faster than PyTorch here."""
    return torch.from_numpy(table.numpy().take(ids.numpy(), axis=0))


def _put(table: Tensor, ids: Tensor, rows: Tensor) -> None:
    table.numpy()[ids.numpy()] = rows.numpy()


def _products(lefts: Tensor, one: Tensor, rights: Tensor, other: Tensor) -> Tensor:
    """The dot product of the two rows of each entry, (B,)."""
    found = torch.empty(len(one), dtype=lefts.dtype)
    for start in range(0, len(one), _TOGETHER):
        here = slice(start, start + _TOGETHER)
        a, b = lefts.index_select(0, one[here]), rights.index_select(0, other[here])
        torch.sum(a.mul_(b), dim=1, out=found[here])
    return found


def _sums(mine: _Side, of: _Side, theirs: Tensor, pull: Tensor, settings: VectorSettings) -> tuple[Tensor, Tensor]:
    """For each row of a side: the sums of g and of g^2 over its entries, each (U, W + 2), with g = learning rate * gradient."""
    local, factors, rate = of.local[mine.order], pull[mine.order], settings.learning_rate
    if (
        float(pull.abs().max()) * max(map(abs, map(float, theirs.aminmax()))) > settings.clip
    ):  # some gradients may need clipping, so compute them one by one
        each = (factors[:, None] * theirs[local]).clamp_(-settings.clip, settings.clip).mul_(rate)
        rows = torch.repeat_interleave(mine.counts[:, 0])
        empty = each.new_zeros(len(mine.ids), each.shape[1])
        return empty.index_add(0, rows, each), empty.index_add(0, rows, each**2)
    gradients, squares = (
        F.embedding_bag(local, table, mine.starts, mode="sum", per_sample_weights=scale)
        for table, scale in ((theirs, rate * factors), (theirs**2, (rate * factors) ** 2))
    )
    return gradients, squares
