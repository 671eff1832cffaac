"""How the next token is picked from logits: the best, or a sample; and the leading ones of a beam."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation.hypothesis import Paths
from regard.layers.embeddings import not_finite

Choice = Callable[[Tensor, Paths], Tensor]
"""(logits (N, V) float32, paths) -> tokens (N,) int64."""


class Chooser(Protocol):
    """A way to pick tokens. It begins again with each search, so one chooser may serve many."""

    def begin(self, count: int) -> Choice:
        """The choice function for a search over `count` sources."""
        ...


def most_probable(logits: Tensor, paths: Paths) -> Tensor:
    """The choice of `Greedy`: of (N, V) logits the tokens (N,), whatever was emitted before."""
    return _argmax(logits)


class Greedy:
    """The most probable token; of equal ones, the lowest id.

    >>> Greedy().begin(1)(torch.tensor([[1.0, 3.0, 3.0]]), Paths.begin(1, "cpu")).tolist()
    [1]
    """

    def begin(self, count: int) -> Choice:
        """Argmax, for any number of sources."""
        return most_probable


class Sample:
    """A sample from softmax(logits).

    Every source row has a random stream of its own, which depends on one sample from `generator` per search
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
        """A sample whose row streams start here."""
        device = self.generator.device
        base = int(torch.randint(2**62, (), generator=self.generator, device=device))
        return _drawing([base + row for row in range(count)])


class SampleRows:
    """As `Sample`, each source row with a seed of its own: where a text is in a batch, and in which, changes no sample.

    Arguments:
        seeds: one for each source row.

    >>> draw = SampleRows([3, 3]).begin(2)
    >>> len(set(draw(torch.zeros(2, 50), Paths.begin(2, "cpu")).tolist()))
    1
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = tuple(seeds)

    def begin(self, count: int) -> Choice:
        """A sample whose row streams start here.

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
    """One uniform number per source row and step, sampled a block of steps at a time."""

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
        logits: (N, V); minus infinity is never sampled.
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


# Candidates in order, and numbers that can be ordered at all.


def leading(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest values of each row, falling, with their indices; of equals the lower index first.

    `topk` alone leaves ties open. Here ties inside the selection are put in order, and a row whose tie
    crosses the end of the selection, which is rare, is sorted in full. Ties at minus infinity stay open:
    nothing follows from them.

    Arguments:
        values: (R, W) float.
        count: where it is above W, the rest is minus infinity at index 0.

    Returns:
        values and indices, each (R, count).

    >>> leading(torch.tensor([[1.0, 2.0, 2.0, 2.0]]), 2)[1].tolist()
    [[1, 2]]
    """
    width = values.shape[1]
    top, index = values.topk(min(count + 1, width), dim=1)
    index, order = index.sort(dim=1)
    top, order = top.gather(1, order).sort(dim=1, descending=True, stable=True)
    index = index.gather(1, order)
    if width > count:
        crossing = (top[:, count] == top[:, count - 1]) & (top[:, count] > -torch.inf)
        top, index = top[:, :count], index[:, :count]
        if crossing.any():
            full, places = values[crossing].sort(dim=1, descending=True, stable=True)
            top, index = top.clone(), index.clone()
            top[crossing], index[crossing] = full[:, :count], places[:, :count]
    elif width < count:
        missing = (0, count - width)
        top = torch.nn.functional.pad(top, missing, value=-torch.inf)
        index = torch.nn.functional.pad(index, missing, value=0)
    return top, index


BLOCK = 128


def leading_sums(values: Tensor, offsets: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`leading` of values[r, w, v] + offsets[r, w] over w and v together, without laying the sums out.

    The leading `count` sums lie in the leading `count` blocks of neighbours, blocks compared by their largest sums: whatever
    lies in a block behind those has `count` others before it. So one pass finds the largest of each block, and only a
    few blocks are ranked.

    Arguments:
        values: (R, W, V) float.
        offsets: (R, W) float.

    Returns:
        sums and indices w * V + v, each (R, count).

    >>> leading_sums(torch.tensor([[[1.0, 5.0], [4.0, 3.0]]]), torch.tensor([[0.0, 2.0]]), 3)
    (tensor([[6., 5., 5.]]), tensor([[2, 1, 3]]))
    """
    width, vocabulary = values.shape[1:]
    whole = vocabulary // BLOCK
    if whole * width <= count:
        return leading((values + offsets[..., None]).flatten(1), count)
    largest = values[..., : whole * BLOCK].unflatten(-1, (whole, BLOCK)).amax(dim=-1)
    if whole * BLOCK < vocabulary:
        largest = torch.cat((largest, values[..., whole * BLOCK :].amax(dim=-1, keepdim=True)), dim=-1)
    blocks = largest.shape[2]
    _, chosen = leading((largest + offsets[..., None]).flatten(1), count)
    # In the order of their indices, so that equal sums stay in that order.
    chosen = chosen.sort(dim=1).values
    row, block = chosen // blocks, chosen % blocks
    places = (block * BLOCK)[..., None] + torch.arange(BLOCK, device=values.device)
    beyond = places >= vocabulary
    index = (row * vocabulary)[..., None] + places.clamp_max(vocabulary - 1)
    sums = values.flatten(1).gather(1, index.flatten(1)) + offsets.gather(1, row).repeat_interleave(BLOCK, dim=1)
    top, order = leading(sums.masked_fill_(beyond.flatten(1), -torch.inf), count)
    return top, index.flatten(1).gather(1, order)


def check_choosable(best: Tensor, step: int) -> None:
    """Raise unless every row has a token to choose.

    Arguments:
        best: (N,), the largest value of each row.
        step: the number of the decoder's call, for the message.

    Raises:
        InputError: for NaN or plus infinity, which the model must have made, and where every token is
            forbidden.
    """
    found = best.tolist()
    if all(map(math.isfinite, found)):
        return
    if -math.inf in found:
        raise InputError(
            f"decoding: every token is forbidden at step {step}; lower minimum_length or forbid fewer tokens"
        )
    raise not_finite(f"step {step} of decoding")
