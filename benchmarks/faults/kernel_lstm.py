"""Calls of `regard_lstm` and of its gradient; as those of `kernel_cases.py`."""

from __future__ import annotations

import numpy as np
from kernel_cases import LSTM, Array, Case, Memory, bfloats, drawn, floats

from regard.kernels.interface import (
    LinearStruct,
    LSTMGradientsStruct,
    LSTMLayerStruct,
    LSTMPassedStruct,
    LSTMStruct,
)


def lstm_case(rng: np.random.Generator) -> Case:
    """LSTM layers alone or with attention and input feeding over drawn inputs, and the gradients of all that is given."""
    bits, rows, steps = int(rng.choice([32, 16])), int(rng.choice([0, 1, 3, 19])), int(rng.choice([0, 1, 2, 4]))
    width, count, asked = int(rng.choice([32, 64])), int(rng.choice([1, 2, 3])), int(rng.choice([0, 1, 2, 5]))
    memory, none = Memory(rng), np.zeros(4 * width, np.float32)

    def linear(*shape: int, bias: Array = none) -> tuple[LinearStruct, LinearStruct, Array]:
        """A matrix, its transpose, and its numbers."""
        matrix = drawn(rng, *shape) * np.float32(0.2)
        kept = matrix if bits == 32 else bfloats(matrix)
        structs = [
            LinearStruct(*own.shape, bits, 0, memory.put(own), 0, memory.put(given))
            for own, given in ((kept, bias), (np.ascontiguousarray(kept.T), none))
        ]
        return structs[0], structs[1], (matrix if bits == 32 else floats(kept)).astype(np.float64)

    layers, structs = [], []
    for number in range(count):
        bias = drawn(rng, 4 * width) if number else none
        into, into_back, w = linear(4 * width, width, bias=bias)
        if not number and not asked:
            into, into_back, w = LinearStruct(), LinearStruct(), np.zeros((4 * width, width))
        again, again_back, u = linear(4 * width, width)
        mask = (rng.random((steps, rows, width)) < 0.8).astype(np.float32) * np.float32(1.25)
        mask = mask if number and rng.random() < 0.7 else None
        states = [drawn(rng, rows, width) for _ in range(2)]
        places = [0 if mask is None else memory.put(mask), *map(memory.put, states)]
        structs.append(LSTMLayerStruct(into, again, into_back, again_back, *places))
        layers.append((w, bias.astype(np.float64), u, mask, *(x.astype(np.float64) for x in states)))
    combination, combination_back, c = linear(width, 2 * width)
    projected, first = drawn(rng, steps, rows, 4, width), drawn(rng, rows, width)
    real, visible = (
        (rng.random((steps, rows)) < 0.8).astype(np.uint8),
        (rng.random((rows, asked)) < 0.7).astype(np.uint8),
    )
    keys, values, upstream, of_cells = (
        drawn(rng, *shape)
        for shape in ((rows, asked, width), (rows, asked, width), (steps, rows, width), (count, rows, width))
    )
    places = [memory.put(projected), memory.put(real)]
    places += [memory.put(x) for x in (first, keys, values, visible)] if asked else [0] * 4
    own = LSTMStruct(
        memory.put_structs(structs), combination, combination_back, *places, rows, count, steps, width, asked
    )
    shapes = [(count, steps, rows, width)] * 3 + [(count, steps, rows, 4 * width)]
    shapes += [(steps, rows, asked), (steps, rows, 2 * width), (steps, rows, width)]
    passed = [memory.put(np.zeros(shape, np.float32), output=True) for shape in shapes]
    more = [(count, steps, rows, 4 * width), (steps, rows, width), (steps, rows, width), (steps, rows, asked)]
    more += [(count, rows, width), (count, rows, width), (rows, width)]
    gradients = [np.zeros(shape, np.float32) for shape in more]
    gradients[5] = of_cells
    of = [memory.put(upstream), *(memory.put(x, output=True) for x in gradients)]
    arguments = [
        ("to", memory.put_structs([struct])) for struct in (own, LSTMPassedStruct(*passed), LSTMGradientsStruct(*of))
    ]
    given = [x.astype(np.float64) for x in (projected, first, keys, values, upstream, of_cells)]

    def judge(found: list[Array]) -> float:
        wanted = _by_equation(layers, c, real, visible, *given)
        error, allowed = 0.0, 1e-5 if bits == 32 else 0.03
        for place, (one, right) in enumerate(zip(found, wanted, strict=True)):
            if not asked and place in (4, 5, 6, 8, 9, 10, 13):  # of attention
                continue
            one, right = (x[1:] if place == 2 else x for x in (one, right))  # the lowest layer has no inputs
            if not np.isfinite(one).all():
                return np.inf
            error = max(
                error, float(np.abs(one - right).max(initial=0)) / (allowed * (1 + np.abs(right).max(initial=0)))
            )
        return error

    what = f"{steps} steps of {rows} rows through {count} LSTM layers of width {width} fed by {asked} keys, {bits} bits"
    outputs = [(np.float32, shape) for shape in (*shapes, *more)]
    return Case(what, lambda threads: memory.call(LSTM, threads, arguments), outputs, judge)


def _by_equation(
    layers: list[tuple[Array, ...]],
    combination: Array,
    real: Array,
    visible: Array,
    projected: Array,
    first: Array,
    keys: Array,
    values: Array,
    upstream: Array,
    of_cells: Array,
) -> list[Array]:
    """Step by step, what the kernel keeps, then the gradients in its order."""
    (steps, rows, _, width), count, asked = projected.shape, len(layers), keys.shape[1]
    hidden, cells, inputs = (np.zeros((count, steps, rows, width)) for _ in range(3))
    gates = np.zeros((count, steps, rows, 4 * width))
    shares, joined = np.zeros((steps, rows, asked)), np.zeros((steps, rows, 2 * width))
    fed = np.zeros((steps, rows, width))
    before = [(layer[4], layer[5]) for layer in layers]
    last = first
    for t in range(steps):
        is_real, below = real[t][:, None].astype(bool), last
        for number, (w, bias, u, mask, *_) in enumerate(layers):
            if number:
                below = inputs[number, t] = below if mask is None else below * mask[t]
            h, c = before[number]
            made = below @ w.T + bias + h @ u.T + (0 if number else projected[t].reshape(rows, 4 * width))
            i, f, g, o = np.split(made, 4, axis=1)
            i, f, o = (1 / (1 + np.exp(-x)) for x in (i, f, o))
            g = np.tanh(g)
            gates[number, t] = np.concatenate((i, f, g, o), axis=1)
            cell = f * c + i * g
            cells[number, t] = np.where(is_real, cell, c)
            hidden[number, t] = np.where(is_real, o * np.tanh(cell), h)
            before[number] = hidden[number, t], cells[number, t]
            below = hidden[number, t]
        if not asked:
            continue
        grown = np.where(visible, np.exp((below[:, None] * keys).sum(axis=2)), 0)
        total = grown.sum(axis=1, keepdims=True)
        shares[t] = np.divide(grown, total, out=np.zeros_like(grown), where=total > 0)
        joined[t] = np.concatenate(((shares[t][..., None] * values).sum(axis=1), below), axis=1)
        last = fed[t] = np.where(is_real, np.tanh(joined[t] @ combination.T), last)
    of_gates, of_combined, of_contexts = np.zeros_like(gates), np.zeros_like(fed), np.zeros_like(fed)
    of_scores, of_fed = np.zeros_like(shares), np.zeros((rows, width))
    of_hidden, of_cells = np.zeros((count, rows, width)), of_cells.copy()
    for t in reversed(range(steps)):
        is_real = real[t][:, None].astype(bool)
        if asked:
            of_fed = of_fed + upstream[t]
            of_combined[t] = np.where(is_real, of_fed * (1 - fed[t] ** 2), 0)
            of_fed = np.where(is_real, 0, of_fed)
            of_contexts[t], of_top = np.split(of_combined[t] @ combination, 2, axis=1)
            of_shares = (of_contexts[t][:, None] * values).sum(axis=2)
            of_scores[t] = shares[t] * (of_shares - (shares[t] * of_shares).sum(axis=1, keepdims=True))
            of_hidden[-1] += of_top + (of_scores[t][..., None] * keys).sum(axis=1)
        else:
            of_hidden[-1] += upstream[t]
        for number in reversed(range(count)):
            w, _, u, mask, _, first_c = layers[number]
            i, f, g, o = np.split(gates[number, t], 4, axis=1)
            height, of_new = np.tanh(cells[number, t]), np.where(is_real, of_hidden[number], 0)
            of_cell = np.where(is_real, of_cells[number] + of_new * o * (1 - height**2), 0)
            old = cells[number, t - 1] if t else first_c
            of_gates[number, t] = np.concatenate(
                (
                    of_cell * g * i * (1 - i),
                    of_cell * old * f * (1 - f),
                    of_cell * i * (1 - g**2),
                    of_new * height * o * (1 - o),
                ),
                axis=1,
            )
            of_cells[number] = np.where(is_real, of_cell * f, of_cells[number])
            of_hidden[number] = np.where(is_real, 0, of_hidden[number]) + of_gates[number, t] @ u
            down = of_gates[number, t] @ w
            if number:
                of_hidden[number - 1] += down if mask is None else down * mask[t]
            else:
                of_fed = of_fed + down
    found = [hidden, cells, inputs, gates, shares, joined, fed]
    return [*found, of_gates, of_combined, of_contexts, of_scores, of_hidden, of_cells, of_fed]
