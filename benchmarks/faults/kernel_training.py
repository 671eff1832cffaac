"""Calls of what training computes: losses, dropout, attention within texts; as those of `kernel_cases.py`."""

from __future__ import annotations

import numpy as np
from kernel_cases import ATTENTION, DROPOUT, LOSS, Array, Case, Memory, bfloats, drawn, floats

from regard.kernels.interface import LossStruct, TextsStruct


def loss_case(rng: np.random.Generator) -> Case:
    """The losses of drawn logits and their gradients, in place: in float64 - sum_v t_v log softmax(z)_v and its slope."""
    bits, rows = int(rng.choice([32, 16])), int(rng.choice([0, 1, 2, 7]))
    size = int(rng.choice([1, 2, 15, 16, 255, 256, 257, 1000]))
    never = int(rng.integers(size)) if size > 1 and rng.random() < 0.7 else -1
    smoothing = float(np.float32(rng.choice([0.0, 0.1, 0.7])))
    share = float(np.float32(smoothing / (size - (never >= 0))))
    logits = drawn(rng, rows, size, extreme=rng.random() < 0.4) * np.float32(rng.choice([1, 10, 60]))
    counts = (rng.random(rows) < 0.8).astype(np.uint8)
    labels = np.where(counts, rng.integers(0, size, rows), rng.choice([-1, size, 2**62], rows)).astype(np.int64)
    kept = logits if bits == 32 else bfloats(logits)
    given, scale = (logits if bits == 32 else floats(kept)).astype(np.float64), int(rng.choice([1000, 7]))

    memory = Memory(rng)
    at = memory.put(kept, output=True)
    loss = LossStruct(at, memory.put(labels), memory.put(counts), rows, size, never, smoothing, share, bits)
    arguments = [("to", memory.put_structs([loss]))]
    arguments += [("to", memory.put(np.full(rows, np.nan, np.float32), output=True)) for _ in range(3)]
    arguments += [("to", memory.put(np.full(rows, 9, np.uint8), output=True)), ("is", scale), ("to", at)]

    def judge(found: list[Array]) -> float:
        gradient, losses, right = floats(found[0]) if bits == 16 else found[0], found[1], found[4]
        error = 0.0
        for row in range(rows):
            z, label, made = given[row], labels[row], gradient[row].astype(np.float64)
            if not counts[row]:
                error = max(error, np.inf if losses[row] or right[row] or made.any() else 0.0)
                continue
            others = np.delete(z, label)
            if right[row] != (z[label] > np.nanmax(others, initial=-np.inf)):
                return np.inf
            if np.isnan(z).any() or (z == np.inf).any() or (z == -np.inf).all():
                error = max(error, np.inf if np.isfinite(losses[row]) or np.isfinite(made).any() else 0.0)
                continue
            target = np.full(size, share)
            if never >= 0:
                target[never] = 0
            target[label] += 1 - smoothing
            high = z.max()
            total = np.log(np.exp(z - high).sum())
            own = np.where(target > 0, target * (high + total - z), 0).sum()
            sizes = abs(high) + total + (np.abs(np.where(target > 0, z, 0)) * target).sum()
            if not np.isfinite(own):
                error = max(error, 0.0 if losses[row] == own else np.inf)
            else:
                error = max(error, abs(float(losses[row]) - own) / (4e-6 * sizes + 1e-5))
            shares = np.exp(z - high - total)
            wanted = scale / 1000 * (shares - target)
            allowed = scale / 1000 * (1.2e-5 * shares + 3e-7 * target) + 1e-36
            allowed = allowed + (np.abs(wanted) / 200 if bits == 16 else 0)
            error = max(error, float((np.abs(made - wanted) / allowed).max()))
        return error

    outputs = [(kept.dtype, (rows, size))] + [(np.float32, (rows,))] * 3 + [(np.uint8, (rows,))]
    what = f"loss of {rows} rows of {size} logits, {bits} bits, smoothing {smoothing:.1f}, never {never}"
    return Case(what, lambda threads: memory.call(LOSS, threads, arguments), outputs, judge)


def random_halves(seed: int, count: int) -> Array:
    """The 16 random bits of each entry, by SplitMix64."""
    words = np.arange(1, -(-count // 4) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ words >> np.uint64(shift)) * np.uint64(factor)
    return (words ^ words >> np.uint64(31)).view(np.uint16)[:count]


def dropout_case(rng: np.random.Generator) -> Case:
    """Dropout of drawn numbers, whose mask is that of SplitMix64."""
    bits, count = int(rng.choice([32, 16])), int(rng.choice([0, 1, 3, 4, 255, 256, 257, 2000]))
    least, scale, seed = int(rng.choice([0, 6554, 65535])), int(rng.choice([1000, 1500])), int(rng.integers(0, 2**63))
    given = drawn(rng, count, extreme=True)
    kept = given if bits == 32 else bfloats(given)

    memory = Memory(rng)
    arguments = [("to", memory.put(kept)), ("is", count), ("is", bits), ("is", seed), ("is", least), ("is", scale)]
    arguments += [("to", memory.put(np.zeros_like(kept), output=True))]

    def judge(found: list[Array]) -> float:
        halves = random_halves(seed, count)
        x = given if bits == 32 else floats(kept)
        wanted = x * np.where(halves >= least, np.float32(scale / 1000), np.float32(0))
        made = found[0] if bits == 32 else floats(found[0])
        wanted = wanted if bits == 32 else floats(bfloats(wanted))
        return 0.0 if np.array_equal(made, wanted, equal_nan=True) else np.inf

    what = f"dropout of {count} numbers of {bits} bits, at least {least}, scale {scale / 1000}"
    return Case(what, lambda threads: memory.call(DROPOUT, threads, arguments), [(kept.dtype, (count,))], judge)


def attention_case(rng: np.random.Generator) -> Case:
    """Attention of drawn texts with dropout, and the gradients of its inputs, against the equations in float64."""
    bits, causal = int(rng.choice([32, 16])), bool(rng.random() < 0.4)
    heads, width = (int(rng.choice(few)) for few in ((1, 2, 3), (1, 4, 16, 20, 32, 64)))
    few = [0, 1, 3, 4, 16, 17, 50]
    asking = rng.choice(few, int(rng.choice([0, 1, 4])))
    asked = asking if causal or rng.random() < 0.3 else rng.choice(few, len(asking))
    scale, least, factor = int(rng.choice([125, 1_000])) / 1000, int(rng.choice([0, 20_000])), 1.5
    length, columns = int(asking.max(initial=0)), int(asked.max(initial=0)) + int(rng.integers(3))
    given = [drawn(rng, int(count.sum()), heads, width) for count in (asking, asked, asked, asking)]
    if rng.random() < 0.2:
        given[3] *= 0
    kept = given if bits == 32 else [bfloats(x) for x in given]
    query, key, value, upstream = (x.astype(np.float64) if bits == 32 else floats(x).astype(np.float64) for x in kept)
    ends, seed = [np.cumsum(count).astype(np.int32) for count in (asking, asked)], int(rng.integers(2**63))

    memory = Memory(rng)
    places = [memory.put(x) for x in (*kept[:3], *ends)]
    texts = TextsStruct(
        *(
            *places,
            len(asking),
            heads,
            width,
            bits,
            causal,
            scale,
            least,
            factor if least else 1.0,
            length,
            columns,
            seed,
        )
    )
    arguments = [("to", memory.put_structs([texts])), ("is", length), ("is", columns), ("to", memory.put(kept[3]))]
    arguments += [("to", memory.put(np.zeros_like(kept[n]), output=True)) for n in (0, 0, 1, 2)]

    def judge(found: list[Array]) -> float:
        made = [x if bits == 32 else floats(x) for x in found]
        halves = random_halves(seed, len(asking) * heads * length * columns).reshape(
            len(asking), heads, length, columns
        )
        error = 0.0
        for text, (many, others) in enumerate(zip(asking.tolist(), asked.tolist(), strict=True)):
            own, other = (
                slice(int(ends[0][text]) - many, ends[0][text]),
                slice(int(ends[1][text]) - others, ends[1][text]),
            )
            if not others and not many:
                continue
            q, dy = (x[own].transpose(1, 0, 2) for x in (query, upstream))
            k, v = (x[other].transpose(1, 0, 2) for x in (key, value))
            scores = scale * q @ k.transpose(0, 2, 1)
            hidden = np.triu(np.ones((many, others), bool), 1) if causal else np.zeros((many, others), bool)
            scores = np.where(hidden, -np.inf, scores)
            shares = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-1e30))
            shares = shares / shares.sum(axis=-1, keepdims=True) if others else shares
            mask = (halves[text, :, :many, :others] >= least) * (factor if least else 1.0)
            y, dv = (shares * mask) @ v, (shares * mask).transpose(0, 2, 1) @ dy
            slopes = (dy @ v.transpose(0, 2, 1)) * mask
            slopes = scale * shares * (slopes - (slopes * shares).sum(axis=-1, keepdims=True))
            wanted = (y, slopes @ k, slopes.transpose(0, 2, 1) @ q, dv)
            most = float(np.abs(np.where(hidden, 0, scores)).max(initial=0))
            size = [float(np.abs(x).max(initial=0)) for x in (q, k, v, dy)]
            # What each result is a sum of, at most.
            heights = (size[2], scale * size[1] * size[2] * size[3] * width, 0.0, size[3])
            heights = (*heights[:2], scale * size[0] * size[2] * size[3] * width, size[3])
            for one, place, right, height in zip(made, (own, own, other, other), wanted, heights, strict=True):
                result = one[place].transpose(1, 0, 2)
                allowed = 1e-6 * height * (4 + most * width**0.5) * (4 + max(many, others)) + 1e-12
                allowed = allowed + (0 if bits == 32 else np.abs(right) / 250)
                error = max(error, float((np.abs(result - right) / allowed).max(initial=0)))
                if not np.isfinite(result).all():
                    return np.inf
        return error

    what = f"attention of texts of {asking.tolist()} and {asked.tolist()} tokens, {heads} heads of width {width}, {bits} bits"
    outputs = [(kept[n].dtype, kept[n].shape) for n in (0, 0, 1, 2)]
    what += f"{', causal' if causal else ''}, {'dropout' if least else 'no dropout'}"
    return Case(what, lambda threads: memory.call(ATTENTION, threads, arguments), outputs, judge)
