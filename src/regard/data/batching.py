"""Batches by token count, in an order that is a pure function of seed and epoch; and proportional mixing of data sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from regard.errors import InputError
from regard.models.config import check


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Cuts a data set into batches of examples of similar length, each within a budget of tokens.

    There is no internal state: `epoch(e)` is computed from the seed and `e` alone, so a run that is resumed in the middle of
    an epoch gets the same batches as an uninterrupted run. The order of batches, and of examples of equal length, differs
    from epoch to epoch.

    Arguments:
        lengths: (N, columns) integers, the number of tokens of each example per column (for example source and target).
        maximum_tokens: the budget of one batch, in tokens of all columns together, padding included. A single example that
            exceeds the budget becomes a batch of its own.
        seed: seed of the random order.
        spread: each length is multiplied by a random factor in [1, 1 + spread] before sorting, so that a batch mixes similar
            lengths and not only equal ones.
        rows: a function from the epoch number to the indices of its examples, which may repeat; None for all examples.

    Raises:
        InputError: for a budget below one token or an empty data set.

    >>> batches = Batches(np.array([[2, 2], [9, 9], [3, 2], [2, 3]]), maximum_tokens=18, seed=1)
    >>> sorted(sorted(batch.tolist()) for batch in batches.epoch(0))
    [[0, 2, 3], [1]]
    """

    lengths: np.ndarray
    maximum_tokens: int
    seed: int = 0
    spread: float = 0.1
    rows: Callable[[int], np.ndarray] | None = None

    def __post_init__(self) -> None:
        if self.maximum_tokens < 1:
            raise InputError(f"batch_tokens is {self.maximum_tokens}; give at least 1, 4000 is usual")
        if self.lengths.ndim != 2 or len(self.lengths) == 0:
            raise InputError("there is nothing to make batches of; the data set has no example")

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """The batches of one epoch: arrays of example indices. Every example of the epoch is in exactly one batch.

        Arguments:
            epoch: 0, 1, 2, ...
        """
        generator = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        rows = np.arange(len(self.lengths)) if self.rows is None else self.rows(epoch)
        totals = self.lengths[rows].sum(axis=1)
        blurred = totals * (1 + self.spread * generator.random(len(totals)))
        order = np.lexsort((generator.random(len(totals)), blurred))
        batches = self._cut(rows[order])
        return [batches[i] for i in generator.permutation(len(batches))]

    def in_order(self) -> list[np.ndarray]:
        """Batches for evaluation: shortest examples first, without randomness."""
        return self._cut(np.argsort(self.lengths.sum(axis=1), kind="stable"))

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        lengths = self.lengths[order].tolist()
        batches: list[np.ndarray] = []
        start, longest = 0, [0] * self.lengths.shape[1]
        for position, row in enumerate(lengths):
            wider = [max(a, b) for a, b in zip(longest, row, strict=True)]
            if position > start and (position - start + 1) * sum(wider) > self.maximum_tokens:
                batches.append(order[start:position])
                start, wider = position, row
            longest = wider
        batches.append(order[start:])
        return batches


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixing:
    """Proportional mixing with an artificial limit (Raffel et al. 2020, section 3.5.2).

        rate_m = min(e_m, K)^(1/T) / sum_n min(e_n, K)^(1/T),   where data set m has e_m examples

    An epoch has sum_n min(e_n, K) examples, of which data set m contributes the share rate_m. If a data set has more examples
    than it contributes per epoch, each epoch takes the next examples of a random permutation, and a new permutation starts
    when all were used. If it has fewer, its examples repeat within the epoch.

    Arguments:
        limit: K, the size that is assumed for larger data sets; None for no limit.
        temperature: T, at least 1. 1 mixes in proportion to size; larger values make the shares more equal.
        seed: seed of the permutations.

    Raises:
        InputError: for a limit or a temperature below 1.
    """

    limit: int | None = None
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check(
            self.limit is None or self.limit >= 1, "data.limit", self.limit, "at least 1", "leave it out for no limit"
        )
        check(self.temperature >= 1, "data.temperature", self.temperature, "at least 1", "1 mixes by size")

    def counts(self, sizes: np.ndarray) -> np.ndarray:
        """The number of examples that each data set contributes to an epoch, at least one.

        Arguments:
            sizes: (M,) integers, the number of examples of each data set, at least 1.

        Returns:
            (M,) int64.

        >>> Mixing(limit=100).counts(np.array([50, 1000, 100])).tolist()
        [50, 100, 100]
        >>> Mixing(temperature=2.0).counts(np.array([100, 10_000])).tolist()
        [918, 9182]
        """
        limited = sizes if self.limit is None else np.minimum(sizes, self.limit)
        if self.temperature == 1:
            return limited.astype(np.int64)
        rates = limited ** (1 / self.temperature)
        return np.rint(limited.sum() * rates / rates.sum()).astype(np.int64).clip(1)

    def rows(self, sizes: np.ndarray, epoch: int) -> np.ndarray:
        """The examples of an epoch: a function of the seed and the epoch.

        Arguments:
            sizes: (M,) integers, the number of examples of each data set, at least 1.
            epoch: 0, 1, 2, ...

        Returns:
            Indices into the concatenation of all data sets.

        >>> Mixing(limit=2).rows(np.array([1, 4]), 0).tolist()[0]
        0
        """
        found = []
        starts = np.cumsum(sizes) - sizes
        for number, (size, count) in enumerate(zip(sizes.tolist(), self.counts(sizes).tolist(), strict=True)):
            places = np.arange(epoch * count, (epoch + 1) * count)
            for times in range(int(places[0]) // size, int(places[-1]) // size + 1):
                order = np.random.default_rng([self.seed, 0x317C, number, times]).permutation(size)
                found.append(starts[number] + order[places[places // size == times] % size])
        return np.concatenate(found)
