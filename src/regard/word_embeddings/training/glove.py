"""GloVe (Pennington, Socher and Manning 2014): vectors whose products are the logarithms of counts, by AdaGrad.

The counts are how often words stand near each other. What does not fit into memory goes to sorted files, which are merged; the
shuffled list of counts that is trained on is a file too.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError
from regard.files import writing_errors
from regard.word_embeddings.store import Matrix
from regard.word_embeddings.training.corpus import Progress, Report, VectorSettings, Vocabulary, per_second, quiet

BYTES_A_PAIR = 96
"""That the counting takes for a pair of words at its worst, while two sorted lists become one."""

_LEAST = 1_000

_FILES_MERGED = 64
"""At once: each has its part of the memory, and its open file."""


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
    """Pairs in a file.

    Arguments:
        level: 0 as counted, 1 more than its parts where it was merged.
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
    """The weighted counts of all pairs of words that are in one sentence at most `window` words apart.

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


def _append(runs: list[_Run], pieces: Iterable[Pairs], level: int, scratch: Path) -> None:
    """Write one more file of pairs: `pieces`, one after the other."""
    name = f"{level}-{sum(run.level == level for run in runs)}"
    keys, sums, size = scratch / f"keys-{name}", scratch / f"sums-{name}", 0
    with writing_errors(scratch), keys.open("wb") as to_keys, sums.open("wb") as to_sums:
        for piece in pieces:
            piece.keys.tofile(to_keys)
            piece.sums.tofile(to_sums)
            size += len(piece.keys)
    runs.append(_Run(keys=keys, sums=sums, size=size, level=level))


def _merge_full_levels(runs: list[_Run], most: int, scratch: Path) -> None:
    """Merge each 64 files of one level into a file of the next, so that however long a text is, few are open at once.

    A pair is written once more for every level; a text of 64 * 64 files has two.
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
    """The merger of sorted files, half of `most` pairs in memory; the files are removed.

    Of what is read, all is complete up to the smallest of the last keys of those files that continue.
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


# The entries of GloVe's training, in an order random.

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


# Training.


MIB = 1 << 20

FEWEST_BATCHES = 100
"""In an epoch: few entries in one batch would be one large step."""

_TOGETHER = 2_048
"""Products that are taken at once, so that what they are taken of stays in the processor's cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GloveTables:
    """What is learned.

    Arguments:
        words, contexts: w and w~, (N, W) float32.
        word_biases, context_biases: b and b~, (N,) float32.
        costs: of each epoch, the mean of f(X) (w w~ + b + b~ - log X)^2 / 2 as it was met.
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
    """One side: its parameters, and the sums of their squared gradients.

    A row is a vector, its bias and a 1, or a vector, a 1 and its bias, so that the product of two rows has both biases in it. The
    1 has an infinite sum, and stays.
    """

    rows: Tensor
    squares: Tensor
    bias: int

    def vectors(self) -> Matrix:
        return self.rows[:, :-2].to(torch.float32).numpy().copy()

    def biases(self) -> Matrix:
        return self.rows[:, self.bias].to(torch.float32).numpy().copy()


@dataclass(frozen=True, slots=True)
class _Side:
    """What a batch has of one table.

    Arguments:
        ids: the different rows, (U,).
        local: which of them each entry has, (B,).
        order: the entries by row, (B,).
        starts: where in this order each row begins, (U,).
        counts: how many entries it has, (U, 1).
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
    """What GloVe learns of a text, and how many counts there were, how fast they were made and learned, and the cost at the end.

    Arguments:
        vocabulary: of the text.
        scratch: an empty folder.

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
    """The minimum of the sum over X_ij > 0 of f(X_ij) (w_i w~_j + b_i + b~_j - log X_ij)^2, by AdaGrad.

    As in GloVe's own program an accumulator starts at 1, a step divides by the root of the accumulator as it was before it, and
    all parameters are sampled evenly from -0.5 to 0.5 over the width. Entries are taken in batches. A row that a batch has once
    moves exactly as there. Of one that it has c times the c gradients are taken at one place, and divided by the root of the mean
    of the accumulators that the c would have met.

    Arguments:
        entries: of the type `ENTRY`, in memory or a file, in the order in which they are cut into batches; the batches come in a
            new order in every epoch.
        words: N.
        dtype: of the sums.

    Raises:
        InputError: where there are no entries, or the learning rate is so high that numbers overflow.
    """
    if not len(entries):
        raise InputError("no two words are near each other in the text; give sentences of two words or more")
    generator = np.random.Generator(np.random.Philox(key=[settings.seed, 0x610E]))
    left, right = (_table(words, settings.width, generator, bias, dtype) for bias in (-2, -1))
    size = max(1, min(settings.batch, len(entries) // FEWEST_BATCHES))
    costs: list[float] = []
    for epoch in range(1, settings.epochs + 1):
        cost, done = 0.0, 0
        for batch in _batches(entries, size, generator):
            cost += _update(left, right, batch, settings)
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
    """f: how much each count matters.

    >>> weights(torch.tensor([1.0, 50.0, 500.0]), VectorSettings(method="glove", power=1.0)).tolist()
    [0.009999999776482582, 0.5, 1.0]
    """
    if settings.weighting == "none":
        return torch.ones_like(counts)
    if settings.weighting == "step":
        return (counts >= settings.largest_count).to(counts.dtype)
    return (counts / settings.largest_count).clamp(max=1.0) ** settings.power


def _table(words: int, width: int, generator: np.random.Generator, bias: int, dtype: torch.dtype) -> _Table:
    rows = torch.ones(words, width + 2, dtype=dtype)
    squares = torch.full((words, width + 2), float("inf"), dtype=dtype)
    drawn = (generator.random((words, width + 1), dtype=np.float32) - 0.5) / (
        width + 1
    )  # the program counts the bias in
    for columns, part in ((slice(width), drawn[:, :width]), ([width + 2 + bias], drawn[:, width:])):
        rows[:, columns] = torch.from_numpy(part).to(dtype)
        squares[:, columns] = 1.0
    return _Table(rows, squares, bias)


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
    """One step on both tables; the sum of the entries' costs."""
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
    """Rows of a table; by numpy, which is the faster at this."""
    return torch.from_numpy(table.numpy().take(ids.numpy(), axis=0))


def _put(table: Tensor, ids: Tensor, rows: Tensor) -> None:
    table.numpy()[ids.numpy()] = rows.numpy()


def _products(lefts: Tensor, one: Tensor, rights: Tensor, other: Tensor) -> Tensor:
    """The product of the rows of every entry, (B,)."""
    found = torch.empty(len(one), dtype=lefts.dtype)
    for start in range(0, len(one), _TOGETHER):
        here = slice(start, start + _TOGETHER)
        a, b = lefts.index_select(0, one[here]), rights.index_select(0, other[here])
        torch.sum(a.mul_(b), dim=1, out=found[here])
    return found


def _sums(mine: _Side, of: _Side, theirs: Tensor, pull: Tensor, settings: VectorSettings) -> tuple[Tensor, Tensor]:
    """For each row of a side, (U, W + 2): the sum of its entries' gradients times the learning rate, and of their squares."""
    local, factors, rate = of.local[mine.order], pull[mine.order], settings.learning_rate
    if (
        float(pull.abs().max()) * max(map(abs, map(float, theirs.aminmax()))) > settings.clip
    ):  # one by one, since each is clipped
        each = (factors[:, None] * theirs[local]).clamp_(-settings.clip, settings.clip).mul_(rate)
        rows = torch.repeat_interleave(mine.counts[:, 0])
        empty = each.new_zeros(len(mine.ids), each.shape[1])
        return empty.index_add(0, rows, each), empty.index_add(0, rows, each**2)
    gradients, squares = (
        F.embedding_bag(local, table, mine.starts, mode="sum", per_sample_weights=scale)
        for table, scale in ((theirs, rate * factors), (theirs**2, (rate * factors) ** 2))
    )
    return gradients, squares
