"""Choosing the next token from logits: the most probable one, a sample, or the best ones of a beam."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from regard.attention.dropping import SMALL
from regard.errors import InputError
from regard.generation.hypothesis import Paths
from regard.kernels import kernels
from regard.kernels.interface import PART, BeamsStruct
from regard.layers.embeddings import not_finite

Choice = Callable[[Tensor, Paths], Tensor]
"""(logits (N, V) float32, paths) -> tokens (N,) int64."""


class Chooser(Protocol):
    """A strategy that chooses tokens. Each search starts with `begin`, so one chooser can serve many searches."""

    def begin(self, count: int) -> Choice:
        """The choice function for a search over `count` sources."""
        ...


def most_probable(logits: Tensor, paths: Paths) -> Tensor:
    """The choice of `Greedy`: logits (N, V) to tokens (N,), independent of the paths."""
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

    Every source row has its own random stream, which depends only on one number from `generator` per search and on the
    index of the row. So the sample of a row does not depend on the other rows of the batch, or on when they finish. The
    same generator state gives the same samples. The global random state is neither read nor changed.

    Arguments:
        generator: advanced by one number per search.

    >>> draw = Sample(torch.Generator().manual_seed(1)).begin(2)
    >>> draw(torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]]), Paths.begin(2, "cpu")).tolist()
    [0, 1]
    """

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def begin(self, count: int) -> Choice:
        """The choice function of a search, with new random streams."""
        device = self.generator.device
        base = int(torch.randint(2**62, (), generator=self.generator, device=device))
        return _drawing([base + row for row in range(count)])


class SampleRows:
    """As `Sample`, with a seed for each source row: the samples of a text do not depend on its batch or its row.

    Arguments:
        seeds: one for each source row.

    >>> draw = SampleRows([3, 3]).begin(2)
    >>> len(set(draw(torch.zeros(2, 50), Paths.begin(2, "cpu")).tolist()))
    1
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = tuple(seeds)

    def begin(self, count: int) -> Choice:
        """The choice function of a search, with new random streams.

        Raises:
            ValueError: if the number of rows is not the number of seeds.
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
        """(N,) float64 in [0, 1), for rows of these sources. Steps are requested in order."""
        while step >= self.first + self.uniform.shape[1]:
            self.first += self.uniform.shape[1]
            rows = [torch.rand(self.block, generator=g, dtype=torch.float64) for g in self.generators]
            self.uniform = torch.stack(rows)
        return self.uniform[sources.cpu(), step - self.first]


def inverse_transform(logits: Tensor, uniform: Tensor) -> Tensor:
    """The first token at which the cumulative distribution exceeds `uniform` (inverse transform sampling).

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
    """Argmax, (N, V) float32 to (N,); ties go to the lowest index. On a processor NumPy takes a seventh of PyTorch's time."""
    if logits.device.type != "cpu":
        return logits.max(dim=-1).indices
    return torch.from_numpy(logits.numpy().argmax(axis=-1))


def allowed_best(logits: Tensor, forbidden: Sequence[tuple[int, ...]]) -> np.ndarray:
    """The most probable token of each row that is not forbidden, on a processor; of equal ones, the lowest id.

    The logits are not copied but for a row whose most probable token is forbidden.

    Arguments:
        logits: (N, V) float32.
        forbidden: of each row the ids that it may not emit, in ascending order.

    Returns:
        (N,) int64; -1 for a row whose largest logit is not finite, or whose forbidden ids are not all the model's.

    >>> allowed_best(torch.tensor([[1.0, 3.0, 3.0], [1.0, 3.0, 2.0], [1.0, torch.nan, 2.0]]), [(0,), (1,), ()]).tolist()
    [1, 2, -1]
    """
    numbers = logits.detach().numpy()
    found = numbers.argmax(axis=-1)  # where there is NaN, the first of it
    for row, (own, never) in enumerate(zip(numbers, forbidden, strict=True)):
        found[row] = _allowed(own, found[row], never)
    return found


def _allowed(numbers: np.ndarray, best: int, forbidden: tuple[int, ...]) -> int:
    if forbidden:
        if forbidden[0] < 0 or forbidden[-1] >= len(numbers):
            return -1
        if best in forbidden:
            numbers = numbers.copy()
            numbers[list(forbidden)] = -np.inf
            best = int(numbers.argmax())
    return best if math.isfinite(numbers[best]) else -1


# Candidates in order, and numbers that can be ordered at all.


def leading(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest values of each row in descending order, with their indices; ties are ordered by index.

    The order of ties in `topk` is undefined. Here ties inside the selection are sorted, and a row with a tie at the end
    of the selection, which is rare, is sorted completely. Ties at minus infinity are not ordered: they have no effect.

    Arguments:
        values: (R, W) float.
        count: if it exceeds W, the rest is minus infinity at index 0.

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
    """`leading` of values[r, w, v] + offsets[r, w] over w and v together, without storing the sums.

    The values are divided into blocks. The largest `count` sums are in the `count` blocks with the largest maxima, because a
    sum in any other block has at least `count` larger ones. So one pass computes the maximum of each block, and only a few
    blocks are ranked.

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


def leading_continuations(
    logits: Tensor, totals: Tensor, count: int, never: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor] | None:
    """`leading_sums` of log softmax(logits) and totals by a compiled kernel, in one pass over the logits.

    Arguments:
        logits: (R x W, V) float32 or bfloat16 on a processor.
        totals: (R, W) float32.
        count: of sums for each row of `totals`.
        never: tokens that are left out, in [0, V); the softmax is over all.

    Returns:
        sums, indices w * V + v, and log softmax(logits) there, each (R, count); where logits are NaN or infinite, the first sum
        of their row is NaN. None where there is no kernel for these logits.
    """
    library = kernels().library
    if library is None or logits.device.type != "cpu" or logits.dtype not in (torch.float32, torch.bfloat16):
        return None
    logits, totals = logits.detach().contiguous(), totals.float().contiguous()
    (rows, width), vocabulary, excluded = totals.shape, logits.shape[1], torch.tensor(tuple(never), dtype=torch.long)
    threads = torch.get_num_threads() if logits.numel() > SMALL else 1
    scratch = torch.empty(threads, -(-vocabulary // PART))
    sums, own = torch.empty(2, rows, count)
    index = torch.empty(rows, count, dtype=torch.long)
    beams = BeamsStruct(
        *(x.data_ptr() for x in (logits, totals, excluded)),
        *(rows, vocabulary, width, len(excluded), count, logits.element_size() * 8),
    )
    library.regard_candidates(beams, threads, *(x.data_ptr() for x in (scratch, sums, own, index)))
    return sums, index, own


def check_choosable(best: Tensor, step: int) -> None:
    """Raise an error if a row has no token to choose.

    Arguments:
        best: (N,), the largest value of each row.
        step: the number of the decoder call, for the message.

    Raises:
        InputError: for NaN or plus infinity in the model's logits, and if every token is forbidden.
    """
    found = best.tolist()
    if all(map(math.isfinite, found)):
        return
    if -math.inf in found:
        raise InputError(
            f"decoding: every token is forbidden at step {step}; lower minimum_length or forbid fewer tokens"
        )
    raise not_finite(f"step {step} of decoding")
