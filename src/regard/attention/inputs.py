"""What every attention mechanism is a function of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from regard.attention.masks import Dense, Mask

NOTHING: Mapping[str, Tensor] = MappingProxyType({})
"""The record of a mechanism that needs nothing besides."""

Reads = Mapping[str, str]
"""What a mechanism, a score or an alignment reads in the record: the name of each tensor and its axes, such as `BHL` for one
number for each query and `BHLS` for one for each of its keys. Small letters are axes of a size of their own."""


class Positions:
    """Where the queries and keys of an attention stand in their sequences, counted from each row's first real token.

    Where nothing is given key s stands at s, and the queries are the last L of the keys. Whoever calls several layers makes one
    of these for all of them: what is not given is laid out once, when it is first read.

    Arguments:
        queries, keys: L and S.
        of_queries: (B or 1, L) integers; None for those of the last L keys. More queries than keys are not among them; where
            nothing is given they stand at 0, 1, 2 and so on.
        of_keys: (B or 1, S) integers; None for 0, 1, 2 and so on.
        device: of what is not given.

    Raises:
        ValueError: where what is given is not so long.

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
        """Those of a whole text of so many tokens that looks at itself.

        Arguments:
            places: (B or 1, L) integers, where each token stands; None for 0, 1, 2 and so on.
        """
        return cls(length, length, of_queries=places, of_keys=places, device=device)

    @property
    def in_order(self) -> bool:
        """Whether nothing was given: key s stands at s, and the queries are the last of the keys."""
        return self.given[0] is None and self.given[1] is None

    @property
    def keys_in_order(self) -> bool:
        """Whether it is known that key s stands at s in every row."""
        return self.given[1] is None

    @property
    def queries(self) -> Tensor:
        """(B or 1, L) integers, the place of each query in its sequence."""
        if self._queries is None:
            first = max(self.sizes[1] - self.sizes[0], 0)
            if self.sizes[0] <= self.sizes[1]:
                self._queries = self.keys[:, first:]
            else:
                self._queries = torch.arange(self.sizes[0], device=self._device).unsqueeze(0)
        return self._queries

    @property
    def keys(self) -> Tensor:
        """(B or 1, S) integers, the place of each key in its sequence."""
        if self._keys is None:
            self._keys = torch.arange(self.sizes[1], device=self._device).unsqueeze(0)
        return self._keys

    def select(self, rows: Tensor) -> Positions:
        """Those of the batch rows of the index tensor `rows`, in that order."""
        of_queries, of_keys = (x if x is None or len(x) == 1 else x[rows] for x in self.given)
        return Positions(*self.sizes, of_queries=of_queries, of_keys=of_keys, device=self._device)


@dataclass(init=False, frozen=True, slots=True, eq=False)
class AttentionInputs:
    """Queries, keys and all else that decides attention weights. The values weighed are not among them.

    Arguments:
        query: (B, H, L, E), already projected.
        key: (B, G, S, E), already projected; G divides H, query heads h*H/G .. share key head h.
        mask: which query may attend to which key, True = may attend; None = every query to every key.
        positions: where queries and keys stand in their sequences; of other sizes only where nothing was given.
        query_positions, key_positions: (B or 1, L) and (B or 1, S) integers, in place of those in `positions`.
        record: what the mechanism itself needs besides (previous weights, hash rotations, a drawn sample), by name.

    Raises:
        ValueError: naming both shapes, where query and key, or positions, do not fit together.

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
                "attention wants a query (B, H, L, E) and a key (B, G, S, E) with G dividing H, "
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
        """Whether no positions were given, so that key s stands at s and the queries at the last L of the keys."""
        return self.positions.in_order

    @property
    def query_positions(self) -> Tensor:
        """(B or 1, L) integers, the place of each query in its sequence: given, or that of the last L keys."""
        return self.positions.queries

    @property
    def key_positions(self) -> Tensor:
        """(B or 1, S) integers, the place of each key in its sequence: given, or 0, 1, 2 and so on."""
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
        """What weights are computed in: float64 for float64 queries, float32 for all others."""
        return torch.float64 if self.query.dtype == torch.float64 else torch.float32

    def part(self, name: str, reads: Reads) -> Tensor | None:
        """A tensor of the record, None where it has none of this name.

        Arguments:
            name: of the tensor.
            reads: what its reader declares.

        Raises:
            ValueError: where it does not have the axes declared, naming both shapes.
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
                f"the record's {name} has shape {tuple(found.shape)}; queries want ({', '.join(map(str, wanted))})"
            )
        return found

    def check_value(self, value: Tensor) -> None:
        """Refuse values that do not stand one for one beside the keys.

        Arguments:
            value: (B, G, S, Ev); Ev is free.

        Raises:
            ValueError: naming both shapes.
        """
        if value.dim() != 4 or value.shape[:3] != self.key.shape[:3]:
            raise ValueError(
                f"attention wants a value (B, G, S, Ev) beside the key (B, G, S, E) = {tuple(self.key.shape)}, "
                f"not {tuple(value.shape)}"
            )

    def visible(self) -> Tensor | None:
        """The mask as a bool tensor that broadcasts to (B, H, L, S), True = may attend; None where there is none."""
        if self.mask is None:
            return None
        batch, heads, queries, keys = self.shape
        dense = self.mask.dense(batch=batch, heads=heads, queries=queries, keys=keys, device=self.query.device)
        if not isinstance(self.mask, Dense) and dense.dtype != torch.bool:
            raise ValueError(f"mask {type(self.mask).__name__} gave {dense.dtype}, not bool")
        return dense
