"""What every attention mechanism is a function of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import torch
from torch import Tensor

from regard.attention.masks import Dense, Mask


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AttentionInputs:
    """Queries, keys and all else that decides attention weights. The values weighed are not among them.

    Arguments:
        query: (B, H, L, E), already projected.
        key: (B, G, S, E), already projected; G divides H, query heads h*H/G .. share key head h.
        mask: which query may attend to which key, True = may attend; None = every query to every key.
        query_positions: (B, L) integers, place of each query in its sequence, counted from its first real token; None where the
            queries are the last L of the keys. Read them as `query_places`, which is never None.
        key_positions: (B, S) integers, likewise; None where key s stands at s. Read them as `key_places`.
        record: what the mechanism itself needs besides (previous weights, hash rotations, a drawn sample), by name.

    Raises:
        ValueError: naming both shapes, where query and key do not fit together.

    >>> inputs = AttentionInputs(query=torch.randn(2, 3, 5, 4), key=torch.randn(2, 3, 7, 4))
    >>> inputs.shape
    (2, 3, 5, 7)
    >>> inputs.key_places.tolist(), inputs.query_places.tolist()
    ([[0, 1, 2, 3, 4, 5, 6]], [[2, 3, 4, 5, 6]])
    """

    query: Tensor
    key: Tensor
    mask: Mask | None = None
    query_positions: Tensor | None = None
    key_positions: Tensor | None = None
    record: Mapping[str, Tensor] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        query, key = self.query, self.key
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
        if self.mask is not None and not isinstance(self.mask, Mask):
            raise ValueError(
                f"mask is a {type(self.mask).__name__}; wrap a bool tensor (B, H, L, S), True = may attend, "
                "in regard.attention.Dense"
            )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, L, S), the shape of the weights."""
        return (self.query.shape[0], self.query.shape[1], self.query.shape[2], self.key.shape[2])

    @property
    def in_order(self) -> bool:
        """Whether no positions were given, so that key s stands at s and the queries at the last L of the keys."""
        return self.query_positions is None and self.key_positions is None

    @property
    def query_places(self) -> Tensor:
        """(B or 1, L) integers, the place of each query in its sequence: given, or that of the last L keys.

        More queries than keys are not among them; where nothing is given they stand at 0, 1, 2 and so on.
        """
        if self.query_positions is not None:
            return self.query_positions
        queries, keys = self.query.shape[2], self.key.shape[2]
        if self.key_positions is not None and queries <= keys:
            return self.key_positions[:, keys - queries :]
        first = max(keys - queries, 0)
        return torch.arange(first, first + queries, device=self.query.device).unsqueeze(0)

    @property
    def key_places(self) -> Tensor:
        """(B or 1, S) integers, the place of each key in its sequence: given, or 0, 1, 2 and so on."""
        if self.key_positions is not None:
            return self.key_positions
        return torch.arange(self.key.shape[2], device=self.key.device).unsqueeze(0)

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
