"""GloVe (Pennington, Socher and Manning 2014): vectors whose products are the logarithms of counts, by AdaGrad."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError
from regard.word_embeddings.store import Matrix
from regard.word_embeddings.training.cooccurrence import cooccurrences, shuffled
from regard.word_embeddings.training.corpus import Progress, Report, Vocabulary, per_second, quiet
from regard.word_embeddings.training.settings import VectorSettings

MIB = 1 << 20

FEWEST_BATCHES = 100
"""In an epoch: few entries in one batch would be one large step."""

_TOGETHER = 2_048
"""Products that are taken at once, so that what they are taken of stays in the processor's cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GloveTables:
    """What is learnt.

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
    """What GloVe learns of a text, and how many counts there were, how fast they were made and learnt, and the cost at the end.

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
    all parameters are drawn evenly from -0.5 to 0.5 over the width. Entries are taken in batches. A row that a batch has once
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
        raise InputError("no two words stand near each other in the text; give sentences of two words or more")
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
