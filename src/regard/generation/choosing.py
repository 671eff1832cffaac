"""How the next token is picked from logits: the best, or a draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from regard.generation.paths import Paths

Choice = Callable[[Tensor, Paths], Tensor]
"""(logits (N, V) float32, paths) -> tokens (N,) int64."""


class Chooser(Protocol):
    """A way to pick tokens. It begins anew with each search, so one chooser may serve many."""

    def begin(self, count: int) -> Choice:
        """The choice function for a search over `count` sources."""
        ...


class Greedy:
    """The most probable token; of equal ones, the lowest id.

    >>> Greedy().begin(1)(torch.tensor([[1.0, 3.0, 3.0]]), Paths.begin(1, "cpu")).tolist()
    [1]
    """

    def begin(self, count: int) -> Choice:
        """Argmax, for any number of sources."""
        return lambda logits, paths: _argmax(logits)


class Sample:
    """A draw from softmax(logits).

    Every source row has a random stream of its own, which depends on one draw from `generator` per search
    and on the row's number, and on nothing else: a row's sample does not change with who else is in the
    batch, nor when others finish. The same generator state gives the same samples. The global random state
    is neither read nor changed.

    Arguments:
        generator: advanced by one number per search.

    >>> draw = Sample(torch.Generator().manual_seed(1)).begin(2)
    >>> draw(torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]]), Paths.begin(2, "cpu")).tolist()
    [0, 1]
    """

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def begin(self, count: int) -> Choice:
        """A draw whose row streams start here."""
        device = self.generator.device
        base = int(torch.randint(2**62, (), generator=self.generator, device=device))
        return _drawing([base + row for row in range(count)])


class SampleRows:
    """As `Sample`, each source row with a seed of its own: where a text stands in a batch, and in which, changes no draw.

    Arguments:
        seeds: one for each source row.

    >>> draw = SampleRows([3, 3]).begin(2)
    >>> len(set(draw(torch.zeros(2, 50), Paths.begin(2, "cpu")).tolist()))
    1
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = tuple(seeds)

    def begin(self, count: int) -> Choice:
        """A draw whose row streams start here.

        Raises:
            ValueError: for another number of rows than there are seeds.
        """
        if count != len(self.seeds):
            raise ValueError(f"there are {len(self.seeds)} seeds for {count} rows")
        return _drawing(self.seeds)


def _drawing(seeds: Sequence[int]) -> Choice:
    streams = _Streams(seeds)
    return lambda logits, paths: inverse_transform(logits, streams.at(paths.length, paths.sources))


class _Streams:
    """One uniform number per source row and step, drawn a block of steps at a time."""

    block = 64

    def __init__(self, seeds: Sequence[int]) -> None:
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.first = 0
        self.uniform = torch.empty(len(seeds), 0, dtype=torch.float64)

    def at(self, step: int, sources: Tensor) -> Tensor:
        """(N,) float64 in [0, 1), for the rows about these sources. Steps come in order."""
        while step >= self.first + self.uniform.shape[1]:
            self.first += self.uniform.shape[1]
            rows = [torch.rand(self.block, generator=g, dtype=torch.float64) for g in self.generators]
            self.uniform = torch.stack(rows)
        return self.uniform[sources.cpu(), step - self.first]


def inverse_transform(logits: Tensor, uniform: Tensor) -> Tensor:
    """The token at which the cumulative distribution passes `uniform`.

    Arguments:
        logits: (N, V); minus infinity is never drawn.
        uniform: (N,) float64 in [0, 1).

    Returns:
        (N,) int64.

    >>> uniform = torch.tensor([0.3], dtype=torch.float64)
    >>> inverse_transform(torch.tensor([[0.25, 0.75]]).log(), uniform).tolist()
    [1]
    """
    # Apple's backend has no float64, which the tail of a large vocabulary needs.
    place = torch.device("cpu") if logits.device.type == "mps" else logits.device
    uniform = uniform.to(place)
    cumulative = logits.to(place).double().softmax(dim=-1).cumsum(dim=-1)
    total = cumulative[:, -1:].contiguous()
    # right=True: the first entry above the mark, so an impossible token (no rise) is passed over. The last
    # possible token is the first entry that reaches the total; it catches a mark that rounding put on the
    # total itself.
    token = torch.searchsorted(cumulative, uniform[:, None] * total, right=True)
    return torch.minimum(token, torch.searchsorted(cumulative, total)).squeeze(1).to(logits.device)


def _argmax(logits: Tensor) -> Tensor:
    """(N, V) float32 to (N,): of equal ones the lowest. On a processor NumPy's takes a seventh of the time of PyTorch's."""
    if logits.device.type != "cpu":
        return logits.max(dim=-1).indices
    return torch.from_numpy(logits.numpy().argmax(axis=-1))
