"""One call of one attention mechanism, kept as what its weights are a function of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace

import torch
from torch import Tensor

from regard.attention import Attention, AttentionInputs, Dense, Mask
from regard.attention.layer import Side
from regard.errors import InputError
from regard.inspection.hooks.calls import Projected

_SAMPLE = 1009  # prime, so that a sample does not run down one column

_CHANGED = "changed since it was recorded, so its weights can no longer be computed; read them before the change"


def described(tensor: Tensor) -> str:
    """A tensor by its shape and dtype.

    >>> described(torch.zeros(2, 3))
    '(2, 3) float32'
    """
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Kept:
    """A tensor kept without copying it, and what tells that it was changed since: its version and its place in memory."""

    tensor: Tensor
    version: int
    place: int
    original: Tensor | None = (
        None  # of a copy: its memory must not be taken for another's while the copy is known by it
    )

    def __repr__(self) -> str:
        return f"Kept({described(self.tensor)})"

    @classmethod
    def of(cls, tensor: Tensor) -> Kept:
        """Keep a tensor, detached; one made in inference mode, which has no version, is copied.

        So is one that was written in place before, as a preallocated cache is, for it will be again.
        """
        if tensor.is_inference() or tensor._version:
            copy = tensor.detach().clone()
            return cls(copy, _version(copy), copy.data_ptr(), tensor.detach())
        return cls.in_place(tensor.detach())

    @classmethod
    def in_place(cls, tensor: Tensor) -> Kept:
        """Keep the very tensor."""
        return cls(tensor, _version(tensor), tensor.data_ptr())

    def read(self, what: str) -> Tensor:
        """The tensor, if it still is what it was.

        Raises:
            InputError: where it was changed in place since.
        """
        if (_version(self.tensor), self.tensor.data_ptr()) != (self.version, self.place):
            raise InputError(f"{what} {_CHANGED}")
        return self.tensor


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Snapshot:
    """A parameter and what it was.

    Versions are not enough here: PyTorch's fused optimisers change parameters without counting one up. The parameters that a
    mechanism has for itself are small; those of `torch.nn.MultiheadAttention`, whose projections are part of what is
    looked at, are not, and are copied once for as long as they stay what they are.
    """

    parameter: Tensor
    was: Tensor
    version: int

    def __repr__(self) -> str:
        return f"Snapshot({described(self.was)})"

    @classmethod
    def of(cls, parameter: Tensor) -> Snapshot:
        """The parameter as it is now."""
        return cls(parameter, parameter.detach().clone(), _version(parameter))

    def seems_current(self, parameter: Tensor) -> bool:
        """Whether this will do for the parameter as it is now, judged by its version and by a sample of its numbers.

        A copy of a large matrix at every pass would be slow. Where the judgement errs, `check` finds out.
        """
        if parameter is not self.parameter or _version(parameter) != self.version or parameter.numel() <= _SAMPLE:
            return False
        step = parameter.numel() // _SAMPLE
        return torch.equal(parameter.detach().reshape(-1)[::step], self.was.reshape(-1)[::step])

    def check(self, now: Tensor, what: str) -> None:
        """Make sure that the mechanism's parameter still is this one, unchanged.

        Raises:
            InputError: where it is not.
        """
        same = now is self.parameter and now.dtype == self.was.dtype and now.device == self.was.device
        if not same or not torch.equal(now.detach(), self.was):
            raise InputError(f"{what} {_CHANGED}")


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


@dataclass(frozen=True, slots=True, eq=False)
class Called:
    """Which call of what: all that is the same however a call is kept.

    Arguments:
        address: the layer's name in the model.
        mechanism: what was called.
        shape: (B, H, L, S).
        between: which sequences queries and keys come from.
        value: what was weighed, (B, G, S, Ev), where that is to be kept.
        note: what is to be said of the axes; None where rows are queries and columns keys.
    """

    address: str
    mechanism: Attention
    shape: tuple[int, int, int, int]
    between: tuple[Side, Side]
    value: Kept | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call:
    """What a mechanism was called with, or its weights where those are the smaller thing to keep.

    Arguments:
        called: which call.
        inputs: its inputs, detached; None where `weights` is kept instead.
        query, key: the same tensors with their versions.
        others: the tensors of mask, positions and record, with their versions.
        parameters: the mechanism's own, and what they were.
        weights: (B, H, L, S), computed at once, or laid out by the module itself.
        few: a few numbers of each key, or of each value, (B, S, E), where the keys are not kept.
        places: (B, S), the place of each key in its sequence, where the call said so.
    """

    called: Called
    places: Tensor | None = None
    inputs: AttentionInputs | None = None
    query: Kept | None = None
    key: Kept | None = None
    others: tuple[Kept, ...] = ()
    parameters: tuple[Snapshot, ...] = ()
    weights: Kept | None = None
    few: Tensor | None = None

    def __repr__(self) -> str:
        kept = [(name, each) for name in ("weights", "query", "key") if (each := getattr(self, name)) is not None]
        parts = ", ".join(f"{name} {described(each.tensor)}" for name, each in kept)
        return f"Call({self.address}, (B, H, L, S) = {self.shape}, {parts})"

    @classmethod
    def keeping(cls, called: Called, inputs: AttentionInputs, key: Kept, parameters: tuple[Snapshot, ...]) -> Call:
        """A call kept by its inputs; `key` and `parameters` may be those that an earlier call kept already."""
        query = key if inputs.query is inputs.key else Kept.of(inputs.query)
        record = {name: Kept.of(tensor) for name, tensor in inputs.record.items()}
        places = [tensor for tensor in inputs.positions.given if tensor is not None]
        return cls(
            called,
            places=inputs.positions.given[1],
            inputs=replace(
                inputs,
                query=query.tensor,
                key=key.tensor,
                record={name: kept.tensor for name, kept in record.items()},
            ),
            query=query,
            key=key,
            others=(*record.values(), *map(Kept.in_place, [*places, *_tensors_of(inputs.mask)])),
            parameters=parameters,
        )

    @classmethod
    def computed(cls, called: Called, inputs: AttentionInputs) -> Call:
        """A call kept by its weights."""
        with torch.no_grad():
            weights = called.mechanism.weights(inputs)
        return cls(called, places=inputs.positions.given[1], weights=Kept.of(weights), few=_few(inputs.key).clone())

    @classmethod
    def laid_out(cls, called: Called, weights: Tensor, value: Tensor | None) -> Call:
        """A call whose weights the module laid out itself."""
        return cls(called, weights=Kept.of(weights), few=None if value is None else _few(value).clone())

    @property
    def trace(self) -> Tensor | None:
        """A few numbers of each key, (B, S, E), by which a cache is known again; None where nothing was seen of it."""
        return self.few if self.key is None else _few(self.key.tensor)

    @property
    def address(self) -> str:
        """The layer's name in the model."""
        return self.called.address

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, L, S)."""
        return self.called.shape

    @property
    def between(self) -> tuple[Side, Side]:
        """Which sequences queries and keys come from."""
        return self.called.between

    def read(self, rows: Tensor | None = None, heads: Tensor | None = None) -> Tensor:
        """The weights of these batch rows and heads, (rows, heads, L, S) float32; all where None.

        Raises:
            InputError: where a parameter, a query, a key or a mask was changed since.
        """
        if self.weights is not None:
            weights = self.weights.read(f"{self.address}: the matrix of weights").float()
            weights = weights if rows is None else weights[rows]
            return weights if heads is None else weights[:, heads]
        inputs = self._checked()
        inputs = inputs if rows is None else _of_rows(inputs, rows)
        # Mechanisms with a table per head need to know which head is which, so all are computed, then chosen.
        with torch.no_grad():
            weights = self.called.mechanism.weights(inputs)
        return weights if heads is None else weights[:, heads]

    def queries_and_keys(self) -> tuple[Tensor, Tensor]:
        """Projected queries (B, H, L, E) and keys (B, G, S, E), as the model computed them.

        Raises:
            InputError: where they were changed since, or only weights were kept.
        """
        if self.weights is not None:
            raise InputError(
                f"{self.address}: of this call the weights were kept, not queries and keys: they were the smaller thing, or "
                "all that the module showed; look at a forward pass without a cache"
            )
        inputs = self._checked()
        with torch.no_grad():
            if isinstance(self.called.mechanism, Projected):
                return self.called.mechanism.projections(inputs)
            return inputs.query, inputs.key

    def value_norms(self) -> Tensor:
        """The Euclidean norm of every value, (B, G, S) float32.

        Raises:
            InputError: where values were not kept, or were changed since.
        """
        return self._value().float().norm(dim=-1)

    def head_outputs(self) -> Tensor:
        """What every head gathered, (B, H, L, Ev): the weights on the values.

        Raises:
            InputError: where values were not kept, or something was changed since.
        """
        value = self._value()
        weights = self.read().to(value.dtype)
        outputs = weights @ value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)
        if self.inputs is None or not self.called.mechanism.declaration.extra_output:
            return outputs
        added = self.called.mechanism.extra_output(self.inputs, weights)
        return outputs if added is None else outputs + added.to(outputs.dtype)

    def _value(self) -> Tensor:
        if self.called.value is None:
            raise InputError(f"{self.address}: values were not kept; look with values=True")
        return self.called.value.read(f"{self.address}: the value")

    def _checked(self) -> AttentionInputs:
        """The inputs, if nothing of what the weights are a function of was changed since."""
        if self.inputs is None or self.query is None or self.key is None:
            raise RuntimeError("a recorded call holds neither weights nor inputs")
        self.query.read(f"{self.address}: the query")
        self.key.read(f"{self.address}: the key")
        for other in self.others:
            other.read(f"{self.address}: the mask, a position or the record")
        for parameter, now in zip(self.parameters, self.called.mechanism.parameters(), strict=True):
            parameter.check(now, f"{self.address}: a parameter of the attention")
        return self.inputs


def _few(keys: Tensor) -> Tensor:
    return keys.detach()[:, 0, :, :4]


def _tensors_of(mask: Mask | None) -> Iterator[Tensor]:
    """The tensors inside a mask, which may be made of masks."""
    for part in fields(mask) if is_dataclass(mask) else ():
        value = getattr(mask, part.name)
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, Mask):
            yield from _tensors_of(value)


def _of_rows(inputs: AttentionInputs, rows: Tensor) -> AttentionInputs:
    """The same inputs for some rows of the batch."""
    rows = rows.to(inputs.query.device)
    visible = inputs.visible()
    mask = None
    if visible is not None:
        mask = Dense(visible if visible.shape[0] == 1 else visible[rows])
    return AttentionInputs(
        query=inputs.query[rows],
        key=inputs.key[rows],
        mask=mask,
        positions=inputs.positions.select(rows),
        # What is the same for all rows may be there once.
        record={
            name: tensor if len(tensor) == 1 < len(inputs.query) else tensor[rows]
            for name, tensor in inputs.record.items()
        },
    )
