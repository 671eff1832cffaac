"""The inputs of every attention mechanism: masks, positions, and `AttentionInputs`, which holds all of them.

A mask is a small function of (batch, head, query, key), True = may attend, with the signature of PyTorch's flex attention
`mask_mod`. It becomes a bool tensor only where a kernel needs one (`Mask.dense`). Masks compose with `&`, `|` and `~`.

Query and key indices are slots of the key sequence in memory, padding included. With a cache the queries of one call start at a
later slot than zero, so masks that compare queries with keys take the `offset` of the first query.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor


class Mask(ABC):
    """Which query may attend to which key: a function from index tensors to bool, True = may attend.

    >>> mask = Causal() & Padding(torch.tensor([[True, True, False]]))
    >>> mask.dense(batch=1, queries=3, keys=3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    """

    @abstractmethod
    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """True where `query` may attend to `key`; the arguments are integer index tensors that broadcast together."""

    def __and__(self, other: Mask) -> Mask:
        return _Combined(self, other, torch.logical_and)

    def __or__(self, other: Mask) -> Mask:
        return _Combined(self, other, torch.logical_or)

    def __invert__(self) -> Mask:
        return _Inverted(self)

    def dense(
        self,
        *,
        batch: int,
        queries: int,
        keys: int,
        heads: int = 1,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """The mask as a bool tensor, broadcastable to (B, H, L, S). An axis that the mask does not depend on has size 1."""
        index = [torch.arange(size, device=device) for size in (batch, heads, queries, keys)]
        return self(
            index[0].view(-1, 1, 1, 1),
            index[1].view(1, -1, 1, 1),
            index[2].view(1, 1, -1, 1),
            index[3].view(1, 1, 1, -1),
        )

    def materialize(
        self, *, batch: int, queries: int, keys: int, heads: int = 1, device: torch.device | str | None = None
    ) -> Dense:
        """The same mask computed once as a tensor, to share between several layers."""
        return Dense(self.dense(batch=batch, queries=queries, keys=keys, heads=heads, device=device))

    def evaluated(self, **sizes: Any) -> Dense:
        """The old name of `materialize`, for one release."""
        warnings.warn("Mask.evaluated is called materialize; use that name", DeprecationWarning, stacklevel=2)
        return self.materialize(**sizes)


@dataclass(frozen=True, eq=False)
class _Combined(Mask):
    left: Mask
    right: Mask
    operator: Callable[[Tensor, Tensor], Tensor]

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.operator(self.left(batch, head, query, key), self.right(batch, head, query, key))

    def dense(
        self, *, batch: int, queries: int, keys: int, heads: int = 1, device: torch.device | str | None = None
    ) -> Tensor:
        """The parts' tensors combined, so that each part checks its own shape."""
        left, right = (
            part.dense(batch=batch, queries=queries, keys=keys, heads=heads, device=device)
            for part in (self.left, self.right)
        )
        return self.operator(left, right)


@dataclass(frozen=True, eq=False)
class _Inverted(Mask):
    mask: Mask

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return ~self.mask(batch, head, query, key)

    def dense(
        self, *, batch: int, queries: int, keys: int, heads: int = 1, device: torch.device | str | None = None
    ) -> Tensor:
        """The part's tensor inverted, its shape checked."""
        return ~self.mask.dense(batch=batch, queries=queries, keys=keys, heads=heads, device=device)


@dataclass(frozen=True, eq=False)
class Causal(Mask):
    """A query sees its own slot and the ones before it: key <= query + offset.

    Arguments:
        offset: slot of the first query among the keys (the number of tokens already in the cache).

    >>> Causal(offset=2).dense(batch=1, queries=2, keys=4)[0, 0].int().tolist()
    [[1, 1, 1, 0], [1, 1, 1, 1]]
    """

    offset: int = 0

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return key <= query + self.offset


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Keys that are real tokens may be attended to, padding may not.

    Arguments:
        valid: (B, S) bool, True = a real token. Padding may be on either side.
    """

    valid: Tensor

    def __post_init__(self) -> None:
        if self.valid.dtype != torch.bool or self.valid.dim() != 2:
            raise ValueError(
                "Padding takes a (B, S) bool tensor, True = real token, "
                f"not {self.valid.dtype} of shape {tuple(self.valid.shape)}"
            )

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.valid[batch, key]

    def dense(
        self, *, batch: int, queries: int, keys: int, heads: int = 1, device: torch.device | str | None = None
    ) -> Tensor:
        """(B, 1, 1, S) bool, after a check of its shape."""
        _refuse_other_shape("Padding", self.valid, (batch, keys))
        return self.valid[:, None, None, :]


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """A query sees keys at most `before` slots before it and `after` slots after it.

    Arguments:
        before, after: distances in tokens, 0 or more; the query's own slot is always inside.
        offset: slot of the first query among the keys.

    >>> Window(before=1, after=0).dense(batch=1, queries=3, keys=3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """

    before: int
    after: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.before < 0 or self.after < 0:
            raise ValueError(f"Window takes distances of 0 or more, not before={self.before}, after={self.after}")

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        distance = key - (query + self.offset)
        return (distance >= -self.before) & (distance <= self.after)


@dataclass(frozen=True, eq=False)
class Near(Mask):
    """A query sees keys whose positions are at most `distance` from its own; the side of padding does not matter.

    Arguments:
        places: (B or 1, S) integers, the position of each token in its text; queries and keys are the same tokens.
        distance: in tokens, in both directions.

    >>> Near(torch.tensor([[0, 1, 1, 2]]), 1).dense(batch=1, queries=4, keys=4)[0, 0].int().tolist()
    [[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]]
    """

    places: Tensor
    distance: int

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        rows = batch if self.places.shape[0] > 1 else torch.zeros_like(batch)
        return (self.places[rows, query] - self.places[rows, key]).abs() <= self.distance


@dataclass(frozen=True, eq=False)
class Document(Mask):
    """Tokens of one packed row see only tokens of the same document.

    Arguments:
        keys: (B, S) integers, the document each key belongs to.
        queries: (B, L) integers, the document of each query; None = that of the keys (self-attention without a cache).
    """

    keys: Tensor
    queries: Tensor | None = None

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        queries = self.keys if self.queries is None else self.queries
        return queries[batch, query] == self.keys[batch, key]

    def dense(
        self, *, batch: int, queries: int, keys: int, heads: int = 1, device: torch.device | str | None = None
    ) -> Tensor:
        """(B, 1, L, S) bool, after a check of the shapes."""
        of_queries = self.keys if self.queries is None else self.queries
        _refuse_other_shape("Document keys", self.keys, (batch, keys))
        _refuse_other_shape("Document queries", of_queries, (batch, queries))
        return of_queries[:, None, :, None] == self.keys[:, None, None, :]


@dataclass(frozen=True, eq=False)
class Packed(Mask):
    """Several texts packed in one row, with a causal mask inside each text.

    The fused kernel runs once for each text, so its results do not depend on the other texts (`regard.attention.kernels`).

    Arguments:
        lengths: tokens of each text.
        sliding_window: the number of tokens that each token sees, itself included; None = all earlier tokens.

    >>> Packed((2, 1)).dense(batch=1, queries=3, keys=3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    """

    lengths: tuple[int, ...]
    sliding_window: int | None = None

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        text = torch.arange(len(self.lengths), device=query.device).repeat_interleave(
            torch.tensor(self.lengths, device=query.device)
        )
        seen = (text[query] == text[key]) & (key <= query)
        return seen if self.sliding_window is None else seen & (query - key < self.sliding_window)

    def of_one(self, length: int) -> Mask:
        """The mask inside one text of this many tokens."""
        if self.sliding_window is None or length <= self.sliding_window:
            return Causal()
        return Causal() & Window(before=self.sliding_window - 1, after=0)


@dataclass(frozen=True, eq=False)
class Dense(Mask):
    """A mask given as a tensor.

    Arguments:
        tensor: (B or 1, H or 1, L or 1, S or 1) bool, True = may attend.

    Raises:
        ValueError: for another dtype or number of axes.
    """

    tensor: Tensor

    def __post_init__(self) -> None:
        if self.tensor.dtype != torch.bool or self.tensor.dim() != 4:
            raise ValueError(
                "Dense takes a bool tensor with axes (B, H, L, S), True = may attend, "
                f"not {self.tensor.dtype} of shape {tuple(self.tensor.shape)}"
            )

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        axes = (batch, head, query, key)
        index = [i if size > 1 else torch.zeros_like(i) for i, size in zip(axes, self.tensor.shape, strict=True)]
        return self.tensor[index[0], index[1], index[2], index[3]]

    def dense(
        self, *, batch: int, queries: int, keys: int, heads: int = 1, device: torch.device | str | None = None
    ) -> Tensor:
        """The tensor itself, after a check of its axes."""
        wanted = (batch, heads, queries, keys)
        if any(have not in (1, want) for have, want in zip(self.tensor.shape, wanted, strict=True)):
            raise ValueError(
                f"the mask has shape {tuple(self.tensor.shape)}, which does not broadcast to "
                f"(batch, heads, queries, keys) = {wanted}"
            )
        return self.tensor


def _refuse_other_shape(what: str, tensor: Tensor, wanted: tuple[int, int]) -> None:
    # A longer tensor could be indexed without complaint and would mask the wrong slots.
    if tuple(tensor.shape) != wanted:
        raise ValueError(f"{what} has shape {tuple(tensor.shape)}; for these queries and keys it must be {wanted}")


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
