"""All steps of a gated recurrent network by a kernel in training, with additive attention before each step or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.kernels.interface import PassedGradientsStruct, PassedStruct, RecurrentStruct
from regard.layers.step_kernels import Call, filled, in_bfloat16, places_of


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Attended:
    """What additive attention looks at before each step.

    Arguments:
        query: Q, (E, n).
        weight: v, (E,).
        context: C, (3n, c), of the gates r and z and of the candidate.
        keys: (B, S, E).
        values: (B, S, c).
        visible: (B, S) bool, True = may be attended to.
    """

    query: Tensor
    weight: Tensor
    context: Tensor
    keys: Tensor
    values: Tensor
    visible: Tensor


def gated_steps(
    projected: Tensor, real: Tensor, first: Tensor, gates: Tensor, candidate: Tensor, attended: Attended | None = None
) -> tuple[Tensor, Tensor | None]:
    """The states after each step, and what was attended to before it.

        a_j  = softmax_j(v . tanh(Q s + k_j)),   c = sum_j a_j h_j
        r, z = sigmoid(p_rz + C_rz c + U_rz s)
        n    = tanh(p_n + C_n c + U_n (r * s))
        s'   = (1 - z) * s + z * n                     at padding s' = s

    This is Bahdanau et al. 2015, appendix A, where a step follows the attention; without `attended` there is no c. Numbers are
    float32, and products are those of the dtype of autocast. See `regard.layers.step_kernels.fits` for where this can be called.

    Arguments:
        projected: p, (B, L, 3n), the input's part of r, z and the candidate.
        real: (B, L) bool, True = a real token.
        first: the state before the first step, (B, n).
        gates: U_rz, (2n, n).
        candidate: U_n, (n, n).
        attended: what is attended to; None = nothing.

    Returns:
        The states (B, L, n) and contexts c (B, L, c), or None, in float32.
    """
    width, given = first.shape[1], ()
    three = filled(projected.float().transpose(0, 1).unflatten(-1, (3, width)), -1)
    matrices = [
        filled(filled(gates.unflatten(0, (2, width)), -1), -2).flatten(0, 1),
        filled(filled(candidate, -1), -2),
    ]
    if attended is not None:
        context = filled(filled(attended.context.unflatten(0, (3, width)), -1), -2).flatten(0, 1)
        matrices += [context, filled(filled(attended.query, -1), -2)]
        given = (
            filled(attended.weight.float(), -1),
            filled(attended.keys.float(), -1),
            filled(attended.values.float(), -1),
        )
    visible = None if attended is None else attended.visible
    low = in_bfloat16()
    with torch.autocast("cpu", enabled=False):
        states, contexts = _GatedSteps.apply(
            low, real.t(), visible, three, filled(first.float(), -1), *matrices, *given
        )  # type: ignore[misc]
    states = states[..., :width].transpose(0, 1)
    return states, None if attended is None else contexts[..., : attended.values.shape[-1]].transpose(0, 1)


def by_equation(
    real: Tensor, visible: Tensor | None, projected: Tensor, first: Tensor, *given: Tensor
) -> tuple[Tensor, Tensor]:
    """The same, written plainly, step by step; arguments as of `_GatedSteps`."""
    gates, candidate, *others = given
    state, states, contexts = first, [], []
    for step, mask in zip(projected, real.unsqueeze(-1), strict=True):
        inside = step.flatten(1)
        context = first.new_zeros(len(first), 0)
        if visible is not None:
            c, q, v, keys, values = others
            scores = torch.tanh((state @ q.t()).unsqueeze(1) + keys) @ v
            shares = torch.softmax(scores.masked_fill(~visible, -torch.inf), dim=-1)
            context = (shares.masked_fill(~visible, 0).unsqueeze(1) @ values).squeeze(1)
            inside = inside + context @ c.t()
        of_gates, of_new = inside.split((2 * first.shape[1], first.shape[1]), dim=-1)
        reset, update = torch.sigmoid(of_gates + state @ gates.t()).chunk(2, dim=-1)
        new = torch.tanh(of_new + (reset * state) @ candidate.t())
        state = torch.where(mask, (1 - update) * state + update * new, state)
        states.append(state)
        contexts.append(context)
    return torch.stack(states), torch.stack(contexts)


class _GatedSteps(torch.autograd.Function):
    """From real (L, B), visible (B, S) or None, and in float32 p (L, B, 3, n), the first state, U_rz, U_n, C, Q, v, keys, values.

    `low` says whether products are in bfloat16. The states (L, B, n) and contexts (L, B, c) come out.
    """

    @staticmethod
    def forward(ctx: Any, low: bool, real: Tensor, visible: Tensor | None, *given: Tensor) -> tuple[Tensor, Tensor]:
        call, struct = _called(low, real, visible, given)
        steps, rows, _, width = given[0].shape
        wide, asking, asked = _sizes(given)
        passed = [torch.empty(steps, rows, size) for size in (width, 3 * width, asking, asked, wide)]
        call.run("regard_recurrent", struct, places_of(PassedStruct, *passed))
        ctx.save_for_backward(real, visible, *given, *passed)
        ctx.low = low
        return passed[0], passed[4]

    @staticmethod
    def backward(ctx: Any, *upstreams: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        real, visible, *saved = ctx.saved_tensors
        given, passed, none = saved[:-5], saved[-5:], (None,) * 3
        if torch.is_grad_enabled():  # a gradient of this gradient is wanted
            needing = [x for x in given if x.requires_grad]
            outputs = by_equation(real, visible, *given)
            pairs = [(y, upstream) for y, upstream in zip(outputs, upstreams, strict=True) if y.requires_grad]
            found = iter(
                torch.autograd.grad(
                    [y for y, _ in pairs], needing, [upstream for _, upstream in pairs], create_graph=True
                )
            )
            return (*none, *(next(found) if x.requires_grad else None for x in given))
        projected, first = given[:2]
        states, gates, _, attended, contexts = passed
        call, struct = _called(ctx.low, real, visible, given, back=True)
        (steps, rows, _, width), (_, asking, asked) = projected.shape, _sizes(given)
        of_contexts, of_projected = upstreams[1].contiguous().clone(), torch.empty(projected.shape)
        of_queries, of_keys = torch.empty(steps, rows, asking), torch.empty(rows, asked, asking)
        of_weights, of_first = torch.empty(rows, asking), torch.empty(first.shape)
        gradients = (upstreams[0].contiguous(), of_contexts, of_projected, of_queries, of_keys, of_weights, of_first)
        call.run(
            "regard_recurrent_gradient",
            *(struct, places_of(PassedStruct, *passed), places_of(PassedGradientsStruct, *gradients)),
        )
        before, inside = torch.cat((first[None], states[:-1])), call.rounded(of_projected.flatten(2))
        kept, before = gates[..., :width] * before, call.rounded(before)
        of_matrices = [
            call.gradient(inside[..., : 2 * width], before),
            call.gradient(inside[..., 2 * width :], kept),
        ]
        if visible is None:
            return (*none, of_projected, of_first, *of_matrices)
        of_matrices += [call.gradient(inside, contexts), call.gradient(of_queries, before)]
        of_values = attended.permute(1, 2, 0) @ of_contexts.transpose(0, 1)
        return (*none, of_projected, of_first, *of_matrices, of_weights.sum(dim=0), of_keys, of_values)


def _sizes(given: Sequence[Tensor]) -> tuple[int, int, int]:
    """Widths of a context and of a query, and the number of keys; zeros without attention."""
    keys, values = given[-2:] if len(given) > 4 else (None, None)
    return (0, 0, 0) if keys is None or values is None else (values.shape[2], keys.shape[2], keys.shape[1])


def _called(
    low: bool, real: Tensor, visible: Tensor | None, given: Sequence[Tensor], *, back: bool = False
) -> tuple[Call, RecurrentStruct]:
    """The call and the struct of its inputs; for gradients the matrices in it are transposed."""
    projected, first, gates, candidate = given[:4]
    context, query, weight, keys, values = given[4:] or (None,) * 5
    steps, rows, _, width = projected.shape
    call, matrices = Call(low, rows), (gates, candidate, context, query)
    seen = None if visible is None else visible.to(torch.uint8)
    struct = RecurrentStruct(
        *(x for each in zip(*(call.both(matrix, back=back) for matrix in matrices), strict=True) for x in each),
        *map(call.place, (projected, real.to(torch.uint8), first, keys, values, weight, seen)),
        *(rows, steps, width, 0 if keys is None else keys.shape[1]),
    )
    return call, struct
