"""Calls of `regard_recurrent` and of its gradient; as those of `kernel_cases.py`."""

from __future__ import annotations

import numpy as np
from kernel_cases import RECURRENT, Array, Case, Memory, bfloats, drawn, floats

from regard.kernels.interface import LinearStruct, PassedGradientsStruct, PassedStruct, RecurrentStruct


def recurrent_case(rng: np.random.Generator) -> Case:
    """A gated recurrent network over drawn inputs, with additive attention or without, and the gradients of all that is given."""
    bits, rows, steps = int(rng.choice([32, 16])), int(rng.choice([0, 1, 3, 19])), int(rng.choice([0, 1, 2, 4]))
    width, asking, wide = (int(rng.choice([32, 64])) for _ in range(3))
    asked = int(rng.choice([0, 1, 2, 5]))
    inner = {
        "gates": (2 * width, width),
        "candidate": (width, width),
        "context": (3 * width, wide),
        "query": (asking, width),
    }
    memory, linears, matrices = Memory(rng), {}, {}
    none = memory.put(np.zeros(3 * 64, np.float32))
    for name, shape in inner.items():
        if not asked and name in ("context", "query"):
            linears[name] = linears[f"{name}_back"] = LinearStruct()
            continue
        matrix = drawn(rng, *shape) * np.float32(0.2)
        kept = matrix if bits == 32 else bfloats(matrix)
        matrices[name] = (matrix if bits == 32 else floats(kept)).astype(np.float64)
        for way, own in ((name, kept), (f"{name}_back", np.ascontiguousarray(kept.T))):
            linears[way] = LinearStruct(*own.shape, bits, 0, memory.put(own), 0, none)
    projected, first = drawn(rng, steps, rows, 3, width), drawn(rng, rows, width)
    real, visible = (
        (rng.random((steps, rows)) < 0.8).astype(np.uint8),
        (rng.random((rows, asked)) < 0.7).astype(np.uint8),
    )
    keys, values, weight = drawn(rng, rows, asked, asking), drawn(rng, rows, asked, wide), drawn(rng, asking)
    of_states, of_contexts = drawn(rng, steps, rows, width), drawn(rng, steps, rows, wide)
    places = [memory.put(x) for x in (projected, real, first)]
    places += [memory.put(x) for x in (keys, values, weight, visible)] if asked else [0] * 4
    order = ("gates", "candidate", "context", "query")
    struct = RecurrentStruct(
        *(linears[name] for name in order),
        *(linears[f"{name}_back"] for name in order),
        *places,
        rows,
        steps,
        width,
        asked,
    )
    shapes = [
        (steps, rows, width),
        (steps, rows, 3 * width),
        (steps, rows, asking),
        (steps, rows, asked),
        (steps, rows, wide),
    ]
    passed = [memory.put(np.zeros(shape, np.float32), output=True) for shape in shapes]
    gradients = [
        of_contexts,
        *(
            np.zeros(shape, np.float32)
            for shape in (
                (steps, rows, 3, width),
                (steps, rows, asking),
                (rows, asked, asking),
                (rows, asking),
                (rows, width),
            )
        ),
    ]
    found_at = [memory.put(x, output=True) for x in gradients]
    of = PassedGradientsStruct(memory.put(of_states), *found_at)
    arguments = [("to", memory.put_structs([each])) for each in (struct, PassedStruct(*passed), of)]
    given = [x.astype(np.float64) for x in (projected, first, keys, values, weight, of_states, of_contexts)]

    def judge(found: list[Array]) -> float:
        wanted = _by_equation(matrices, real, visible, *given)
        error, allowed = 0.0, 1e-5 if bits == 32 else 0.03
        used = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10) if asked else (0, 1, 6, 10)
        for place in used:
            one, right = found[place], wanted[place]
            if not np.isfinite(one).all():
                return np.inf
            height = 1 + np.abs(right).max(initial=0)
            error = max(error, float(np.abs(one - right).max(initial=0)) / (allowed * height))
        return error

    what = f"{steps} recurrent steps of {rows} rows of width {width}, {asked} keys, {bits} bits"
    outputs = [(np.float32, shape) for shape in shapes] + [(x.dtype, x.shape) for x in gradients]
    return Case(what, lambda threads: memory.call(RECURRENT, threads, arguments), outputs, judge)


def _by_equation(
    matrices: dict[str, Array],
    real: Array,
    visible: Array,
    projected: Array,
    first: Array,
    keys: Array,
    values: Array,
    weight: Array,
    of_states: Array,
    of_contexts: Array,
) -> list[Array]:
    """Step by step: states, gates, queries, shares and contexts, then the gradients in the kernel's order."""
    (steps, rows, _, width), asked, attends = projected.shape, keys.shape[1], bool(keys.shape[1])
    asking, wide = keys.shape[2], values.shape[2]
    states, gates = np.zeros((steps, rows, width)), np.zeros((steps, rows, 3 * width))
    queries, shares, contexts = (np.zeros((steps, rows, size)) for size in (asking, asked, wide))
    state = first
    for t in range(steps):
        inside = projected[t].reshape(rows, 3 * width)
        if attends:
            queries[t] = state @ matrices["query"].T
            scores = np.tanh(queries[t][:, None] + keys) @ weight
            grown = np.where(visible, np.exp(scores), 0)
            total = grown.sum(axis=1, keepdims=True)
            shares[t] = np.divide(grown, total, out=np.zeros_like(grown), where=total > 0)
            contexts[t] = (shares[t][..., None] * values).sum(axis=1)
            inside = inside + contexts[t] @ matrices["context"].T
        both = 1 / (1 + np.exp(-(inside[:, : 2 * width] + state @ matrices["gates"].T)))
        reset, update = both[:, :width], both[:, width:]
        new = np.tanh(inside[:, 2 * width :] + (reset * state) @ matrices["candidate"].T)
        gates[t] = np.concatenate((reset, update, new), axis=1)
        state = state + real[t][:, None] * update * (new - state)
        states[t] = state
    of_state, of_inside = np.zeros((rows, width)), np.zeros((steps, rows, 3 * width))
    of_queries, of_keys, of_weights = np.zeros_like(queries), np.zeros_like(keys), np.zeros((rows, asking))
    of_contexts = of_contexts.copy()
    for t in reversed(range(steps)):
        before = states[t - 1] if t else first
        reset, update, new = np.split(gates[t], 3, axis=1)
        of_state = of_state + of_states[t]
        moved = of_state * real[t][:, None]
        of_new = moved * update * (1 - new**2)
        of_update = moved * (new - before) * update * (1 - update)
        of_kept = of_new @ matrices["candidate"]
        of_reset = of_kept * before * reset * (1 - reset)
        of_inside[t] = np.concatenate((of_reset, of_update, of_new), axis=1)
        of_state = of_state - moved * update + of_kept * reset + of_inside[t][:, : 2 * width] @ matrices["gates"]
        if attends:
            of_contexts[t] += of_inside[t] @ matrices["context"]
            of_shares = (of_contexts[t][:, None] * values).sum(axis=2)
            of_scores = shares[t] * (of_shares - (shares[t] * of_shares).sum(axis=1, keepdims=True))
            grown = np.tanh(queries[t][:, None] + keys)
            slopes = of_scores[..., None] * weight * (1 - grown**2)
            of_queries[t], of_keys = slopes.sum(axis=1), of_keys + slopes
            of_weights = of_weights + (of_scores[..., None] * grown).sum(axis=1)
            of_state = of_state + of_queries[t] @ matrices["query"]
    of_projected = of_inside.reshape(steps, rows, 3, width)
    return [
        states,
        gates,
        queries,
        shares,
        contexts,
        of_contexts,
        of_projected,
        of_queries,
        of_keys,
        of_weights,
        of_state,
    ]
