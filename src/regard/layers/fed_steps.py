"""All steps of LSTM layers with attention and input feeding by a compiled kernel in training; see `gated_steps`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.kernels import kernels
from regard.kernels.interface import (
    FedGradientsStruct,
    FedPassedStruct,
    FeedingLayerStruct,
    FeedingStruct,
    LinearStruct,
)
from regard.layers.gated_steps import LEAST_ROWS, filled


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FedLayer:
    """One LSTM layer.

    Arguments:
        input: F, (4n, n), of the result of the step before, in the lowest layer; W, (4n, n), of the layer below in the others.
        bias: (4n,); None in the lowest layer, whose bias is part of the projected input.
        hidden: U, (4n, n).
        mask: m, (B, L, n), what the output of the layer below is multiplied by; None = ones, and in the lowest layer.
        first, first_cell: the states before the first step, (B, n) each.
    """

    input: Tensor
    bias: Tensor | None
    hidden: Tensor
    mask: Tensor | None
    first: Tensor
    first_cell: Tensor


def fed_steps(
    projected: Tensor,
    real: Tensor,
    first: Tensor,
    layers: Sequence[FedLayer],
    combination: Tensor,
    keys: Tensor,
    values: Tensor,
    visible: Tensor,
) -> Tensor:
    """What each step gives, h~_t: the highest layer's state and what it attends to, which is fed to the next step.

        i, f, g, o = parts of p + F h~' + U_1 h_1'                         the lowest layer; ': of the step before
        i, f, g, o = parts of W_l (m_l * h_{l-1}) + b_l + U_l h_l'         the others
        c_l = sigmoid(f) * c_l' + sigmoid(i) * tanh(g),   h_l = sigmoid(o) * tanh(c_l)
        a_s = softmax_s(h . k_s),   c = sum_s a_s v_s,   h~ = tanh(C [c ; h])

    This is Luong et al. 2015, section 3, with global attention. At padding nothing changes. Numbers are float32, and products are
    those of the dtype of autocast. See `regard.layers.gated_steps.fits` for where this can be called.

    Arguments:
        projected: p, (B, L, 4n), the embedded words' part of the lowest layer's gates.
        real: (B, L) bool, True = a real token.
        first: h~ before the first step, (B, n).
        layers: from the lowest to the highest.
        combination: C, (n, 2n).
        keys, values: of the source, (B, S, n) each.
        visible: (B, S) bool, True = may be attended to.

    Returns:
        h~, (B, L, n) float32.
    """
    width = first.shape[1]

    def parts(matrix: Tensor, count: int) -> Tensor:
        """With each part of the outputs filled up."""
        return filled(matrix.unflatten(0, (count, width)), -matrix.dim()).flatten(0, 1)

    given = [filled(projected.float().transpose(0, 1).unflatten(-1, (4, width)), -1), filled(first.float(), -1)]
    joined = filled(combination.unflatten(1, (2, width)), -1).flatten(1)
    given += [filled(joined, -2), filled(keys.float(), -1), filled(values.float(), -1)]
    masks = []
    for layer in layers:
        bias = layer.hidden.new_zeros(4 * width) if layer.bias is None else layer.bias
        given += [filled(parts(layer.input, 4), -1), parts(bias, 4), filled(parts(layer.hidden, 4), -1)]
        given += [filled(layer.first.float(), -1), filled(layer.first_cell.float(), -1)]
        masks.append(None if layer.mask is None else filled(layer.mask.float().transpose(0, 1), -1))
    low = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    with torch.autocast("cpu", enabled=False):
        fed: Tensor = _FedSteps.apply(low, real.t(), visible, masks, *given)  # type: ignore[assignment]
    return fed[..., :width].transpose(0, 1)


def by_equation(real: Tensor, visible: Tensor, masks: Sequence[Tensor | None], *given: Tensor) -> Tensor:
    """The same, written plainly, step by step; arguments as of `_FedSteps`."""
    projected, fed, combination, keys, values, *others = given
    layers = [others[at : at + 5] for at in range(0, len(others), 5)]
    states, found = [(first, first_cell) for *_, first, first_cell in layers], []
    for t, (step, is_real) in enumerate(zip(projected, real.unsqueeze(-1), strict=True)):
        below = fed
        for number, ((into, bias, again, *_), mask) in enumerate(zip(layers, masks, strict=True)):
            hidden, cell = states[number]
            inside = below if mask is None else below * mask[t]
            gates = inside @ into.t() + bias + hidden @ again.t() + (0 if number else step.flatten(1))
            i, f, g, o = gates.chunk(4, dim=-1)
            new = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            given_out = torch.sigmoid(o) * torch.tanh(new)
            states[number] = torch.where(is_real, given_out, hidden), torch.where(is_real, new, cell)
            below = states[number][0]
        scores = (keys @ below.unsqueeze(-1)).squeeze(-1)
        shares = torch.softmax(scores.masked_fill(~visible, -torch.inf), dim=-1).masked_fill(~visible, 0)
        context = (shares.unsqueeze(1) @ values).squeeze(1)
        fed = torch.where(is_real, torch.tanh(torch.cat((context, below), dim=-1) @ combination.t()), fed)
        found.append(fed)
    return torch.stack(found)


class _FedSteps(torch.autograd.Function):
    """From real (L, B), visible (B, S), a mask (L, B, n) or None for each layer, and p (L, B, 4, n), h~, C, keys and values.

    After these come, for each layer, its two matrices with the bias between, and its states before the first step. All are
    float32; `low` says whether products are in bfloat16. h~ (L, B, n) comes out.
    """

    @staticmethod
    def forward(
        ctx: Any, low: bool, real: Tensor, visible: Tensor, masks: Sequence[Tensor | None], *given: Tensor
    ) -> Tensor:
        call = _Call(low, real, visible, masks, given, back=False)
        steps, rows, _, width = given[0].shape
        shape = (len(masks), steps, rows)
        passed = [torch.empty(*shape, size) for size in (width, width, width, 4 * width)]
        passed += [torch.empty(steps, rows, size) for size in (given[3].shape[1], 2 * width, width)]
        call.run("regard_feeding", FedPassedStruct(*(x.data_ptr() for x in passed)))
        ctx.save_for_backward(real, visible, *given, *passed)
        ctx.low, ctx.masks = low, masks
        return passed[-1]

    @staticmethod
    def backward(ctx: Any, *upstreams: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        real, visible, *saved = ctx.saved_tensors
        given, passed = saved[:-7], saved[-7:]
        none, upstream = (None,) * 4, upstreams[0].contiguous()
        if torch.is_grad_enabled():  # a gradient of this gradient is wanted
            needing = [x for x in given if x.requires_grad]
            found = iter(
                torch.autograd.grad(by_equation(real, visible, ctx.masks, *given), needing, upstream, create_graph=True)
            )
            return (*none, *(next(found) if x.requires_grad else None for x in given))
        call = _Call(ctx.low, real, visible, ctx.masks, given, back=True)
        projected, first, _, keys, _ = given[:5]
        hidden, _, inputs, _, attended, joined, fed = passed
        (steps, rows, _, width), count = projected.shape, len(ctx.masks)
        of_gates = torch.empty(count, steps, rows, 4 * width)
        of_combined, of_contexts = torch.empty(steps, rows, width), torch.empty(steps, rows, width)
        of_scores = torch.empty(steps, rows, keys.shape[1])
        of_hidden, of_cells, of_first = (
            torch.empty(count, rows, width),
            torch.empty(count, rows, width),
            torch.empty(first.shape),
        )
        gradients = (upstream, of_gates, of_combined, of_contexts, of_scores, of_hidden, of_cells, of_first)
        call.run(
            "regard_feeding_gradient",
            FedPassedStruct(*(x.data_ptr() for x in passed)),
            FedGradientsStruct(*(x.data_ptr() for x in gradients)),
        )
        of_keys = of_scores.permute(1, 2, 0) @ hidden[-1].transpose(0, 1)
        of_values = attended.permute(1, 2, 0) @ of_contexts.transpose(0, 1)
        of_layers: list[Tensor] = []
        for number in range(count):
            upstream = call.rounded(of_gates[number])
            before = torch.cat((given[5 + 5 * number + 3][None], hidden[number, :-1]))
            below = inputs[number] if number else torch.cat((first[None], fed[:-1]))
            of_layers += [
                call.gradient(upstream, below),
                of_gates[number].sum(dim=(0, 1)),
                call.gradient(upstream, before),
            ]
            of_layers += [of_hidden[number], of_cells[number]]
        of_combination = call.gradient(call.rounded(of_combined), joined)
        of_projected = of_gates[0].unflatten(-1, (4, width))
        return (*none, of_projected, of_first, of_combination, of_keys, of_values, *of_layers)


class _Call:
    """A call of the kernel; it holds the tensors to which the structures point."""

    def __init__(
        self,
        low: bool,
        real: Tensor,
        visible: Tensor,
        masks: Sequence[Tensor | None],
        given: Sequence[Tensor],
        *,
        back: bool,
    ) -> None:
        self.low, self._held = low, list[Tensor]()
        projected, first, combination, keys, values, *others = given
        steps, rows, _, width = projected.shape
        none = torch.zeros(4 * width)

        def linear(weight: Tensor, bias: Tensor = none) -> LinearStruct:
            outputs, inputs = weight.shape
            return LinearStruct(outputs, inputs, 16 if low else 32, 0, place(self.rounded(weight)), None, place(bias))

        def transposed(weight: Tensor) -> LinearStruct:
            return linear(weight.t()) if back else LinearStruct()

        def place(x: Tensor) -> int:
            self._held.append(x.contiguous())
            return self._held[-1].data_ptr()

        layers = []
        for number, mask in enumerate(masks):
            into, bias, again, *states = others[5 * number : 5 * number + 5]
            layers.append(
                FeedingLayerStruct(
                    *(linear(into, bias), linear(again), transposed(into), transposed(again)),
                    None if mask is None else place(mask),
                    *map(place, states),
                )
            )
        self._layers = (FeedingLayerStruct * len(layers))(*layers)
        self._struct = FeedingStruct(
            ctypes.addressof(self._layers),
            *(linear(combination), transposed(combination)),
            *map(place, (projected, real.to(torch.uint8), first, keys, values, visible.to(torch.uint8))),
            *(rows, len(layers), steps, width, keys.shape[1]),
        )
        self._threads = max(1, min(torch.get_num_threads(), rows // LEAST_ROWS))

    def run(self, name: str, *structs: Any) -> None:
        library: Any = kernels().library
        scratch = torch.empty(library.regard_feeding_scratch(self._struct, self._threads), dtype=torch.uint8)
        getattr(library, name)(self._struct, *structs, self._threads, scratch.data_ptr())

    def rounded(self, x: Tensor) -> Tensor:
        """In the dtype of products."""
        return x.bfloat16() if self.low else x

    def gradient(self, upstream: Tensor, x: Tensor) -> Tensor:
        """The gradient (outputs, inputs) of a matrix, of (L, B, outputs), rounded, and (L, B, inputs)."""
        return (upstream.flatten(0, 1).t() @ self.rounded(x).flatten(0, 1)).float()
