"""Attention inside the chunks of several hashed orders, merged: a few chunks at a time, and computed again for the gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.dropping import kept
from regard.attention.hashed_order import LOW, HashedOrder, Part, windows

AT_ONCE = 1 << 21
"""Scores at a time on a processor: 8 MiB of them, which stay in its cache and are not mapped anew by the allocator each time."""

Penalty = Callable[[int, Part], tuple[Tensor, Tensor]]
"""Of a round and a part: what is added to the scores, (g, c, m, w), and what stands in place of those of the queries' own keys,
(g, c, m)."""


def attend_in_rounds(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    orders: Sequence[HashedOrder],
    penalty: Penalty,
    dropout: float = 0.0,
    seed: int = 0,
) -> Tensor:
    """Each query's weighted values over its windows in all rounds, one softmax over all of them.

        o_i = sum_r exp(z_i^r - z_i) o_i^r,   z_i^r = log sum_j exp(s_ij + penalty_ij^r),   z_i = log sum_r exp(z_i^r)

    Arguments:
        query, key: (B, H, S, E).
        value: (B, H, S, Ev).
        orders: one for each round, of G = B H sequences.
        penalty: see `Penalty`.
        dropout: probability of dropping a weight.
        seed: of what is dropped.

    Returns:
        (B, H, S, Ev) in the dtype of `value`; zero where a query saw nothing.
    """
    return _InRounds.apply(query, key, value, orders, penalty, dropout, seed)


class _InRounds(torch.autograd.Function):
    """What is kept is what went in, what came out, and z: scores are computed again for the gradient, as in FlashAttention."""

    @staticmethod
    def forward(
        context: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        orders: Sequence[HashedOrder],
        penalty: Penalty,
        dropout: float,
        seed: int,
    ) -> Any:
        batch, heads, length, _ = query.shape
        exact = torch.float64 if query.dtype == torch.float64 else torch.float32
        rows = _Rows(query), _Rows(key), _Rows(value)
        output = value.new_empty(batch, length, heads, value.shape[3]).transpose(1, 2)
        total = torch.empty(batch * heads, length, dtype=exact, device=query.device)
        told = _Rows(output)
        step = _Step(penalty, dropout, seed, exact)
        with torch.autocast(query.device.type, enabled=False):
            for first, last in _groups(query, orders[0]):
                merged, sums = None, None
                for turn, order in enumerate(orders):
                    mine = order.of(Part(first, last, 0, order.chunks))
                    q, k, v = (part.sorted(mine, first, last, ahead=index > 0) for index, part in enumerate(rows))
                    out = v.new_empty(last - first, mine.slots.shape[1], v.shape[2])
                    z = torch.empty(out.shape[:2], dtype=exact, device=out.device)
                    for part in _parts(first, last, order):
                        here = slice(part.begin * order.chunk, part.end * order.chunk)
                        weights, z[:, here] = step.weights(turn, part, q, k, order)
                        step.drop(weights, turn, part)
                        mixed = weights.to(v.dtype) @ _window(v, order, part)
                        out[:, here] = mixed.flatten(1, 2)
                    out, z = _at(out, mine.places), z.gather(1, mine.places)
                    merged, sums = (out, z) if sums is None else _merged(merged, sums, out, z)
                if merged is None or sums is None:
                    raise ValueError("there is at least one round")
                told.put(merged.masked_fill_((sums <= LOW / 2).unsqueeze(-1), 0.0), first, last)
                total[first:last] = sums
        context.save_for_backward(query, key, value, output, total)
        context.orders, context.step = orders, step
        return output

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        query, key, value, output, total = context.saved_tensors
        orders, step = context.orders, context.step
        upstream = gradients[0]
        blind = (total <= LOW / 2).view(query.shape[:3])
        upstream = upstream.masked_fill(blind.unsqueeze(-1), 0.0)
        # What the softmax takes off every gradient of a row.
        shared = (upstream.to(total.dtype) * output.to(total.dtype)).sum(dim=-1).view(total.shape)
        rows = _Rows(query), _Rows(key), _Rows(value), _Rows(upstream)
        found = [
            torch.zeros_like(x.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
            for x in (query, key, value)
        ]
        told = [_Rows(x) for x in found]
        with torch.autocast(query.device.type, enabled=False):
            for first, last in _groups(query, orders[0]):
                for turn, order in enumerate(orders):
                    mine = order.of(Part(first, last, 0, order.chunks))
                    q, k, v, g = (
                        part.sorted(mine, first, last, ahead=index in (1, 2)) for index, part in enumerate(rows)
                    )
                    z, taken = (x[first:last].gather(1, mine.slots) for x in (total, shared))
                    for x in (g, taken):  # what only fills the last chunk is no query
                        x[:, mine.places.shape[1] :] = 0.0
                    of_q, of_k, of_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
                    for part in _parts(first, last, order):
                        here = slice(part.begin * order.chunk, part.end * order.chunk)
                        weights, own = step.weights(turn, part, q, k, order)
                        weights *= (
                            (own - z[:, here]).clamp_max_(0.0).exp_().unflatten(1, (-1, order.chunk)).unsqueeze(-1)
                        )
                        given = g[:, here].unflatten(1, (-1, order.chunk))
                        felt = (given @ _window(v, order, part).transpose(-1, -2)).to(weights.dtype)
                        mask = step.mask(weights, turn, part)
                        dropped = weights if mask is None else weights * mask
                        felt = felt if mask is None else felt.mul_(mask)
                        _add_window(of_v, dropped.to(v.dtype).transpose(-1, -2) @ given, order, part)
                        felt.sub_(taken[:, here].unflatten(1, (-1, order.chunk)).unsqueeze(-1)).mul_(weights)
                        felt = felt.to(q.dtype)
                        of_q[:, here] = (felt @ _window(k, order, part)).flatten(1, 2)
                        _add_window(
                            of_k, felt.transpose(-1, -2) @ q[:, here].unflatten(1, (-1, order.chunk)), order, part
                        )
                    for rest, gradient, ahead in zip(told, (of_q, of_k, of_v), (False, True, True), strict=True):
                        rest.add_sorted(gradient, mine, first, last, ahead=ahead)
        return *found, None, None, None, None


class _Step:
    """The weights inside the windows of a part, the same whenever they are computed."""

    def __init__(self, penalty: Penalty, dropout: float, seed: int, exact: torch.dtype) -> None:
        self._penalty = penalty
        self._dropout = dropout
        self._seed = seed
        self._exact = exact

    def weights(self, turn: int, part: Part, query: Tensor, key: Tensor, order: HashedOrder) -> tuple[Tensor, Tensor]:
        """exp(s - z) (g, c, m, w) and z (g, c m) of one round."""
        here = slice(part.begin * order.chunk, part.end * order.chunk)
        scores = query[:, here].unflatten(1, (-1, order.chunk)) @ _window(key, order, part).transpose(-1, -2)
        added, alone = self._penalty(turn, part)
        scores = scores.to(self._exact).add_(added)
        scores.diagonal(offset=order.reach * order.chunk, dim1=-2, dim2=-1).copy_(alone)
        weights = scores.softmax(dim=-1)
        # The highest weight is exp(0) over the sum.
        total = scores.amax(dim=-1) - weights.amax(dim=-1).log_()
        return weights, total.flatten(1)

    def mask(self, weights: Tensor, turn: int, part: Part) -> Tensor | None:
        """What the weights are multiplied with, of their shape; None without dropout."""
        if not self._dropout:
            return None
        return kept(weights, self._dropout, hash((self._seed, turn, part.first, part.begin)) % 2**63)

    def drop(self, weights: Tensor, turn: int, part: Part) -> None:
        """Drop some of the weights, in place."""
        mask = self.mask(weights, turn, part)
        if mask is not None:
            weights *= mask


class _Rows:
    """A tensor (B, H, S, E) as rows of E numbers, heads on either side of time in memory, to be read and written by sequence."""

    def __init__(self, x: Tensor) -> None:
        batch, heads, length, width = x.shape
        sequence = torch.arange(batch * heads, device=x.device).unsqueeze(1)
        if x.transpose(1, 2).is_contiguous():  # as heads are cut from a model's width
            self._flat = x.transpose(1, 2).view(-1, width)
            self._first, self._stride = sequence // heads * (length * heads) + sequence % heads, heads
        else:
            self._flat = x.reshape(-1, width)
            self._first, self._stride = sequence * length, 1

    def sorted(self, order: HashedOrder, first: int, last: int, *, ahead: bool) -> Tensor:
        """The rows of some sequences in an order, (g, n m, E), or with what stands before the first chunk ahead."""
        slots = torch.cat((order.wrapped, order.slots), dim=1) if ahead else order.slots
        index = self._first[first:last] + slots * self._stride
        return self._flat.index_select(0, index.flatten()).unflatten(0, index.shape)

    def put(self, x: Tensor, first: int, last: int) -> None:
        """Write (g, S, E) as the rows of some sequences."""
        self._flat.index_copy_(0, self._all(x, first, last), x.flatten(0, 1))

    def add_sorted(self, x: Tensor, order: HashedOrder, first: int, last: int, *, ahead: bool) -> None:
        """Add to the rows of some sequences what is given in an order, as `sorted` gives them."""
        before = order.wrapped.shape[1] if ahead else 0
        self._flat.index_add_(0, self._all(order.places, first, last), _at(x[:, before:], order.places).flatten(0, 1))
        if before:
            index = self._first[first:last] + order.wrapped * self._stride
            self._flat.index_add_(0, index.flatten(), x[:, :before].flatten(0, 1))

    def _all(self, like: Tensor, first: int, last: int) -> Tensor:
        time = torch.arange(like.shape[1], device=like.device)
        return (self._first[first:last] + time * self._stride).flatten()


def _groups(query: Tensor, order: HashedOrder) -> Iterator[tuple[int, int]]:
    """So many sequences at a time, from one to before another: all on a device that runs them side by side."""
    sequences = order.slots.shape[0]
    each = order.slots.shape[1] * order.chunk * (order.reach + 1)
    # A sequence that is a good part of a load goes alone: its windows then need no copy.
    step = sequences if query.device.type != "cpu" else max(AT_ONCE // 8 // each, 1)
    for first in range(0, sequences, step):
        yield first, min(first + step, sequences)


def _parts(first: int, last: int, order: HashedOrder) -> Iterator[Part]:
    """The chunks of some sequences, so many at a time."""
    each = (last - first) * order.chunk * order.chunk * (order.reach + 1)
    step = order.chunks if order.slots.device.type != "cpu" else max(AT_ONCE // each, 1)
    for begin in range(0, order.chunks, step):
        yield Part(first, last, begin, min(begin + step, order.chunks))


def _window(x: Tensor, order: HashedOrder, part: Part) -> Tensor:
    """The windows of a part: x (g, (n + k) m, E) to (g, c, w, E)."""
    return windows(x, order.chunk, order.reach)[:, part.begin : part.end]


def _add_window(x: Tensor, added: Tensor, order: HashedOrder, part: Part) -> None:
    """Add (g, c, w, E) to the windows of a part; a place that stands in several gets the sum."""
    count = part.end - part.begin
    for step in range(order.reach + 1):
        begin = (part.begin + step) * order.chunk
        here = slice(step * order.chunk, (step + 1) * order.chunk)
        x[:, begin : begin + count * order.chunk] += added[:, :, here].flatten(1, 2)


def _at(x: Tensor, places: Tensor) -> Tensor:
    """Rows of x (g, N, E) at places (g, S): (g, S, E), copied whole."""
    first = torch.arange(len(x), device=x.device).unsqueeze(1) * x.shape[1]
    return x.flatten(0, 1).index_select(0, (first + places).flatten()).unflatten(0, places.shape)


def _merged(output: Tensor | None, total: Tensor, more: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """What was gathered in some rounds, and in one more."""
    if output is None:
        return more, z
    # Not exp(z - both): of a query that is alone z is large, and the difference would be rounded.
    now = torch.sigmoid(z - total).unsqueeze(-1).to(more.dtype)
    return output.mul_(1 - now).add_(more.mul_(now)), torch.logaddexp(total, z)
