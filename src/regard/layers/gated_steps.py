"""All steps of a gated recurrent network by a compiled kernel in training, with additive attention before each step or without.

Step by step PyTorch computes dozens of small operations, forwards and backwards, and a product of few rows for the gradient of
each matrix. The kernel takes each row of the batch through all steps; the gradient of a matrix is then one product over all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import AttentionLayer, Score, ScoredAttention, Soft
from regard.kernels import kernels
from regard.kernels.building import has_matrix_tiles
from regard.kernels.interface import LinearStruct, PassedStruct, RecurrentStruct
from regard.layers.padding import has_hooks

GROUP = 32
"""The kernel's widths are multiples of it; others are filled up with zeros, at which a state stays zero."""

LEAST_ROWS = 8
"""Rows for each thread: with fewer, products wait for their weights."""


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
    float32, and products are those of the dtype of autocast. See `fits` for where this can be called.

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
    low = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    with torch.autocast("cpu", enabled=False):
        states, contexts = _GatedSteps.apply(
            low, real.t(), visible, three, filled(first.float(), -1), *matrices, *given
        )  # type: ignore[misc]
    states = states[..., :width].transpose(0, 1)
    return states, None if attended is None else contexts[..., : attended.values.shape[-1]].transpose(0, 1)


def fits(module: nn.Module, x: Tensor) -> bool:
    """Whether the kernel computes the steps of a module: in training on a processor, where nobody changes a part of it.

    Arguments:
        module: whose steps they are.
        x: what it reads.
    """
    if not module.training or not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    if x.device.type != "cpu" or x.dtype != torch.float32 or not x.numel() or kernels().library is None:
        return False
    if torch.is_autocast_enabled("cpu") and (torch.get_autocast_dtype("cpu") != torch.bfloat16 or has_matrix_tiles()):
        return False
    return not any(map(has_hooks, module.modules()))


def steps_shown(module: nn.Module, steps: Callable[[], object]) -> Callable[[], None]:
    """A function to call after the kernel: it runs the steps one by one for a recorder of attention, if there is one.

    The results of training are those of the kernel, recorded or not. This is called before the kernel, so that the steps sample
    the same random numbers.

    Arguments:
        module: whose steps they are.
        steps: runs them.
    """
    if not any("forward" in part.__dict__ for part in module.modules()):
        return lambda: None
    random = torch.get_rng_state()

    def again() -> None:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.set_rng_state(random)
            steps()

    return again


def attends_by(layer: AttentionLayer, score: type[Score]) -> bool:
    """Whether a layer attends by such scores and their softmax to values as they are, and does nothing else."""
    mechanism = layer.attention
    return (
        type(layer) is AttentionLayer
        and type(mechanism) is ScoredAttention
        and type(mechanism.score) is score
        and type(mechanism.alignment) is Soft
        and not mechanism.dropout
        and layer.heads == layer.key_heads == 1
        and all(type(part) is nn.Identity for part in (layer.value, layer.output))
        and layer.rotary is layer.query_norm is layer.key_norm is None
    )


def are_plain(*layers: nn.Module) -> bool:
    """Whether all are linear layers as PyTorch makes them."""
    return all(type(layer) is nn.Linear for layer in layers)


def filled(x: Tensor, dim: int) -> Tensor:
    """With zeros behind, to a multiple of `GROUP`."""
    missing = -x.shape[dim] % GROUP
    return x if not missing else F.pad(x, (0, 0) * (-dim - 1) + (0, missing))


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
        call = _Call.of(low, real, visible, given)
        steps, rows, _, width = given[0].shape
        wide, asking, asked = call.sizes
        passed = [torch.empty(steps, rows, size) for size in (width, 3 * width, asking, asked, wide)]
        call.run("regard_recurrent", passed)
        ctx.save_for_backward(real, visible, *given, *passed)
        ctx.low = low
        return passed[0], passed[4]

    @staticmethod
    def backward(ctx: Any, *upstreams: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        real, visible, *saved = ctx.saved_tensors
        given, passed = saved[:-5], saved[-5:]
        if torch.is_grad_enabled():  # a gradient of this gradient is wanted
            needing = [x for x in given if x.requires_grad]
            outputs = by_equation(real, visible, *given)
            pairs = [(y, upstream) for y, upstream in zip(outputs, upstreams, strict=True) if y.requires_grad]
            found = iter(
                torch.autograd.grad(
                    [y for y, _ in pairs], needing, [upstream for _, upstream in pairs], create_graph=True
                )
            )
            return (None, None, None, *(next(found) if x.requires_grad else None for x in given))
        projected, first = given[:2]
        states, gates, _, attended, contexts = passed
        call = _Call.of(ctx.low, real, visible, given, back=True)
        width, (_, asking, asked) = first.shape[1], call.sizes
        steps, rows = projected.shape[:2]
        of_contexts = upstreams[1].contiguous().clone()
        of_projected, of_queries = torch.empty(projected.shape), torch.empty(steps, rows, asking)
        of_keys, of_weights, of_first = (
            torch.empty(rows, asked, asking),
            torch.empty(rows, asking),
            torch.empty(first.shape),
        )
        more = (of_contexts, of_projected, of_queries, of_keys, of_weights, of_first)
        call.run("regard_recurrent_gradient", passed, upstreams[0].contiguous(), more)
        before, inside = torch.cat((first[None], states[:-1])), call.rounded(of_projected.flatten(2))
        kept = call.rounded(gates[..., :width] * before)
        before = call.rounded(before)
        of_matrices = [
            call.gradient(inside[..., : 2 * width], before),
            call.gradient(inside[..., 2 * width :], kept),
        ]
        if visible is None:
            return (None, None, None, of_projected, of_first, *of_matrices)
        of_matrices += [call.gradient(inside, call.rounded(contexts)), call.gradient(call.rounded(of_queries), before)]
        of_values = attended.permute(1, 2, 0) @ of_contexts.transpose(0, 1)
        return (None, None, None, of_projected, of_first, *of_matrices, of_weights.sum(dim=0), of_keys, of_values)


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A call of the kernel.

    Arguments:
        struct: of what is given.
        threads: for it.
        low: whether products are in bfloat16.
        sizes: widths of a context and of a query, and the number of keys; zeros without attention.
        held: the tensors in memory that the struct points to.
    """

    struct: RecurrentStruct
    threads: int
    low: bool
    sizes: tuple[int, int, int]
    held: list[Tensor]

    @classmethod
    def of(
        cls, low: bool, real: Tensor, visible: Tensor | None, given: Sequence[Tensor], *, back: bool = False
    ) -> _Call:
        held: list[Tensor] = []

        def place(x: Tensor) -> int:
            held.append(x.contiguous())
            return held[-1].data_ptr()

        projected, first, gates, candidate = given[:4]
        context, query, weight, keys, values = given[4:] or (None,) * 5
        steps, rows, _, width = projected.shape
        matrices = (gates, candidate, context, query)
        none = torch.zeros(max(3 * width, *(size for x in matrices if x is not None for size in x.shape)))

        def linear(weight: Tensor | None) -> LinearStruct:
            if weight is None:
                return LinearStruct()
            outputs, inputs = weight.shape
            own = place(weight.bfloat16() if low else weight)
            return LinearStruct(outputs, inputs, 16 if low else 32, 0, own, None, place(none))

        pairs = [*matrices, *(x.t() if back and x is not None else None for x in matrices)]
        struct = RecurrentStruct(
            *map(linear, pairs),
            *(place(projected), place(real.to(torch.uint8)), place(first)),
            *(None if x is None else place(x) for x in (keys, values, weight)),
            None if visible is None else place(visible.to(torch.uint8)),
            *(rows, steps, width, 0 if keys is None else keys.shape[1]),
        )
        sizes = (0, 0, 0) if keys is None or values is None else (values.shape[2], keys.shape[2], keys.shape[1])
        threads = max(1, min(torch.get_num_threads(), rows // LEAST_ROWS))
        return cls(struct, threads, low, sizes, held)

    def run(
        self, name: str, passed: Sequence[Tensor], upstream: Tensor | None = None, more: Sequence[Tensor] = ()
    ) -> None:
        library: Any = kernels().library
        scratch = torch.empty(library.regard_recurrent_scratch(self.struct, self.threads), dtype=torch.uint8)
        given = [] if upstream is None else [upstream.data_ptr()]
        places = PassedStruct(*(x.data_ptr() for x in passed))
        getattr(library, name)(
            self.struct, places, *given, self.threads, scratch.data_ptr(), *(x.data_ptr() for x in more)
        )

    def gradient(self, upstream: Tensor, x: Tensor) -> Tensor:
        """The gradient (outputs, inputs) of a matrix, of (L, B, outputs) and (L, B, inputs) in the dtype of products."""
        return (upstream.flatten(0, 1).t() @ x.flatten(0, 1)).float()

    def rounded(self, x: Tensor) -> Tensor:
        """In the dtype of products."""
        return x.bfloat16() if self.low else x
