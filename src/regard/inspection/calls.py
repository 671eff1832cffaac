"""One call of one attention mechanism, kept as what its weights are a function of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace

import torch
from torch import Tensor

from regard.attention import Attention, AttentionInputs, Dense, Mask
from regard.errors import InputError

_CHANGED = "changed since it was recorded, so its weights can no longer be computed; read them before the change"


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A tensor kept without copying it, and what tells that it was changed since: its version and its place in memory."""

    tensor: Tensor
    version: int
    place: int

    @classmethod
    def of(cls, tensor: Tensor) -> Kept:
        """Keep a tensor, detached; one made in inference mode, which has no version, is copied."""
        if tensor.is_inference():
            tensor = tensor.clone()
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


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A parameter and what it was.

    Versions are not enough here: PyTorch's fused optimisers change parameters without counting one up, and the parameters
    that a mechanism has for itself are small.
    """

    parameter: Tensor
    was: Tensor

    @classmethod
    def of(cls, parameter: Tensor) -> Snapshot:
        """The parameter as it is now."""
        return cls(parameter, parameter.detach().clone())

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
class Call:
    """What a mechanism was called with, or its weights where those are the smaller thing to keep.

    Arguments:
        address: the layer's name in the model.
        mechanism: what was called.
        inputs: its inputs, detached; None where `weights` is kept instead.
        query, key: the same tensors with their versions.
        others: the tensors of mask, positions and record, with their versions.
        parameters: the mechanism's own, and what they were.
        weights: (B, H, L, S) float32, computed at once.
        places: (B, S), the place of each key in its sequence, where the call said so.
    """

    address: str
    mechanism: Attention
    shape: tuple[int, int, int, int]
    places: Tensor | None = None
    inputs: AttentionInputs | None = None
    query: Kept | None = None
    key: Kept | None = None
    others: tuple[Kept, ...] = ()
    parameters: tuple[Snapshot, ...] = ()
    weights: Tensor | None = None

    @classmethod
    def keeping(
        cls, address: str, mechanism: Attention, inputs: AttentionInputs, key: Kept, parameters: tuple[Snapshot, ...]
    ) -> Call:
        """A call kept by its inputs; `key` and `parameters` may be those that an earlier call kept already."""
        query = Kept.of(inputs.query)
        record = {name: Kept.of(tensor) for name, tensor in inputs.record.items()}
        places = [tensor for tensor in (inputs.query_positions, inputs.key_positions) if tensor is not None]
        return cls(
            address=address,
            mechanism=mechanism,
            shape=inputs.shape,
            places=inputs.key_positions,
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
    def computed(cls, address: str, mechanism: Attention, inputs: AttentionInputs) -> Call:
        """A call kept by its weights."""
        with torch.no_grad():
            weights = mechanism.weights(inputs)
        return cls(
            address=address, mechanism=mechanism, shape=inputs.shape, places=inputs.key_positions, weights=weights
        )

    def read(self, rows: Tensor | None = None, heads: Tensor | None = None) -> Tensor:
        """The weights of these batch rows and heads, (rows, heads, L, S) float32; all where None.

        Raises:
            InputError: where a parameter, a query, a key or a mask was changed since.
        """
        if self.weights is not None:
            weights = self.weights if rows is None else self.weights[rows]
            return weights if heads is None else weights[:, heads]
        if self.inputs is None or self.query is None or self.key is None:
            raise RuntimeError("a recorded call holds neither weights nor inputs")
        self.query.read(f"{self.address}: the query")
        self.key.read(f"{self.address}: the key")
        for other in self.others:
            other.read(f"{self.address}: the mask, a position or the record")
        for parameter, now in zip(self.parameters, self.mechanism.parameters(), strict=True):
            parameter.check(now, f"{self.address}: a parameter of the attention")
        inputs = self.inputs if rows is None else _of_rows(self.inputs, rows)
        # Heads are told apart by mechanisms with a table per head, so all are computed, then chosen.
        with torch.no_grad():
            weights = self.mechanism.weights(inputs)
        return weights if heads is None else weights[:, heads]


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
        query_positions=None if inputs.query_positions is None else inputs.query_positions[rows],
        key_positions=None if inputs.key_positions is None else inputs.key_positions[rows],
        record={name: tensor[rows] for name, tensor in inputs.record.items()},
    )
