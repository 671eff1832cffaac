"""All steps of LSTM layers by a kernel in training: of a layer alone, and of layers with attention and input feeding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.kernels.interface import LSTMGradientsStruct, LSTMLayerStruct, LSTMPassedStruct, LSTMStruct
from regard.layers.step_kernels import Call, filled, in_bfloat16, places_of


def lstm_steps(
    projected: Tensor, real: Tensor, first: Tensor, first_cell: Tensor, hidden: Tensor
) -> tuple[Tensor, Tensor]:
    """The state of an LSTM layer after each step, h, and its cells after the last, c.

        i, f, g, o = parts of p + U h'                                    ': of the step before
        c = sigmoid(f) * c' + sigmoid(i) * tanh(g),   h = sigmoid(o) * tanh(c)

    At padding nothing changes. Numbers are float32, and products are those of the dtype of autocast. See
    `regard.layers.step_kernels.fits` for where this can be called.

    Arguments:
        projected: p, (B, L, 4n), the input's part of the gates, with their bias.
        real: (B, L) bool, True = a real token.
        first, first_cell: h and c before the first step, (B, n) each.
        hidden: U, (4n, n).

    Returns:
        h (B, L, n) and c (B, n), in float32.
    """
    width, low = first.shape[1], in_bfloat16()
    given = (filled(_gates(hidden), -1), filled(first.float(), -1), filled(first_cell.float(), -1))
    with torch.autocast("cpu", enabled=False):
        none = (None,) * 4
        states, cells = _LSTMSteps.apply(low, real.t(), None, [None], _by_steps(projected), *none, None, None, *given)  # type: ignore[misc]
    return states[..., :width].transpose(0, 1), cells[:, :width]


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
    those of the dtype of autocast. See `regard.layers.step_kernels.fits` for where this can be called.

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
    width, low = first.shape[1], in_bfloat16()
    joined = filled(filled(combination.unflatten(1, (2, width)), -1).flatten(1), -2)
    given: list[Tensor | None] = [
        filled(first.float(), -1),
        joined,
        filled(keys.float(), -1),
        filled(values.float(), -1),
    ]
    masks = []
    for layer in layers:
        given += [filled(_gates(layer.input), -1), None if layer.bias is None else _gates(layer.bias)]
        given += [
            filled(_gates(layer.hidden), -1),
            filled(layer.first.float(), -1),
            filled(layer.first_cell.float(), -1),
        ]
        masks.append(None if layer.mask is None else filled(layer.mask.float().transpose(0, 1), -1))
    with torch.autocast("cpu", enabled=False):
        fed, _ = _LSTMSteps.apply(low, real.t(), visible, masks, _by_steps(projected), *given)  # type: ignore[misc]
    return fed[..., :width].transpose(0, 1)


def by_equation(
    real: Tensor, visible: Tensor | None, masks: Sequence[Tensor | None], *given: Any
) -> tuple[Tensor, Tensor]:
    """The same, written plainly, step by step; arguments and results as of `_LSTMSteps`."""
    projected, fed, combination, keys, values, *others = given
    layers = [others[at : at + 5] for at in range(0, len(others), 5)]
    states, found = [(first, first_cell) for *_, first, first_cell in layers], []
    for t, (step, is_real) in enumerate(zip(projected, real.unsqueeze(-1), strict=True)):
        below = fed
        for number, ((into, bias, again, *_), mask) in enumerate(zip(layers, masks, strict=True)):
            hidden, cell = states[number]
            gates = hidden @ again.t() + (0 if number else step.flatten(1)) + (0 if bias is None else bias)
            if into is not None:
                gates = gates + (below if mask is None else below * mask[t]) @ into.t()
            i, f, g, o = gates.chunk(4, dim=-1)
            new = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            given_out = torch.sigmoid(o) * torch.tanh(new)
            states[number] = torch.where(is_real, given_out, hidden), torch.where(is_real, new, cell)
            below = states[number][0]
        if visible is not None:
            scores = (keys @ below.unsqueeze(-1)).squeeze(-1)
            shares = torch.softmax(scores.masked_fill(~visible, -torch.inf), dim=-1).masked_fill(~visible, 0)
            context = (shares.unsqueeze(1) @ values).squeeze(1)
            below = torch.where(is_real, torch.tanh(torch.cat((context, below), dim=-1) @ combination.t()), fed)
            fed = below
        found.append(below)
    return torch.stack(found), states[-1][1]


class _LSTMSteps(torch.autograd.Function):
    """From real (L, B), visible (B, S), a mask (L, B, n) or None for each layer, and p (L, B, 4, n), h~, C, keys and values.

    After these come, for each layer, its two matrices with the bias between, and its states before the first step. All are
    float32; `low` says whether products are in bfloat16. Without attention `visible`, h~, C, keys and values are None, and so is
    the lowest layer's first matrix. Every h~ (L, B, n), or without attention the highest layer's h, comes out, and the highest
    layer's c (B, n) after the last step.
    """

    @staticmethod
    def forward(
        ctx: Any,
        low: bool,
        real: Tensor,
        visible: Tensor | None,
        masks: Sequence[Tensor | None],
        *given: Any,
    ) -> tuple[Tensor, Tensor]:
        call, struct = _called(low, real, visible, masks, given)
        count, steps, rows, width, asked = struct.count, struct.steps, struct.rows, struct.width, struct.asked
        passed = [
            torch.empty(count, steps, rows, size) for size in (width, width, width if count > 1 else 0, 4 * width)
        ]
        passed += [torch.empty(steps, rows, size) for size in (asked, *((2 * width, width) if asked else (0, 0)))]
        call.run("regard_lstm", struct, places_of(LSTMPassedStruct, *passed))
        ctx.save_for_backward(real, visible, *given, *passed)
        ctx.low, ctx.masks = low, masks
        return passed[-1] if asked else passed[0][-1], passed[1][-1, -1]

    @staticmethod
    def backward(ctx: Any, *upstreams: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        real, visible, *saved = ctx.saved_tensors
        given, passed, none = saved[:-7], saved[-7:], (None,) * 4
        if torch.is_grad_enabled():  # a gradient of this gradient is wanted
            needing = [x for x in given if x is not None and x.requires_grad]
            outputs = by_equation(real, visible, ctx.masks, *given)
            found = iter(torch.autograd.grad(outputs, needing, upstreams, create_graph=True, materialize_grads=True))
            return (*none, *(None if x is None or not x.requires_grad else next(found) for x in given))
        call, struct = _called(ctx.low, real, visible, ctx.masks, given, back=True)
        count, steps, rows, width, asked = struct.count, struct.steps, struct.rows, struct.width, struct.asked
        hidden, _, inputs, _, attended, joined, fed = passed
        of_gates, of_scores = torch.empty(count, steps, rows, 4 * width), torch.empty(steps, rows, asked)
        of_combined, of_contexts = (torch.empty(steps, rows, width if asked else 0) for _ in range(2))
        of_hidden, of_cells = torch.empty(count, rows, width), torch.zeros(count, rows, width)
        of_cells[-1], of_first = upstreams[1], torch.empty(rows, width if asked else 0)
        gradients = (
            upstreams[0].contiguous(),
            of_gates,
            of_combined,
            of_contexts,
            of_scores,
            of_hidden,
            of_cells,
            of_first,
        )
        call.run(
            "regard_lstm_gradient",
            *(struct, places_of(LSTMPassedStruct, *passed), places_of(LSTMGradientsStruct, *gradients)),
        )
        of_layers: list[Tensor | None] = []
        for number in range(count):
            into, bias, _, first, _ = given[5 + 5 * number : 10 + 5 * number]
            upstream = call.rounded(of_gates[number])
            before = torch.cat((first[None], hidden[number, :-1]))
            below = inputs[number] if number else None if into is None else torch.cat((given[1][None], fed[:-1]))
            of_layers += [
                None if below is None else call.gradient(upstream, below),
                None if bias is None else of_gates[number].sum(dim=(0, 1)),
                call.gradient(upstream, before),
            ]
            of_layers += [of_hidden[number], of_cells[number]]
        of_projected = of_gates[0].unflatten(-1, (4, width))
        if visible is None:
            return (*none, of_projected, *none, *of_layers)
        of_keys = of_scores.permute(1, 2, 0) @ hidden[-1].transpose(0, 1)
        of_values = attended.permute(1, 2, 0) @ of_contexts.transpose(0, 1)
        return (*none, of_projected, of_first, call.gradient(of_combined, joined), of_keys, of_values, *of_layers)


def _called(
    low: bool,
    real: Tensor,
    visible: Tensor | None,
    masks: Sequence[Tensor | None],
    given: Sequence[Any],
    *,
    back: bool = False,
) -> tuple[Call, LSTMStruct]:
    """The call and the struct of its inputs; for gradients the matrices in it are transposed."""
    projected, first, combination, keys, values, *others = given
    steps, rows, _, width = projected.shape
    call, layers = Call(low, rows), []
    for number, mask in enumerate(masks):
        into, bias, again, *states = others[5 * number : 5 * number + 5]
        pairs = zip(call.both(into, bias, back=back), call.both(again, back=back), strict=True)
        matrices = [x for pair in pairs for x in pair]
        layers.append(LSTMLayerStruct(*matrices, *map(call.place, (mask, *states))))
    seen = None if visible is None else visible.to(torch.uint8)
    struct = LSTMStruct(
        call.structs(layers),
        *call.both(combination, back=back),
        *map(call.place, (projected, real.to(torch.uint8), first, keys, values, seen)),
        *(rows, len(layers), steps, width, 0 if keys is None else keys.shape[1]),
    )
    return call, struct


def _by_steps(projected: Tensor) -> Tensor:
    """(B, L, 4n) to (L, B, 4, n) float32, filled up."""
    return filled(projected.transpose(0, 1).float().unflatten(-1, (4, -1)), -1)


def _gates(matrix: Tensor) -> Tensor:
    """(4n, ...) with the outputs of each gate filled up."""
    return filled(matrix.unflatten(0, (4, -1)), -matrix.dim()).flatten(0, 1)
