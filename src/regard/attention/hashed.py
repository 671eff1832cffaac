"""The computation of LSH attention: sorting by bucket, attention of each chunk to its window, merging of rounds.

`HashedOrder` is the sorted order of one hash round. `HashedMask` masks keys of the window that a query does not attend to.
`attend_in_rounds` computes a few chunks at a time, and recomputes them in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.dropping import kept
from regard.attention.inputs import AttentionInputs
from regard.attention.masks import Causal

LOW = -1e30
"""Replaces masked scores. It is finite, so that a query without a visible key stays finite too."""


@dataclass(frozen=True, slots=True, eq=False)
class HashedOrder:
    """The S tokens of G sequences (one for each head of each row) in the sorted order of one round: n chunks of m places.

    Arguments:
        slots: (G, (k + n) m) int64, the token at each place, after the k m places before the first chunk; places that only pad
            the last chunk hold the last token.
        places: (G, S), the place of each token, counted from the first chunk.
        buckets: (G, n m), the bucket of each place, in ascending order; any higher number for places that only pad.
        chunk: m.
        reach: k, the number of chunks before its own that a query attends to; a window has w = (k + 1) m places.
    """

    slots: Tensor
    places: Tensor
    buckets: Tensor
    chunk: int
    reach: int

    @property
    def chunks(self) -> int:
        """n, the number of chunks."""
        return self.buckets.shape[1] // self.chunk

    @property
    def ahead(self) -> int:
        """K m, the number of places before the first chunk."""
        return self.reach * self.chunk

    def of(self, part: Part) -> HashedOrder:
        """The order of some of the sequences."""
        these = slice(part.first, part.last)
        return HashedOrder(self.slots[these], self.places[these], self.buckets[these], self.chunk, self.reach)

    def asked(self) -> Tensor:
        """(G, n m), the token whose query is in each place."""
        return self.slots[:, self.ahead :]

    def offered(self) -> Tensor:
        """(G, (k + n) m), the token whose key is in each place; S where a place only fills the last chunk."""
        length, keys = self.buckets.shape[1], self.places.shape[1]
        if length == keys:
            return self.slots
        place = torch.arange(-self.ahead, length, device=self.slots.device)
        # The last chunk of the previous round has as many tokens as the last chunk of this round.
        return self.slots.where(place % length < keys, keys)

    def cut(self, x: Tensor, part: Part) -> Tensor:
        """The chunks of a part: x (G, n m), a value for each place, to (g, c, m)."""
        return x[part.first : part.last].unflatten(1, (-1, self.chunk))[:, part.begin : part.end]

    def windows(self, x: Tensor, part: Part) -> Tensor:
        """The windows of the chunks of a part: x (G, (k + n) m, ...) to (g, c, w, ...), without a copy."""
        return windows(x[part.first : part.last], self.chunk, self.reach)[:, part.begin : part.end]

    def bounds(self, part: Part) -> tuple[Tensor, Tensor]:
        """Begin and end of a query's bucket in its window, counted from the window's first place: (g, c, m) each."""
        buckets = self.buckets[part.first : part.last].contiguous()
        chunk = torch.arange(buckets.shape[1], device=buckets.device) // self.chunk * self.chunk
        begin = chunk - self.ahead
        first = torch.searchsorted(buckets, buckets).maximum(begin) - begin
        last = torch.searchsorted(buckets, buckets, right=True).minimum(chunk + self.chunk) - 1 - begin
        return (bound.unflatten(1, (-1, self.chunk))[:, part.begin : part.end] for bound in (first, last))  # type: ignore[return-value]

    def holds(self, asked: Tensor, offered: Tensor, part: Part) -> Tensor:
        """Whether keys are in the window, and in the bucket, of queries in this round.

        Arguments:
            asked: (g, c, m), queries.
            offered: (g, c, w), keys.

        Returns:
            (g, c, m, w) bool.
        """
        whole = Part(part.first, part.last, 0, self.chunks)
        chunk = torch.arange(self.buckets.shape[1], device=asked.device) // self.chunk * self.chunk - self.ahead
        places = self.places[part.first : part.last]
        first, last = ((bound.flatten(1) + chunk).gather(1, places) for bound in self.bounds(whole))
        first, last = (bound.gather(1, asked.flatten(1)).view(asked.shape).unsqueeze(-1) for bound in (first, last))
        place = places.gather(1, offered.flatten(1)).view(offered.shape).unsqueeze(-2)
        return (place >= first) & (place <= last)


@dataclass(frozen=True, slots=True)
class Part:
    """Some chunks of some sequences: the sequences from `first` to before `last`, the chunks from `begin` to before `end`."""

    first: int
    last: int
    begin: int
    end: int


def windows(x: Tensor, chunk: int, reach: int) -> Tensor:
    """Each chunk after the k chunks before it: x (g, (n + k) m, ...) to (g, n, (k + 1) m, ...), without a copy.

    >>> windows(torch.arange(8).view(1, 8), chunk=2, reach=1).tolist()
    [[[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]]
    """
    found = x.unfold(1, (reach + 1) * chunk, chunk)
    return found if x.dim() == 2 else found.movedim(-1, 2)


ALONE = -1e4
"""A query's score with its own key: so low that the key only counts if the query sees no other."""

Sets = Literal["bucket", "chunk"]


class HashedMask:
    """Masks the scores of keys in a window that its queries do not attend to.

    Arguments:
        inputs: of the attention.
        orders: one for each round.
        sets: as in `LSHAttention`.
        buckets: the number of buckets; slots in higher ones may not attend to themselves.
    """

    def __init__(self, inputs: AttentionInputs, orders: Sequence[HashedOrder], *, sets: Sets, buckets: int) -> None:
        self._inputs = inputs
        self._orders = orders
        self._sets = sets
        self._causal = plainly_causal(inputs)
        # For each place, the score of a query with its own key.
        self._alone = [
            torch.full_like(order.buckets, ALONE, dtype=torch.float32).masked_fill_(order.buckets >= buckets, LOW)
            for order in orders
        ]
        by_time = orders if self._causal and sets == "chunk" else ()
        # The last visible token is the one before the query: the query's own key may be in the window twice.
        self._seen_to = [order.asked().float() - 1 for order in by_time]
        self._offered = [order.offered().float() for order in by_time]

    def __call__(self, scores: Tensor, turn: int, part: Part) -> None:
        """Mask the scores (g, c, m, w) of one part of a round, in place."""
        order = self._orders[turn]
        if not self._causal:
            scores.add_(self._unseen(turn, part), alpha=LOW)
        # By arithmetic: `where` handles entries one by one, and would be the slowest step after the matrix products.
        elif self._sets == "chunk":
            seen_to, offered = order.cut(self._seen_to[turn], part), order.windows(self._offered[turn], part)
            scores.add_((offered.unsqueeze(-2) - seen_to.unsqueeze(-1)).clamp_(0.0, 1.0), alpha=LOW)
        else:
            # Inside a bucket tokens are in the order of the text: later places are later tokens.
            here = torch.arange(scores.shape[-1], device=scores.device, dtype=torch.float32)
            own = here[order.ahead :].unsqueeze(-1)
            first, _ = order.bounds(part)
            before = (first.float().unsqueeze(-1) - here).clamp_(0.0, 1.0)
            scores.add_(before.add_((here - own).clamp_(0.0, 1.0)), alpha=LOW)
            if turn:
                scores.add_(self._held_before(turn, part), alpha=LOW)
        scores.diagonal(offset=order.ahead, dim1=-2, dim2=-1).copy_(order.cut(self._alone[turn], part))

    def _unseen(self, turn: int, part: Part) -> Tensor:
        """Which keys of its window a query does not attend to, or only if it sees no other: (g, c, m, w) bool."""
        order, (_, heads, _, keys) = self._orders[turn], self._inputs.shape
        asked = order.cut(order.asked(), part).unsqueeze(-1)
        offered = order.windows(order.offered(), part).unsqueeze(-2)
        unseen = (offered == asked) | (offered == keys)
        if self._sets == "bucket":
            first, last = (bound.unsqueeze(-1) for bound in order.bounds(part))
            here = torch.arange(offered.shape[-1], device=asked.device)
            unseen |= (here < first) | (here > last)
            if turn:
                unseen |= self._held_before(turn, part)
        if self._inputs.mask is not None:
            sequence = torch.arange(part.first, part.last, device=asked.device).view(-1, 1, 1, 1)
            unseen |= ~self._inputs.mask(sequence // heads, sequence % heads, asked, offered.clamp_max(keys - 1))
        return unseen

    def _held_before(self, turn: int, part: Part) -> Tensor:
        """Which keys of its window a query has attended to in an earlier round: (g, c, m, w) bool."""
        order = self._orders[turn]
        asked, offered = order.cut(order.asked(), part), order.windows(order.slots, part)
        held = self._orders[0].holds(asked, offered, part)
        for earlier in self._orders[1:turn]:
            held |= earlier.holds(asked, offered, part)
        return held


def plainly_causal(inputs: AttentionInputs) -> bool:
    """Whether every query sees exactly the keys of its own slot and of the slots before it."""
    mask = inputs.mask
    return type(mask) is Causal and mask.offset == inputs.shape[3] - inputs.shape[2]


AT_ONCE = 1 << 21
"""The number of scores computed at a time on a processor. These 8 MiB stay in its cache, and the allocator keeps their memory."""

Hide = Callable[[Tensor, int, Part], None]
"""Masks the scores (g, c, m, w) of one part of a round, in place."""


def attend_in_rounds(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    orders: Sequence[HashedOrder],
    hide: Hide,
    dropout: float = 0.0,
    seed: int = 0,
) -> Tensor:
    """Each query's weighted values over its windows in all rounds, one softmax over all of them.

        o_i = sum_r exp(z_i^r - z_i) o_i^r,   z_i^r = log sum_j exp(s_ij^r),   z_i = log sum_r exp(z_i^r)

    Arguments:
        query, key: (B, H, S, E).
        value: (B, H, S, Ev).
        orders: one for each round, of G = B H sequences.
        hide: see `Hide`; it turns q_i . k_j into s_ij^r.
        dropout: probability of dropping a weight.
        seed: of the dropout.

    Returns:
        (B, H, S, Ev) in the dtype of `value`; zero for a query without a visible key.
    """
    return _InRounds.apply(query, key, value, orders, hide, dropout, seed)


class _InRounds(torch.autograd.Function):
    """Saves inputs, output and z for the backward pass, and recomputes the scores there, as FlashAttention does."""

    @staticmethod
    def forward(
        context: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        orders: Sequence[HashedOrder],
        hide: Hide,
        dropout: float,
        seed: int,
    ) -> Any:
        exact = torch.float64 if query.dtype == torch.float64 else torch.float32
        layout, step = _Layout(query), _Step(hide, dropout, seed, exact)
        indices = [layout.index(order.slots) for order in orders]
        queries, keys, values = (layout.rows(x) for x in (query, key, value))
        output = value.new_empty(*query.shape[:3], value.shape[3])
        gathered = output.flatten(0, 1)
        total = torch.empty(gathered.shape[:2], dtype=exact, device=query.device)
        with torch.autocast(query.device.type, enabled=False):
            for first, last in _groups(query, orders[0]):
                for turn, (order, index) in enumerate(zip(orders, indices, strict=True)):
                    places, offered = order.places[first:last], index[first:last]
                    q = _taken(queries, offered[:, order.ahead :])
                    k, v = (_taken(x, offered) for x in (keys, values))
                    found = []
                    for part in _parts(first, last, order):
                        weights, z = step.weights(turn, part, q, k, order)
                        step.drop(weights, turn, part)
                        found.append(((weights.to(v.dtype) @ _window(v, order, part)).flatten(1, 2), z))
                    out, z = (x[0] if len(x) == 1 else torch.cat(x, dim=1) for x in zip(*found, strict=True))
                    _merge(
                        gathered[first:last], total[first:last], _at(out, places), z.gather(1, places), first=not turn
                    )
                gathered[first:last].masked_fill_((total[first:last] <= LOW / 2).unsqueeze(-1), 0.0)
        context.save_for_backward(query, key, value, output, total)
        context.orders, context.step = orders, step
        return output

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        query, key, value, output, total = context.saved_tensors
        orders, step = context.orders, context.step
        blind = (total <= LOW / 2).view(query.shape[:3])
        upstream = upstream.masked_fill(blind.unsqueeze(-1), 0.0)
        # The term of the softmax's gradient that is the same for all keys of a query: sum_j w_j dL/dw_j.
        shared = (upstream.to(total.dtype) * output.to(total.dtype)).sum(dim=-1).view(total.shape)
        layout = _Layout(query)
        queries, keys, values, given = (layout.rows(x) for x in (query, key, value, upstream))
        gradients = [x.new_zeros(x.shape) for x in (query, key, value)]
        with torch.autocast(query.device.type, enabled=False):
            for turn, order in enumerate(orders):
                index = layout.index(order.slots)
                for first, last in _groups(query, order):
                    mine, offered = order.of(Part(first, last, 0, order.chunks)), index[first:last]
                    q, g = (_taken(x, offered[:, order.ahead :]) for x in (queries, given))
                    k, v = (_taken(x, offered) for x in (keys, values))
                    z, taken = (x[first:last].gather(1, mine.asked()) for x in (total, shared))
                    for x in (g, taken):  # places that only pad the last chunk have no query
                        x[:, mine.places.shape[1] :] = 0.0
                    of_q, of_k, of_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
                    for part in _parts(first, last, order):
                        here = slice(part.begin * order.chunk, part.end * order.chunk)
                        weights, own = step.weights(turn, part, q, k, order)
                        weights *= (
                            (own - z[:, here]).clamp_max_(0.0).exp_().unflatten(1, (-1, order.chunk)).unsqueeze(-1)
                        )
                        wanted = g[:, here].unflatten(1, (-1, order.chunk))
                        felt = (wanted @ _window(v, order, part).transpose(-1, -2)).to(weights.dtype)
                        mask = step.mask(weights, turn, part)
                        dropped = weights if mask is None else weights * mask
                        felt = felt if mask is None else felt.mul_(mask)
                        _add_window(of_v, dropped.to(v.dtype).transpose(-1, -2) @ wanted, order, part)
                        felt.sub_(taken[:, here].unflatten(1, (-1, order.chunk)).unsqueeze(-1)).mul_(weights)
                        felt = felt.to(q.dtype)
                        of_q[:, here] = (felt @ _window(k, order, part)).flatten(1, 2)
                        _add_window(
                            of_k, felt.transpose(-1, -2) @ q[:, here].unflatten(1, (-1, order.chunk)), order, part
                        )
                    for gradient, found in zip(gradients, (of_q, of_k, of_v), strict=True):
                        _add_sorted(gradient.flatten(0, 1)[first:last], found, mine)
        return *gradients, None, None, None, None


class _Step:
    """The weights inside the windows of a part; recomputing them gives the same numbers."""

    def __init__(self, hide: Hide, dropout: float, seed: int, exact: torch.dtype) -> None:
        self._hide = hide
        self._dropout = dropout
        self._seed = seed
        self._exact = exact

    def weights(self, turn: int, part: Part, query: Tensor, key: Tensor, order: HashedOrder) -> tuple[Tensor, Tensor]:
        """exp(s - z) (g, c, m, w) and z (g, c m) of one round."""
        here = slice(part.begin * order.chunk, part.end * order.chunk)
        scores = query[:, here].unflatten(1, (-1, order.chunk)) @ _window(key, order, part).transpose(-1, -2)
        scores = scores.to(self._exact)
        self._hide(scores, turn, part)
        weights = scores.softmax(dim=-1)
        # z, the logarithm of the sum of exp(s), since the largest weight is exp(largest s - z).
        total = scores.amax(dim=-1) - weights.amax(dim=-1).log_()
        return weights, total.flatten(1)

    def mask(self, weights: Tensor, turn: int, part: Part) -> Tensor | None:
        """The dropout mask, of the shape of the weights; None without dropout."""
        if not self._dropout:
            return None
        return kept(weights, self._dropout, hash((self._seed, turn, part.first, part.begin)) % 2**63)

    def drop(self, weights: Tensor, turn: int, part: Part) -> None:
        """Drop some of the weights, in place."""
        mask = self.mask(weights, turn, part)
        if mask is not None:
            weights *= mask


class _Layout:
    """The memory layout of (B, H, S, E) tensors, taken from the first one: heads before or after time."""

    def __init__(self, like: Tensor) -> None:
        batch, heads, length, _ = like.shape
        sequence = torch.arange(batch * heads, device=like.device).unsqueeze(1)
        # The layout of heads that `split_heads` cut from the width of a model.
        self._time_first = like.transpose(1, 2).is_contiguous()
        self._first = sequence // heads * (length * heads) + sequence % heads if self._time_first else sequence * length
        self._stride = heads if self._time_first else 1

    def rows(self, x: Tensor) -> Tensor:
        """(B, H, S, E) to (B H S, E)."""
        return (x.transpose(1, 2) if self._time_first else x).reshape(-1, x.shape[3])

    def index(self, slots: Tensor) -> Tensor:
        """The row numbers of slots (G, N) of all sequences."""
        return self._first + slots * self._stride


def _groups(query: Tensor, order: HashedOrder) -> Iterator[tuple[int, int]]:
    """Ranges of sequences to compute together: all of them on a GPU, fewer on a processor."""
    sequences, places = order.buckets.shape
    each = places * order.chunk * (order.reach + 1)
    # A sequence that is a large part of `AT_ONCE` is computed alone: its windows then need no copy.
    step = sequences if query.device.type != "cpu" else max(AT_ONCE // 8 // each, 1)
    for first in range(0, sequences, step):
        yield first, min(first + step, sequences)


def _parts(first: int, last: int, order: HashedOrder) -> Iterator[Part]:
    """The chunks of some sequences, in parts of limited size."""
    each = (last - first) * order.chunk * order.chunk * (order.reach + 1)
    step = order.chunks if order.slots.device.type != "cpu" else max(AT_ONCE // each, 1)
    for begin in range(0, order.chunks, step):
        yield Part(first, last, begin, min(begin + step, order.chunks))


def _window(x: Tensor, order: HashedOrder, part: Part) -> Tensor:
    """The windows of a part: x (g, (n + k) m, E) to (g, c, w, E)."""
    return windows(x, order.chunk, order.reach)[:, part.begin : part.end]


def _add_sorted(x: Tensor, added: Tensor, order: HashedOrder) -> None:
    """Add values of each place, (g, n m, E) or (g, (k + n) m, E), to x (g, S, E) of each token."""
    ahead = added.shape[1] - order.buckets.shape[1]
    x += _at(added[:, ahead:], order.places)
    if ahead:
        x.scatter_add_(1, order.slots[:, :ahead, None].expand(-1, -1, x.shape[2]), added[:, :ahead])


def _add_window(x: Tensor, added: Tensor, order: HashedOrder, part: Part) -> None:
    """Add (g, c, w, E) to the windows of a part; a place in several windows gets the sum."""
    count = part.end - part.begin
    for step in range(order.reach + 1):
        begin = (part.begin + step) * order.chunk
        here = slice(step * order.chunk, (step + 1) * order.chunk)
        x[:, begin : begin + count * order.chunk] += added[:, :, here].flatten(1, 2)


def _taken(rows: Tensor, index: Tensor) -> Tensor:
    """Rows of (N, E) at an index of any shape (...): (..., E), copied row by row."""
    return rows.index_select(0, index.flatten()).unflatten(0, index.shape)


def _at(x: Tensor, places: Tensor) -> Tensor:
    """Rows of x (g, N, E) at places (g, S): (g, S, E)."""
    return _taken(x.flatten(0, 1), torch.arange(len(x), device=x.device).unsqueeze(1) * x.shape[1] + places)


def _merge(output: Tensor, total: Tensor, more: Tensor, z: Tensor, *, first: bool) -> None:
    """Merge the output of one more round into that of the earlier rounds, in place."""
    if first:
        output.copy_(more)
        total.copy_(z)
        return
    # Not exp(z - both): for a query that sees only itself z is large in magnitude, and the difference would be rounded.
    output.lerp_(more, torch.sigmoid(z - total).unsqueeze(-1).to(more.dtype))
    torch.logaddexp(total, z, out=total)
