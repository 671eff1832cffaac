"""Relative positions: the distance from a query to a key as a bias for each head, or as a vector.

`RelativeDot` adds a bias (Raffel et al. 2020): each short distance has its own bucket, and longer ones share wider buckets.
`RelativeKeys` and `RelativeAttention` compare the query with a vector for the distance (Shaw et al. 2018, Huang et al. 2019).
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.inputs import AttentionInputs, Reads
from regard.attention.masks import Causal
from regard.attention.mechanism import Declaration, ScoredAttention
from regard.attention.scores import Score, known

BIAS = "bias"
"""The name of a precomputed bias in the record."""


def buckets_of(distance: Tensor, *, buckets: int = 32, maximum_distance: int = 128, both_ways: bool = True) -> Tensor:
    """The bucket of each distance from a query i to a key j, j - i (Raffel et al. 2020, section 2.1; their code for the numbers).

        n = |j - i|,   N = buckets per direction,   bucket(n) = n                                             for n < N/2
                                                    bucket(n) = N/2 + floor(N/2 log(n / (N/2)) / log(M / (N/2)))   at most N - 1

    With `both_ways` keys after the query have the second half of the buckets. Without it they all have the bucket of distance 0,
    and a causal mask hides them.

    Arguments:
        distance: integers of any shape, key's position minus query's.
        buckets: 2 N with `both_ways`, else N.
        maximum_distance: M; all distances from M on share a bucket.

    Returns:
        int64 of the same shape, in [0, buckets).

    >>> buckets_of(torch.tensor([-200, -128, -20, -8, -7, -1, 0, 1, 7, 8, 20])).tolist()
    [15, 15, 10, 8, 7, 1, 0, 17, 23, 24, 26]
    """
    each = buckets // 2 if both_ways else buckets
    after = (distance > 0).long() * each if both_ways else 0
    far = distance.abs() if both_ways else (-distance).clamp_min(0)
    exact = each // 2
    # In float32 and in this order, as in the authors' code: if the quotient is nearly an integer, rounding selects the bucket.
    logarithm = (far.clamp_min(exact).float() / exact).log() / math.log(maximum_distance / exact)
    wide = (exact + (logarithm * (each - exact)).long()).clamp_max(each - 1)
    return after + torch.where(far < exact, far, wide)


class RelativeBias(nn.Module):
    """One number for each head and bucket of distances (Raffel et al. 2020, section 2.1).

        b_h(i, j) = table[bucket(j - i), h]

    The bias depends only on distances, so the side of padding does not matter.

    Arguments:
        heads: H.
        buckets: the number of buckets; even with `both_ways`.
        maximum_distance: all distances from here on share a bucket; larger than the number of distances with their own bucket.
        both_ways: whether keys after the query have their own buckets: True in an encoder, False under a causal mask.

    Raises:
        ValueError: for a number of buckets that does not fit the other settings.

    >>> RelativeBias(heads=2).between_slots(3, 5).shape
    torch.Size([1, 2, 3, 5])
    """

    def __init__(self, heads: int, *, buckets: int = 32, maximum_distance: int = 128, both_ways: bool = True) -> None:
        super().__init__()
        each = buckets // 2 if both_ways else buckets
        if each < 2 or (both_ways and buckets % 2) or maximum_distance <= each // 2:
            raise ValueError(
                f"buckets is {buckets} and maximum_distance {maximum_distance}; each direction needs at least 2 buckets, and "
                "maximum_distance must be larger than half of them"
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
        """(1, H, L, S) for L queries and S keys, both at the positions 0, 1, 2, ..."""
        # Look up each distance once, then take a slice for every query: far fewer look-ups, also in the backward pass.
        distance = torch.arange(1 - queries, max(keys, 1), device=self.weight.device)
        by_distance = self(distance.unsqueeze(0))[:, 0]
        return by_distance.unfold(-1, keys, 1).flip(-2).unsqueeze(0)

    def extra_repr(self) -> str:
        """The numbers of heads and buckets."""
        ways = "both ways" if self.both_ways else "backwards"
        return f"heads={self.weight.shape[1]}, buckets={self.buckets}, maximum_distance={self.maximum_distance}, {ways}"


class RelativeDot(Score):
    """The inner product of query and key plus a bias by distance, without scaling (Raffel et al. 2020, section 2.1).

        score(q_i, k_j) = q_i . k_j + b_h(i, j)

    Positions are those of the inputs. Layers that share a bias compute it once and pass it as `inputs.record["bias"]`,
    (B or 1, H, L or 1, S).

    Arguments:
        bias: the layer's own bias; None if the record always holds one.

    >>> score = RelativeDot(RelativeBias(heads=2))
    >>> score(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 5, 4)).shape
    torch.Size([1, 2, 3, 5])
    """

    reads: Reads = MappingProxyType({BIAS: "bHlS"})

    def __init__(self, bias: RelativeBias | None = None) -> None:
        super().__init__()
        self.bias = bias

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        """(B, H, L, E) and (B, H, S, E) to (B, H, L, S).

        Raises:
            ValueError: if there is no bias, neither its own nor in the record.
        """
        return query @ key.transpose(-2, -1) + self.term(known(query, key, inputs)).to(query.dtype)

    def product_and_term(self, inputs: AttentionInputs) -> tuple[float, Tensor]:
        """1, and the bias."""
        return 1.0, self.term(inputs)

    def term(self, inputs: AttentionInputs) -> Tensor:
        """The bias, (B or 1, H, L or 1, S).

        Raises:
            ValueError: as `forward`.
        """
        given = inputs.part(BIAS, self.reads)
        if given is not None:
            return given
        if self.bias is None:
            raise ValueError(f"there is no bias by distance; give `bias`, or inputs with record[{BIAS!r}]")
        queries, keys = inputs.shape[2:]
        if inputs.in_order and queries >= keys:
            return self.bias.between_slots(queries, keys)
        return self.bias.between(inputs.query_positions, inputs.key_positions)


Beyond = Literal["last", "nothing"]
"""The vector of a distance beyond the largest one: that of the largest, or zero."""


class RelativeVectors(nn.Module):
    """One vector for each distance from a query i to a key j, j - i (Shaw et al. 2018, section 3.2).

        a_ij = w[clip(j - i, -k, k)]

    The Music Transformer attends only to earlier tokens and has vectors for each head (Huang et al. 2019, section 3.4); in Shaw
    et al. the heads share them. In the code of the Music Transformer a distance beyond k has no vector: `beyond="nothing"`.

    Arguments:
        width: E, of a query (or, for values, of a value).
        maximum_distance: k, the largest distance with its own vector.
        heads: H if each head has its own vectors; 1 if they share them.
        both_ways: whether keys after the query have vectors; if not, a causal mask hides them.
        beyond: the vector of a distance beyond k: the `last` vector on its side, as in Shaw et al., or `nothing`, a zero vector.

    >>> vectors = RelativeVectors(4, 2)
    >>> vectors.weight.shape
    torch.Size([1, 5, 4])
    >>> vectors.rows(torch.tensor([-9, -2, 0, 1, 9])).tolist()
    [0, 0, 2, 3, 4]
    """

    def __init__(
        self, width: int, maximum_distance: int, *, heads: int = 1, both_ways: bool = True, beyond: Beyond = "last"
    ) -> None:
        super().__init__()
        if maximum_distance < 0 or heads < 1:
            raise ValueError(f"heads is {heads} and maximum_distance {maximum_distance}; give at least 1 and 0")
        self.maximum_distance = maximum_distance
        self.both_ways = both_ways
        self.beyond = beyond
        self.weight = nn.Parameter(torch.empty(heads, maximum_distance * (2 if both_ways else 1) + 1, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the vectors with standard deviation E^-1/2, as the authors' code does."""
        nn.init.normal_(self.weight, std=self.weight.shape[-1] ** -0.5)

    @property
    def farthest_after(self) -> int:
        """The largest distance to a later key that has its own vector."""
        return self.maximum_distance if self.both_ways else 0

    def rows(self, distance: Tensor) -> Tensor:
        """The row of the table for each distance, of any shape; for distances without a vector, the number of rows."""
        nearest = distance.clamp(-self.maximum_distance, self.farthest_after)
        without = torch.zeros_like(distance, dtype=torch.bool) if self.both_ways else distance > 0
        if self.beyond == "nothing":
            without = nearest != distance
        return (nearest + self.maximum_distance).masked_fill(without, self.weight.shape[1])

    def forward(self, distance: Tensor) -> Tensor:
        """The vectors themselves: distances (...) to (H or 1, ..., E). For L x S distances these are L S E numbers."""
        return F.pad(self.weight, (0, 0, 0, 1))[:, self.rows(distance)]

    def products(self, query: Tensor, distance: Tensor) -> Tensor:
        """q_i . a_ij, without storing a vector for each pair.

        Arguments:
            query: (B, H, L, E).
            distance: (B or 1, L, S) integers.

        Returns:
            (B, H, L, S).
        """
        found = F.pad(query @ self.weight.to(query.dtype).transpose(-2, -1), (0, 1))
        rows = self.rows(distance).unsqueeze(1)
        return found.gather(-1, rows.expand(*query.shape[:3], rows.shape[-1]))

    def products_of_slots(self, query: Tensor, keys: int, *, causal: bool = False) -> Tensor:
        """q_i . a_ij for queries and keys at the positions 0, 1, 2, ..., by the skewing procedure, without an index tensor.

        Arguments:
            query: (B, H, L, E).
            keys: S.
            causal: whether a mask hides the keys after the query; their results are then undefined.

        Returns:
            (B, H, L, S).
        """
        queries = query.shape[-2]
        before, after = queries - 1, keys - 1
        if self.both_ways or keys > queries:
            return skewed(self._by_distance(query, before, after), before, keys)
        # The paper's procedure, with L + 1 columns; entries above the diagonal have no meaning.
        found = skewed(F.pad(self._by_distance(query, before, 0), (1, 0)), queries, keys)
        return found if causal else found.tril()

    def sums(self, weights: Tensor, distance: Tensor) -> Tensor:
        """sum_j w_ij a_ij, without storing a vector for each pair: weights (B, H, L, S) to (B, H, L, E)."""
        table = self.weight.to(weights.dtype)
        rows = self.rows(distance).unsqueeze(1).expand(weights.shape)
        by_row = weights.new_zeros(*weights.shape[:3], table.shape[1] + 1).scatter_add(-1, rows, weights)
        return by_row[..., :-1] @ table

    def _by_distance(self, query: Tensor, before: int, after: int) -> Tensor:
        """(B, H, L, before + 1 + after): the products of each query with the vectors from -before to after."""
        most, ahead = self.maximum_distance, self.farthest_after
        near = self.weight[:, most - min(before, most) : most + min(after, ahead) + 1].to(query.dtype)
        found = query @ near.transpose(-2, -1)
        missing = (max(before - most, 0), max(after - ahead, 0))
        if self.beyond == "nothing" or not any(missing):
            return F.pad(found, missing)
        ends = (found[..., :1], found[..., -1:] if self.both_ways else torch.zeros_like(found[..., :1]))
        far = [end.expand(*end.shape[:-1], count) for end, count in zip(ends, missing, strict=True)]
        return torch.cat((far[0], found, far[1]), dim=-1)

    def extra_repr(self) -> str:
        """The sizes of the table, and the settings."""
        heads, _, width = self.weight.shape
        ways = "both ways" if self.both_ways else "backwards"
        return f"width={width}, maximum_distance={self.maximum_distance}, heads={heads}, {ways}, beyond={self.beyond}"


def skewed(x: Tensor, zero: int, keys: int) -> Tensor:
    """The skewing procedure, from columns by distance to columns by key: out[i, j] = x[i, zero + j - i] (Huang et al. 2019, 3.4).

    It only reshapes: the memory is read with rows that are one element shorter, so each row begins one element later. If
    zero + j - i is not a column of x, out[i, j] is a number of another row and has no meaning.

    Arguments:
        x: (..., L, N), a column for each distance.
        zero: the column of distance 0, at most L.
        keys: S, at most N - 1, or N of a single query.

    Returns:
        (..., L, S).

    >>> skewed(torch.tensor([[0, -1, 0], [0, -1, 0]]), 2, 2).tril().tolist()
    [[0, 0], [-1, 0]]
    """
    *batch, queries, columns = x.shape
    if queries == 1:
        return x[..., zero : zero + keys]
    read = x.flatten(-2)[..., zero : zero + queries * (columns - 1)]
    return read.reshape(*batch, queries, columns - 1)[..., :keys]


class RelativeKeys(Score):
    """The scaled product of the query with the key and with a vector for the distance to it (Shaw et al. 2018, equation 4).

        score(q_i, k_j) = (q_i . k_j + q_i . a_ij) / sqrt(E)

    Positions are `inputs.query_positions` and `inputs.key_positions`.

    Arguments:
        vectors: a, as wide as a query.

    >>> score = RelativeKeys(RelativeVectors(4, 8))
    >>> score(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 5, 4)).shape
    torch.Size([1, 2, 3, 5])
    """

    def __init__(self, vectors: RelativeVectors) -> None:
        super().__init__()
        self.vectors = vectors

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        """(B, H, L, E) and (B, H, S, E) to (B, H, L, S)."""
        by_distance = self.by_distance(query, known(query, key, inputs))
        return (query @ key.transpose(-2, -1) + by_distance) / math.sqrt(query.shape[-1])

    def product_and_term(self, inputs: AttentionInputs) -> tuple[float, Tensor]:
        """1 / sqrt(E), and the products with the vectors divided by the same."""
        scale = 1.0 / math.sqrt(inputs.query.shape[-1])
        return scale, self.by_distance(inputs.query * scale, inputs)

    def by_distance(self, query: Tensor, inputs: AttentionInputs) -> Tensor:
        """q_i . a_ij, (B, H, L, S), of the inputs' queries or of those times a number."""
        queries, keys = inputs.shape[2:]
        if inputs.in_order and queries >= keys:
            mask = inputs.mask
            causal = type(mask) is Causal and mask.offset == 0
            return self.vectors.products_of_slots(query, keys, causal=causal)
        return self.vectors.products(query, distances(inputs))


class RelativeAttention(ScoredAttention):
    """Softmax attention with relative vectors added to keys and to values (Shaw et al. 2018).

        e_ij = q_i . (k_j + a^K_ij) / sqrt(E),   z_i = sum_j softmax(e_i)_j (v_j + a^V_ij)

    (equations 3 and 4 of the paper). Without vectors for values it is `ScoredAttention(RelativeKeys(...))`.

    Arguments:
        keys: a^K.
        values: a^V, as wide as a value.
        dropout: probability of dropping a weight in training.

    >>> attention = RelativeAttention(RelativeVectors(4, 8), RelativeVectors(6, 8))
    >>> inputs = AttentionInputs(query=torch.randn(2, 3, 5, 4), key=torch.randn(2, 3, 5, 4))
    >>> value, weights = torch.randn(2, 3, 5, 6), attention.weights(inputs)
    >>> torch.allclose(attention(inputs, value), weights @ value + attention.extra_output(inputs, weights), atol=1e-5)
    True
    """

    def __init__(self, keys: RelativeVectors, values: RelativeVectors, *, dropout: float = 0.0) -> None:
        super().__init__(RelativeKeys(keys), dropout=dropout)
        self.values = values

    @property
    def declaration(self) -> Declaration:
        """A distribution, with a further term of the output."""
        return Declaration(distribution=True, extra_output=True)

    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """Value (B, G, S, Ev) to output (B, H, L, Ev)."""
        inputs.check_value(value)
        weights = F.dropout(self.weights(inputs), self.dropout, self.training)
        weighed = weights.to(value.dtype) @ inputs.per_query_head(value)
        return (weighed + self.extra_output(inputs, weights)).to(value.dtype)

    def extra_output(self, inputs: AttentionInputs, weights: Tensor) -> Tensor:
        """sum_j w_ij a^V_ij, (B, H, L, Ev)."""
        return self.values.sums(weights, distances(inputs))


def distances(inputs: AttentionInputs) -> Tensor:
    """From each query to each key, key's position minus query's, (B or 1, L, S) integers."""
    return inputs.key_positions.unsqueeze(-2) - inputs.query_positions.unsqueeze(-1)
