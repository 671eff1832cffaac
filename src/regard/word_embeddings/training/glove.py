"""GloVe (Pennington, Socher and Manning 2014): vectors whose dot products approximate log co-occurrence counts, by AdaGrad.

The counts come from `counting`; here they are fitted.
"""

from __future__ import annotations

import ctypes
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError
from regard.kernels import kernels
from regard.kernels.interface import LANES, CountTablesStruct
from regard.word_embeddings.store import Matrix
from regard.word_embeddings.training.corpus import Progress, Report, VectorSettings, Vocabulary, per_second, quiet
from regard.word_embeddings.training.counting import cooccurrences, shuffled

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
