"""Calls of `regard_candidates`; as those of `kernel_cases.py`."""

from __future__ import annotations

import numpy as np
from kernel_cases import CANDIDATES, Array, Case, Memory, bfloats, drawn, floats

from regard.kernels.interface import BeamsStruct


def candidates_case(rng: np.random.Generator) -> Case:
    """The best continuations of drawn beams: with equal sums, missing hypotheses, tokens ruled out, and logits that are NaN."""
    bits, sentences, width = int(rng.choice([32, 16])), int(rng.choice([0, 1, 3])), int(rng.choice([1, 2, 5]))
    size, count = int(rng.choice([1, 2, 255, 256, 257, 600])), int(rng.choice([1, 2, 10, 30]))
    logits = drawn(rng, sentences, width, size) * np.float32(rng.choice([1, 10]))
    if rng.random() < 0.5:
        logits = np.round(logits)  # so that some are equal
    logits[rng.random(logits.shape) < 0.1] = -np.inf
    logits[..., 0] = 0
    if logits.size and rng.random() < 0.2:
        logits.flat[int(rng.integers(logits.size))] = rng.choice([np.nan, np.inf])
    totals = drawn(rng, sentences, width) if rng.random() < 0.6 else np.zeros((sentences, width), np.float32)
    totals[rng.random(totals.shape) < 0.2] = -np.inf
    never = rng.choice(size, int(rng.choice([0, 1, min(3, size)])), replace=False).astype(np.int64)
    if rng.random() < 0.5:
        logits[..., never] = 20  # they would be chosen
    kept = logits if bits == 32 else bfloats(logits)
    given = logits if bits == 32 else floats(kept)

    memory = Memory(rng)
    places = [memory.put(x) for x in (kept, totals, never)]
    struct = memory.put_structs([BeamsStruct(*places, sentences, size, width, len(never), count, bits)])
    arrays = [np.zeros((sentences, count), kind) for kind in (np.float32, np.float32, np.int64)]
    arguments = [("to", struct), *(("to", memory.put(x, output=True)) for x in arrays)]

    def judge(found: list[Array]) -> float:
        sums, own, index = found
        error = 0.0
        for sentence in range(sentences):
            z = given[sentence].astype(np.float64)
            if np.isnan(z).any() or (z == np.inf).any():
                if not np.isnan(sums[sentence, 0]):
                    return np.inf
                continue
            exact = z - np.log(np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True))
            exact -= z.max(axis=1, keepdims=True)
            wanted = exact + totals[sentence][:, None]
            wanted[:, never] = -np.inf
            best = np.sort(wanted.ravel())[::-1][:count]
            best = best[best > -np.inf]
            some = sums[sentence, : len(best)].astype(np.float64)
            allowed = 4e-6 * (1 + np.abs(best).max(initial=0) + np.abs(z[np.isfinite(z)]).max(initial=0))
            if (sums[sentence, len(best) :] != -np.inf).any() or not np.isfinite(some).all():
                return np.inf
            chosen = index[sentence, : len(best)]
            if len(set(chosen.tolist())) < len(chosen) or (chosen < 0).any() or (chosen >= wanted.size).any():
                return np.inf
            error = max(error, float((np.abs(some - best) / allowed).max(initial=0)))
            error = max(error, float((np.abs(wanted.ravel()[chosen] - some) / allowed).max(initial=0)))
            error = max(
                error, float((np.abs(exact.ravel()[chosen] - own[sentence, : len(best)]) / allowed).max(initial=0))
            )
            # In order, and of equal sums that with the lower index first.
            before, after = some[:-1], some[1:]
            if ((before < after) | ((before == after) & (chosen[:-1] > chosen[1:]))).any():
                return np.inf
            # Of a row's equal logits none is left out before a later one.
            for row, token in (divmod(int(place), size) for place in chosen):
                equal = [place for place in np.flatnonzero(z[row, :token] == z[row, token]) if place not in never]
                if not {row * size + place for place in equal} <= set(chosen.tolist()):
                    return np.inf
        return error

    what = f"the best {count} of {sentences} beams of {width} with {size} logits of {bits} bits, {len(never)} ruled out"
    outputs = [(x.dtype, x.shape) for x in arrays]
    return Case(what, lambda threads: memory.call(CANDIDATES, threads, arguments), outputs, judge)
