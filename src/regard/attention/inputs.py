"""The inputs of every attention mechanism: positions, and `AttentionInputs`, which holds them with queries, keys and a mask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from regard.attention.masks import Dense, Mask

NOTHING: Mapping[str, Tensor] = MappingProxyType({})
"""The record of a mechanism that needs no further tensors."""

Reads = Mapping[str, str]
"""What a mechanism, a score or an alignment reads in the record: the name of each tensor and its axes, such as `BHL` for one
number for each query and `BHLS` for one for each pair of query and key. Lower-case letters are axes of any size."""


class Positions:
    """The positions of queries and keys in their sequences, counted from each row's first real token.

    By default key s has position s, and the queries are the last L keys. Several layers can share one `Positions`: default
    positions are computed once, when they are first read.

    Arguments:
        queries, keys: L and S.
        of_queries: (B or 1, L) integers; None = those of the last L keys, or 0, 1, 2, ... if there are more queries than keys.
        of_keys: (B or 1, S) integers; None = 0, 1, 2, ...
        device: of the default positions.

    Raises:
        ValueError: if positions of another length are given.

    >>> positions = Positions(2, 3, of_keys=torch.tensor([[0, 0, 1], [0, 1, 2]]))
    >>> positions.queries.tolist(), positions.in_order
    ([[0, 1], [1, 2]], False)
    """

    __slots__ = ("_device", "_keys", "_queries", "given", "sizes")

    def __init__(
        self,
        queries: int,
        keys: int,
        *,
        of_queries: Tensor | None = None,
        of_keys: Tensor | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        for what, given, size in (("queries", of_queries, queries), ("keys", of_keys, keys)):
            if given is not None and (given.dim() != 2 or given.shape[1] != size):
                raise ValueError(f"positions of {size} {what} are (B, {size}), not {tuple(given.shape)}")
        self.sizes = (queries, keys)
        self.given = (of_queries, of_keys)
        self._queries = of_queries
        self._keys = of_keys
        self._device = device

    @classmethod
    def of_text(
        cls, length: int, places: Tensor | None = None, *, device: torch.device | str | None = None
    ) -> Positions:
        """The positions of a text of this length in self-attention.

        Arguments:
            places: (B or 1, L) integers, the position of each token; None = 0, 1, 2, ...
        """
        return cls(length, length, of_queries=places, of_keys=places, device=device)

    @property
    def in_order(self) -> bool:
        """Whether all positions are the default: key s has position s, and the queries are the last keys."""
        return self.given[0] is None and self.given[1] is None

    @property
    def keys_in_order(self) -> bool:
        """Whether the keys have the default positions: key s has position s in every row."""
        return self.given[1] is None

    @property
    def queries(self) -> Tensor:
        """(B or 1, L) integers, the position of each query in its sequence."""
        if self._queries is None:
            first = max(self.sizes[1] - self.sizes[0], 0)
            if self.sizes[0] <= self.sizes[1]:
                self._queries = self.keys[:, first:]
            else:
                self._queries = torch.arange(self.sizes[0], device=self._device).unsqueeze(0)
        return self._queries

    @property
    def keys(self) -> Tensor:
        """(B or 1, S) integers, the position of each key in its sequence."""
        if self._keys is None:
            self._keys = torch.arange(self.sizes[1], device=self._device).unsqueeze(0)
        return self._keys

    def select(self, rows: Tensor) -> Positions:
        """The positions of the batch rows `rows`, in that order."""
        of_queries, of_keys = (x if x is None or x.shape[0] == 1 else x[rows] for x in self.given)
        return Positions(*self.sizes, of_queries=of_queries, of_keys=of_keys, device=self._device)


@dataclass(init=False, frozen=True, slots=True, eq=False)
class AttentionInputs:
    """Queries, keys, and everything else that attention weights depend on. The values are not included.

    Arguments:
        query: (B, H, L, E), already projected.
        key: (B, G, S, E), already projected; G divides H, and query heads h H/G .. (h + 1) H/G - 1 share key head h.
        mask: which query may attend to which key, True = may attend; None = every query to every key.
        positions: the positions of queries and keys in their sequences; default positions may have other sizes.
        query_positions, key_positions: (B or 1, L) and (B or 1, S) integers; they replace those in `positions`.
        record: further tensors that the mechanism needs, by name: previous weights, hash rotations, a sample.

    Raises:
        ValueError: if the shapes of query and key, or of positions, do not fit; the message names both shapes.

    >>> inputs = AttentionInputs(query=torch.randn(2, 3, 5, 4), key=torch.randn(2, 3, 7, 4))
    >>> inputs.shape
    (2, 3, 5, 7)
    >>> inputs.key_positions.tolist(), inputs.query_positions.tolist()
    ([[0, 1, 2, 3, 4, 5, 6]], [[2, 3, 4, 5, 6]])
    """

    query: Tensor
    key: Tensor
    mask: Mask | None
    positions: Positions
    record: Mapping[str, Tensor]

    def __init__(
        self,
        *,
        query: Tensor,
        key: Tensor,
        mask: Mask | None = None,
        positions: Positions | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        record: Mapping[str, Tensor] = NOTHING,
    ) -> None:
        fits = (
            query.dim() == key.dim() == 4
            and query.shape[0] == key.shape[0]
            and key.shape[1] > 0
            and query.shape[1] % key.shape[1] == 0
            and query.shape[3] == key.shape[3]
        )
        if not fits:
            raise ValueError(
                "attention needs a query (B, H, L, E) and a key (B, G, S, E) with G dividing H, "
                f"not {tuple(query.shape)} and {tuple(key.shape)}"
            )
        if mask is not None and not isinstance(mask, Mask):
            raise ValueError(
                f"mask is a {type(mask).__name__}; wrap a bool tensor (B, H, L, S), True = may attend, "
                "in regard.attention.Dense"
            )
        sizes = (query.shape[2], key.shape[2])
        if positions is None or positions.sizes != sizes or query_positions is not None or key_positions is not None:
            of_queries, of_keys = (None, None) if positions is None else positions.given
            positions = Positions(
                *sizes,
                of_queries=of_queries if query_positions is None else query_positions,
                of_keys=of_keys if key_positions is None else key_positions,
                device=query.device,
            )
        for name, value in (
            ("query", query),
            ("key", key),
            ("mask", mask),
            ("positions", positions),
            ("record", record),
        ):
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, L, S), the shape of the weights."""
        return (self.query.shape[0], self.query.shape[1], self.query.shape[2], self.key.shape[2])

    @property
    def in_order(self) -> bool:
        """Whether all positions are the default: key s has position s, and the queries are the last L keys."""
        return self.positions.in_order

    @property
    def query_positions(self) -> Tensor:
        """(B or 1, L) integers, the position of each query in its sequence; by default those of the last L keys."""
        return self.positions.queries

    @property
    def key_positions(self) -> Tensor:
        """(B or 1, S) integers, the position of each key in its sequence; by default 0, 1, 2, ..."""
        return self.positions.keys

    @property
    def query_places(self) -> Tensor:
        """`query_positions` by its older name."""
        return self.positions.queries

    @property
    def key_places(self) -> Tensor:
        """`key_positions` by its older name."""
        return self.positions.keys

    @property
    def key_per_query_head(self) -> Tensor:
        """(B, H, S, E): the keys, repeated where several query heads share one key head."""
        return self.per_query_head(self.key)

    def per_query_head(self, x: Tensor) -> Tensor:
        """Keys or values (B, G, S, E) to (B, H, S, E), repeated where several query heads share one key head."""
        groups = self.query.shape[1] // x.shape[1]
        return x if groups == 1 else x.repeat_interleave(groups, dim=1)

    @property
    def exact(self) -> torch.dtype:
        """The dtype in which weights are computed: float64 for float64 queries, float32 for all others."""
        return torch.float64 if self.query.dtype == torch.float64 else torch.float32

    def part(self, name: str, reads: Reads) -> Tensor | None:
        """A tensor of the record, or None if the record has no tensor of this name.

        Arguments:
            name: of the tensor.
            reads: the declared axes of each tensor, see `Reads`.

        Raises:
            ValueError: if the tensor does not have the declared axes; the message names both shapes.
        """
        found = self.record.get(name)
        if found is None:
            return None
        sizes = dict(zip("BHLSE", (*self.shape, self.query.shape[3]), strict=True))
        axes = reads[name]
        wanted = tuple(sizes.get(axis, axis) for axis in axes)
        fits = len(found.shape) == len(axes) and all(
            have == sizes.get(axis, have) for have, axis in zip(found.shape, axes, strict=True)
        )
        if not fits:
            raise ValueError(
                f"the record's {name} has shape {tuple(found.shape)}; it must be ({', '.join(map(str, wanted))})"
            )
        return found

    def check_value(self, value: Tensor) -> None:
        """Refuse values that do not have the batch, heads and length of the keys.

        Arguments:
            value: (B, G, S, Ev); Ev is free.

        Raises:
            ValueError: naming both shapes.
        """
        if value.dim() != 4 or value.shape[:3] != self.key.shape[:3]:
            raise ValueError(
                f"attention needs a value (B, G, S, Ev) for the key (B, G, S, E) = {tuple(self.key.shape)}, "
                f"not {tuple(value.shape)}"
            )

    def visible(self) -> Tensor | None:
        """The mask as a bool tensor, broadcastable to (B, H, L, S), True = may attend; None without a mask."""
        if self.mask is None:
            return None
        batch, heads, queries, keys = self.shape
        dense = self.mask.dense(batch=batch, heads=heads, queries=queries, keys=keys, device=self.query.device)
        if not isinstance(self.mask, Dense) and dense.dtype != torch.bool:
            raise ValueError(f"the mask {type(self.mask).__name__} returned {dense.dtype}; it must return bool")
        return dense
