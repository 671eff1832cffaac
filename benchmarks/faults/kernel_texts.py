"""Calls of `regard_texts`, as those of `kernel_cases.py`: texts of drawn lengths that attend to themselves."""

from __future__ import annotations

import numpy as np
from kernel_cases import TEXTS, Array, Case, Memory, bfloats, drawn, floats


def texts_case(rng: np.random.Generator) -> Case:
    """One call of `regard_texts`, of which the result in float64 is softmax(scale Q K^T) V for each text and head."""
    bits = int(rng.choice([32, 16]))
    heads, width = (int(rng.choice(few)) for few in ((1, 2, 5), (1, 4, 16, 20, 32, 64, 80)))
    lengths = rng.choice([0, 1, 3, 4, 16, 17, 50, 70], int(rng.choice([0, 1, 4])))
    ends, scale = np.cumsum(lengths).astype(np.int32), int(rng.choice([50, 300, 2_000]))
    tokens, longest = int(lengths.sum()), int(lengths.max(initial=0))
    given = drawn(rng, tokens, 3, heads, width)
    if rng.random() < 0.3:
        given[rng.random(given.shape) < 0.3 / max(1, given.size)] = np.nan
    kept = given if bits == 32 else bfloats(given)
    given = given if bits == 32 else floats(kept)

    memory = Memory(rng)
    arguments = [("to", memory.put(kept)), ("to", memory.put(ends)), ("is", len(ends)), ("is", heads), ("is", width)]
    arguments += [("is", bits), ("is", scale), ("is", longest)]
    arguments += [("to", memory.put(np.zeros((tokens, heads, width), kept.dtype), output=True))]

    def judge(found: list[Array]) -> float:
        made, start, error = found[0] if bits == 32 else floats(found[0]), 0, 0.0
        for end in ends.tolist():
            query, key, value = given[start:end].transpose(1, 2, 0, 3).astype(np.float64)
            scores = scale / 1000 * query @ key.transpose(0, 2, 1)
            shares = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
            wanted = (shares / shares.sum(axis=-1, keepdims=True) @ value).transpose(1, 0, 2)
            own = made[start:end]
            if (np.isnan(own) != np.isnan(wanted)).any():
                return np.inf
            sizes = (np.nanmax(np.abs(each), initial=0) for each in (scores, value))
            most, height = map(float, sizes)
            allowed = 1e-6 * height * (4 + most * width**0.5 + (end - start) ** 0.5)
            allowed = allowed + (0 if bits == 32 else np.abs(wanted) / 256)
            error = max(error, float(np.nanmax(np.abs(own - wanted) / (allowed + 1e-30), initial=0)))
            start = end
        return error

    what = f"{len(ends)} texts of {lengths.tolist()} tokens, {heads} heads of width {width}, {bits} bits, scale {scale / 1000}"
    outputs = [(kept.dtype, (tokens, heads, width))]
    return Case(what, lambda threads: memory.call(TEXTS, threads, arguments), outputs, judge)
