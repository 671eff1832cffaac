"""Which keys of its window a query of a hashed order looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from regard.attention.hashed_order import LOW, HashedOrder, Part
from regard.attention.inputs import AttentionInputs
from regard.attention.masks import Causal

ALONE = -1e4
"""A query's score with its own key: so low that it counts only where there is no other."""

Sets = Literal["bucket", "chunk"]


class HashedMask:
    """What the queries of hashed orders do not look at in their windows, put on their scores.

    Arguments:
        inputs: of the attention.
        orders: one for each round.
        sets: as in `LSHAttention`.
        buckets: how many there are; slots in higher ones may not see themselves.
    """

    def __init__(self, inputs: AttentionInputs, orders: Sequence[HashedOrder], *, sets: Sets, buckets: int) -> None:
        self._inputs = inputs
        self._orders = orders
        self._sets = sets
        self._causal = plainly_causal(inputs)
        # Of each place, the score of a query with its own key.
        self._alone = [
            torch.full_like(order.buckets, ALONE, dtype=torch.float32).masked_fill_(order.buckets >= buckets, LOW)
            for order in orders
        ]
        by_time = orders if self._causal and sets == "chunk" else ()
        # The token before is the last that is seen: its own key may stand in the window twice.
        self._seen_to = [order.asked().float() - 1 for order in by_time]
        self._offered = [order.offered().float() for order in by_time]

    def __call__(self, scores: Tensor, turn: int, part: Part) -> None:
        """Put it on the scores of a part in a round, (g, c, m, w), in place."""
        order = self._orders[turn]
        if not self._causal:
            scores.add_(self._unseen(turn, part), alpha=LOW)
        # By arithmetic: what is chosen by a condition is chosen one by one, most of the work beside the products.
        elif self._sets == "chunk":
            seen_to, offered = order.cut(self._seen_to[turn], part), order.windows(self._offered[turn], part)
            scores.add_((offered.unsqueeze(-2) - seen_to.unsqueeze(-1)).clamp_(0.0, 1.0), alpha=LOW)
        else:
            # In a bucket the order is that of time: what comes after the query stands after it.
            here = torch.arange(scores.shape[-1], device=scores.device, dtype=torch.float32)
            own = here[order.ahead :].unsqueeze(-1)
            first, _ = order.bounds(part)
            before = (first.float().unsqueeze(-1) - here).clamp_(0.0, 1.0)
            scores.add_(before.add_((here - own).clamp_(0.0, 1.0)), alpha=LOW)
            if turn:
                scores.add_(self._held_before(turn, part), alpha=LOW)
        scores.diagonal(offset=order.ahead, dim1=-2, dim2=-1).copy_(order.cut(self._alone[turn], part))

    def _unseen(self, turn: int, part: Part) -> Tensor:
        """Which keys of its window a query does not look at, or only where it is alone: (g, c, m, w) bool."""
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
        """Which keys of its window a query has met in an earlier round: (g, c, m, w) bool."""
        order = self._orders[turn]
        asked, offered = order.cut(order.asked(), part), order.windows(order.slots, part)
        held = self._orders[0].holds(asked, offered, part)
        for earlier in self._orders[1:turn]:
            held |= earlier.holds(asked, offered, part)
        return held


def plainly_causal(inputs: AttentionInputs) -> bool:
    """Whether a query sees the keys of the slots up to its own and no others are ruled out."""
    mask = inputs.mask
    return type(mask) is Causal and mask.offset == inputs.shape[3] - inputs.shape[2]
