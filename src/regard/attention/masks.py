"""Masks: which query may attend to which key.

A mask is a small function of (batch, head, query, key), True = may attend, with the signature of PyTorch's flex attention
`mask_mod`. It becomes a bool tensor only where a kernel needs one (`Mask.dense`). Masks compose with `&`, `|` and `~`.

Query and key indices are slots of the key sequence in memory, padding included. With a cache the queries of one call start at a
later slot than zero, so masks that compare queries with keys take the `offset` of the first query.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx


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


IN_VECTORS = 32
"""Texts longer than this are laid out over a multiple of so many columns: PyTorch's softmax of 62 numbers in bfloat16 takes three
times as long as that of 64."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Where the tokens of a padded batch are in a row without padding, one text after another.

    Arguments:
        valid: (B, L) bool, True = a real token.
        kept: (T,) int64, for each token of the row its index in B x L.
        places: (B x L,) int64, for each position of the batch its index in the row; T at padding.
        ends: (B,) int32, where each text ends in the row.

    >>> rows = Rows.of(torch.tensor([[True, True, False], [True, False, False]]))
    >>> rows.laid_out(torch.tensor([[1.0], [2.0], [3.0]])).squeeze(-1).tolist()
    [[1.0, 2.0, 0.0], [3.0, 0.0, 0.0]]
    """

    valid: Tensor
    kept: Tensor
    places: Tensor
    ends: Tensor

    @classmethod
    def of(cls, valid: Tensor) -> Rows:
        """The row of the real tokens (B, L) of a batch."""
        flat = valid.flatten()
        kept, before = flat.nonzero().squeeze(1), flat.cumsum(0)
        ends = valid.sum(dim=1).cumsum(0).int()
        return cls(valid, kept, torch.where(flat, before - 1, len(kept)), ends)

    def flush_left(self) -> Rows:
        """The same row, of a batch whose texts all begin in the first column, and whose length suits PyTorch's softmax."""
        lengths = self.valid.sum(dim=1)
        longest = int(lengths.max()) if len(lengths) else 0
        longest += -longest % IN_VECTORS if longest > IN_VECTORS else 0
        return Rows.of(torch.arange(longest, device=lengths.device) < lengths.unsqueeze(1))

    def in_row(self, x: Tensor) -> Tensor:
        """(B, L, ...) to (T, ...): without padding."""
        return _Moved.apply(x.flatten(0, 1), self.kept, self.places)  # type: ignore[no-any-return]

    def laid_out(self, x: Tensor) -> Tensor:
        """(T, ...) to (B, L, ...), the inverse: with zeros at padding."""
        return _Moved.apply(x, self.places, self.kept).unflatten(0, self.valid.shape)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Unpadded(Mask):
    """The mask of a batch, for the same tokens in one row without padding: a token sees what it sees in its own text.

    Linear layers, norms and activations compute such a row as it is; attention, where it is the fused one, goes from text to
    text or lays them out as a batch again (`regard.attention.kernels`).

    Arguments:
        asked_by, asked_of: the rows of the two sequences, of the same number of texts, as they are in the batch.
        queries, keys: the same, flush left.
        causal: whether a token sees only those up to its own place; the two rows are then the same.
        mask: over (B, H, L, S): what a token sees among texts that are flush left.
        share: of the weights (B, L, S), those that are between real tokens.

    >>> rows = Rows.of(torch.tensor([[True, True, False], [True, False, False]]))
    >>> Unpadded.over(rows, rows, causal=True).dense(batch=1, queries=3, keys=3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    """

    asked_by: Rows
    asked_of: Rows
    queries: Rows
    keys: Rows
    causal: bool
    mask: Mask
    share: float

    @classmethod
    def over(cls, queries: Rows, keys: Rows, *, causal: bool = False) -> Unpadded:
        """The mask for tokens in rows; wherever the batch had its padding."""
        asked_by, asked_of = queries, keys
        queries, keys = queries.flush_left(), keys.flush_left()
        (batch, length), columns, padding = queries.valid.shape, keys.valid.shape[1], Padding(keys.valid)
        mask = Causal() & padding if causal else padding
        dense = mask.materialize(batch=batch, queries=length, keys=columns, device=keys.valid.device)
        real = int((queries.valid.sum(dim=1) * keys.valid.sum(dim=1)).sum())
        return cls(asked_by, asked_of, queries, keys, causal, dense, real / max(1, batch * length * columns))

    @property
    def in_batch(self) -> Mask:
        """The mask over the batch as it is, (B, H, L, S)."""
        padding = Padding(self.asked_of.valid)
        return Causal() & padding if self.causal else padding

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        asking, asked = self.queries.kept[query], self.keys.kept[key]
        length, columns = self.queries.valid.shape[1], self.keys.valid.shape[1]
        text = asking // length
        return (text == asked // columns) & self.mask(text, head, asking % length, asked % columns)


class _Moved(torch.autograd.Function):
    """Rows by index, where an index behind the last row is zeros; the gradient takes the way back, `back`."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, index: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(index, back)
        beyond = len(index) > len(back)  # only then is there an index behind the last row
        rows = torch.cat([x, x.new_zeros(1, *x.shape[1:])]) if beyond else x
        return rows.index_select(0, index)

    @staticmethod
    def backward(ctx: FunctionCtx, *upstreams: Tensor) -> tuple[Tensor, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        index, back = ctx.saved_tensors  # type: ignore[attr-defined]
        return _Moved.apply(upstreams[0], back, index), None, None  # type: ignore[return-value]


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
