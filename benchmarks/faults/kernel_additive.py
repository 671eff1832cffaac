"""Calls of `regard_additive` and of its gradient; as those of `kernel_cases.py`."""

from __future__ import annotations

import numpy as np
from kernel_cases import ADDITIVE, Array, Case, Memory, bfloats, drawn, floats

from regard.kernels.interface import AdditiveStruct


def additive_case(rng: np.random.Generator) -> Case:
    """Additive scores of drawn queries and keys, infinite ones among them, and the gradients of their inputs."""
    bits, texts = int(rng.choice([32, 16])), int(rng.choice([0, 1, 3]))
    asking, asked = (int(rng.choice([0, 1, 2, 5])) for _ in range(2))
    width = int(rng.choice([1, 3, 8, 16, 17, 33, 64, 100]))
    given = [drawn(rng, texts, count, width) * np.float32(rng.choice([1, 6])) for count in (asking, asked)]
    if given[0].size and rng.random() < 0.3:
        given[0].flat[int(rng.integers(given[0].size))] = rng.choice([np.inf, -np.inf, 3e38])
    kept = given if bits == 32 else [bfloats(x) for x in given]
    query, key = (x.astype(np.float64) if bits == 32 else floats(x).astype(np.float64) for x in kept)
    weight, upstream = drawn(rng, width), drawn(rng, texts, asking, asked)
    upstream[rng.random(upstream.shape) < 0.3] = 0

    memory = Memory(rng)
    places = [memory.put(x) for x in (*kept, weight)]
    struct = memory.put_structs([AdditiveStruct(*places, texts, asking, asked, width, bits)])
    arrays = [
        np.zeros((texts, asking, asked), np.float32),
        *map(np.zeros_like, kept),
        np.zeros((texts, width), np.float32),
    ]
    arguments = [("to", struct), ("to", memory.put(upstream))]
    arguments += [("to", memory.put(x, output=True)) for x in arrays]

    def judge(found: list[Array]) -> float:
        made = [found[0], *(x if bits == 32 else floats(x) for x in found[1:3]), found[3]]
        t = np.tanh(query[:, :, None] + key[:, None])
        slopes = upstream[..., None] * weight * (1 - t**2)
        wanted = (t @ weight, slopes.sum(axis=2), slopes.sum(axis=1), (upstream[..., None] * t).sum(axis=(1, 2)))
        each, step = np.abs(weight), np.abs(upstream)[..., None] * np.abs(weight)
        most = (
            np.broadcast_to(each.sum(), made[0].shape),
            np.broadcast_to(step, slopes.shape).sum(axis=2),
            np.broadcast_to(step, slopes.shape).sum(axis=1),
            np.abs(upstream).sum(axis=(1, 2))[:, None],
        )
        error = 0.0
        for one, right, height in zip(made, wanted, most, strict=True):
            if not np.isfinite(one).all():
                return np.inf
            allowed = 2e-6 * height + 1e-30 + (0 if bits == 32 else np.abs(right) / 250)
            error = max(error, float((np.abs(one - right) / allowed).max(initial=0)))
        return error

    what = f"additive scores of {texts} times {asking} queries and {asked} keys of width {width}, {bits} bits"
    outputs = [(x.dtype, x.shape) for x in arrays]
    return Case(what, lambda threads: memory.call(ADDITIVE, threads, arguments), outputs, judge)
