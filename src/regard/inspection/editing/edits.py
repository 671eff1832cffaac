"""What can be changed inside a running model, and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import InputError

Change = Tensor | Callable[[Tensor], Tensor]
"""What to put in place of a tensor: another, or a function of it."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ScaleHeads:
    """Multiply the outputs of attention heads, before the output projection: by zero, which masks them, or by anything.

    Arguments:
        address: of attention layers, with `*` for any part of a name.
        heads: which heads; all where None.
        factor: a number.
    """

    address: str
    heads: Sequence[int] | None = None
    factor: float = 0.0

    def heads_changed(self, outputs: Tensor) -> Tensor:
        """Outputs (B, H, L, Ev) to outputs."""
        factors = torch.ones(outputs.shape[1], dtype=outputs.dtype, device=outputs.device)
        factors[_heads(self.heads, outputs.shape[1], self.address)] = self.factor
        return outputs * factors[:, None, None]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MeanHeads:
    """Put in place of the outputs of attention heads their mean over the batch and its positions.

    A head that says the same everywhere still shifts what comes after it; this takes from it only what it tells apart.

    Arguments:
        address: of attention layers, with `*` for any part of a name.
        heads: which heads; all where None.
    """

    address: str
    heads: Sequence[int] | None = None

    def heads_changed(self, outputs: Tensor) -> Tensor:
        """Outputs (B, H, L, Ev) to outputs."""
        chosen = _heads(self.heads, outputs.shape[1], self.address)
        changed = outputs.clone()
        changed[:, chosen] = outputs[:, chosen].mean(dim=(0, 2), keepdim=True)
        return changed


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SetHeads:
    """Put given outputs in place of those of attention heads, before the output projection.

    With `Record.head_outputs` of another input this is activation patching of single heads.

    Arguments:
        address: of attention layers, with `*` for any part of a name.
        to: (B, H, L, Ev) or what broadcasts to it, or a function from the outputs to such.
        heads: which heads; all where None.
        positions: which queries; all where None.
    """

    address: str
    to: Change
    heads: Sequence[int] | None = None
    positions: Sequence[int] | None = None

    def heads_changed(self, outputs: Tensor) -> Tensor:
        """Outputs (B, H, L, Ev) to outputs."""
        given = _given(self.to, outputs, self.address)
        chosen = torch.zeros(outputs.shape[1:3], dtype=torch.bool, device=outputs.device)
        heads = _heads(self.heads, outputs.shape[1], self.address)
        chosen[heads[:, None], _places(self.positions, outputs.shape[2], self.address)] = True
        return torch.where(chosen[..., None], given, outputs)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SetWeights:
    """Put given weights in place of those of attention heads; the values are then weighed by them, by the plain product.

    Arguments:
        address: of attention layers, with `*` for any part of a name.
        to: (B, H, L, S) or what broadcasts to it, or a function from the weights, in float32, to such.
        heads: which heads; all where None.
    """

    address: str
    to: Change
    heads: Sequence[int] | None = None

    def weights_changed(self, weights: Tensor) -> Tensor:
        """Weights (B, H, L, S) to weights."""
        given = _given(self.to, weights, self.address)
        chosen = torch.zeros(weights.shape[1], dtype=torch.bool, device=weights.device)
        chosen[_heads(self.heads, weights.shape[1], self.address)] = True
        return torch.where(chosen[:, None, None], given, weights)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SetOutput:
    """Put a given tensor in place of what a module gives out; of several, in place of the first.

    With `Record.hidden` of another input this is activation patching of a layer.

    Arguments:
        address: of modules, with `*` for what has no dot in it: `layers.*` is the layers, not their parts.
        to: (B, L, D) or what broadcasts to it, or a function from the output to such.
        positions: which places along axis 1; all where None.
    """

    address: str
    to: Change
    positions: Sequence[int] | None = None

    def output_changed(self, output: Tensor) -> Tensor:
        """Output (B, L, D) to output."""
        given = _given(self.to, output, self.address)
        if self.positions is None:
            return given.expand_as(output)
        chosen = torch.zeros(output.shape[1], dtype=torch.bool, device=output.device)
        chosen[_places(self.positions, output.shape[1], self.address)] = True
        return torch.where(chosen.view(-1, *(1,) * (output.dim() - 2)), given, output)


HeadEdit = ScaleHeads | MeanHeads | SetHeads
Edit = HeadEdit | SetWeights | SetOutput


def _given(to: Change, present: Tensor, address: str) -> Tensor:
    given = to.to(present) if isinstance(to, Tensor) else to(present)
    try:
        fits = torch.broadcast_shapes(given.shape, present.shape) == present.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise InputError(
            f"{address}: {tuple(given.shape)} given, which does not fit {tuple(present.shape)}; give a tensor that "
            "broadcasts to it, such as one recorded on an input of the same size"
        )
    return given


def _heads(heads: Sequence[int] | None, count: int, address: str) -> Tensor:
    return _indices(heads, count, f"{address}: heads")


def _places(positions: Sequence[int] | None, count: int, address: str) -> Tensor:
    return _indices(positions, count, f"{address}: positions")


def _indices(given: Sequence[int] | None, count: int, what: str) -> Tensor:
    indices = torch.arange(count) if given is None else torch.as_tensor(list(given), dtype=torch.long)
    if len(indices) and not -count <= int(indices.min()) <= int(indices.max()) < count:
        raise InputError(f"{what} {indices.tolist()} are outside 0 to {count - 1}")
    return indices % max(count, 1)
