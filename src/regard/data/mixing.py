"""In which proportion several data sets are learnt from, and which examples of each an epoch holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.models.config import check


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixing:
    """Proportional mixing with an artificial limit (Raffel et al. 2020, section 3.5.2).

        rate_m = min(e_m, K)^(1/T) / sum_n min(e_n, K)^(1/T),   e_m examples in data set m

    An epoch holds sum_n min(e_n, K) examples, each data set its rate of them. Of a data set that is larger than its part another
    stretch comes in every epoch, in random order, until all of it was learnt from and it begins anew; one that is smaller comes
    several times.

    Arguments:
        limit: K; None for none.
        temperature: T; 1 mixes by size, and the larger the more alike the parts become.
        seed: of the order.

    Raises:
        InputError: for a limit or temperature that is none.
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
        """How many examples of each data set an epoch holds, one at least.

        Arguments:
            sizes: (M,), the examples of each, at least 1.

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
        """The examples of an epoch, all data sets standing one after another: a function of the seed and the epoch.

        Arguments:
            sizes: (M,), the examples of each, at least 1.
            epoch: 0, 1, 2, ...

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
