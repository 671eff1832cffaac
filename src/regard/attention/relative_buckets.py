"""A bias by distance: how far a key stands from a query, near ones told apart one by one and far ones in ever wider buckets."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.attention.inputs import AttentionInputs
from regard.attention.scores import Score

BIAS = "bias"
"""What the record calls a bias that was computed beforehand."""


def buckets_of(distance: Tensor, *, buckets: int = 32, maximum_distance: int = 128, both_ways: bool = True) -> Tensor:
    """The bucket of each distance from a query i to a key j, j - i (Raffel et al. 2020, section 2.1; their code for the numbers).

        n = |j - i|,   N = buckets per direction,   bucket(n) = n                                             for n < N/2
                                                    bucket(n) = N/2 + floor(N/2 log(n / (N/2)) / log(M / (N/2)))   at most N - 1

    With `both_ways` keys after the query have the second half of the buckets; without, they all have that of distance 0, and
    a causal mask keeps them out of sight.

    Arguments:
        distance: integers of any shape, key's position minus query's.
        buckets: 2 N with `both_ways`, else N.
        maximum_distance: M; from here on all are alike.

    Returns:
        int64 of the same shape, in [0, buckets).

    >>> buckets_of(torch.tensor([-200, -128, -20, -8, -7, -1, 0, 1, 7, 8, 20])).tolist()
    [15, 15, 10, 8, 7, 1, 0, 17, 23, 24, 26]
    """
    each = buckets // 2 if both_ways else buckets
    after = (distance > 0).long() * each if both_ways else 0
    far = distance.abs() if both_ways else (-distance).clamp_min(0)
    exact = each // 2
    # In float32 and in this order, as the authors' code computes it: where the quotient is all but an integer, rounding decides.
    logarithm = (far.clamp_min(exact).float() / exact).log() / math.log(maximum_distance / exact)
    wide = (exact + (logarithm * (each - exact)).long()).clamp_max(each - 1)
    return after + torch.where(far < exact, far, wide)


class RelativeBias(nn.Module):
    """One number for each head and bucket of distances (Raffel et al. 2020, section 2.1).

        b_h(i, j) = table[bucket(j - i), h]

    Distances alone count, so padding on either side shifts nothing.

    Arguments:
        heads: H.
        buckets: how many distances are told apart; even with `both_ways`.
        maximum_distance: from here on all are alike; more than are told apart one by one.
        both_ways: whether keys after the query have buckets of their own: in an encoder they do, under a causal mask not.

    Raises:
        ValueError: for buckets that cannot be dealt out so.

    >>> RelativeBias(heads=2).between_slots(3, 5).shape
    torch.Size([1, 2, 3, 5])
    """

    def __init__(self, heads: int, *, buckets: int = 32, maximum_distance: int = 128, both_ways: bool = True) -> None:
        super().__init__()
        each = buckets // 2 if both_ways else buckets
        if each < 2 or (both_ways and buckets % 2) or maximum_distance <= each // 2:
            raise ValueError(
                f"{buckets} buckets up to distance {maximum_distance} cannot be dealt out; there are at least 2 for each "
                "direction, and half of a direction's are less than the distance"
            )
        self.buckets = buckets
        self.maximum_distance = maximum_distance
        self.both_ways = both_ways
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the table to zero: no distance is preferred."""
        nn.init.zeros_(self.weight)

    def forward(self, distance: Tensor) -> Tensor:
        """Integers (..., L, S), key's position minus query's, to (..., H, L, S)."""
        index = buckets_of(
            distance, buckets=self.buckets, maximum_distance=self.maximum_distance, both_ways=self.both_ways
        )
        return self.weight[index].movedim(-1, -3)

    def between(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions of queries (B, L) and of keys (B, S) to (B, H, L, S)."""
        return self(keys.unsqueeze(-2) - queries.unsqueeze(-1))

    def between_slots(self, queries: int, keys: int) -> Tensor:
        """(1, H, L, S) of so many queries and keys that both stand at 0, 1, 2 and so on."""
        # Each distance once, and then every query's stretch of them: fewer look-ups by far, backwards too.
        distance = torch.arange(1 - queries, max(keys, 1), device=self.weight.device)
        by_distance = self(distance.unsqueeze(0))[:, 0]
        return by_distance.unfold(-1, keys, 1).flip(-2).unsqueeze(0)

    def extra_repr(self) -> str:
        """How many heads and buckets."""
        ways = "both ways" if self.both_ways else "backwards"
        return f"heads={self.weight.shape[1]}, buckets={self.buckets}, maximum_distance={self.maximum_distance}, {ways}"


class RelativeDot(Score):
    """The inner product of query and key plus a bias by distance; not divided by anything (Raffel et al. 2020, section 2.1).

        score(q_i, k_j) = q_i . k_j + b_h(i, j)

    Positions are `inputs.query_places` and `inputs.key_places`. Where layers share one bias it is computed once for all, and
    handed over as `inputs.record["bias"]`, (B or 1, H, L or 1, S).

    Arguments:
        bias: the layer's own; None where the record always has it.

    >>> score = RelativeDot(RelativeBias(heads=2))
    >>> score(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 5, 4)).shape
    torch.Size([1, 2, 3, 5])
    """

    def __init__(self, bias: RelativeBias | None = None) -> None:
        super().__init__()
        self.bias = bias

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        """(B, H, L, E) and (B, H, S, E) to (B, H, L, S).

        Raises:
            ValueError: where there is neither a bias of its own nor one in the record.
        """
        product = query @ key.transpose(-2, -1)
        return product + self.term(inputs, query.shape[-2], key.shape[-2]).to(query.dtype)

    def product_and_term(self, inputs: AttentionInputs) -> tuple[float, Tensor]:
        """1, and the bias."""
        return 1.0, self.term(inputs, *inputs.shape[2:])

    def term(self, inputs: AttentionInputs | None, queries: int, keys: int) -> Tensor:
        """The bias, (B or 1, H, L or 1, S).

        Raises:
            ValueError: as `forward`.
        """
        given = None if inputs is None else inputs.record.get(BIAS)
        if given is not None:
            return given
        if self.bias is None:
            raise ValueError(f"there is no bias by distance; give one, or inputs whose record has it as {BIAS!r}")
        if inputs is None or (inputs.in_order and queries >= keys):
            return self.bias.between_slots(queries, keys)
        return self.bias.between(inputs.query_places, inputs.key_places)
