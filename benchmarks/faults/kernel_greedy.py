"""Calls of `regard_greedy`, as those of `kernel_cases.py`: several tokens of each row, in numpy alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from kernel_blocks import Held, Norm, Sizes, Stack, allowed, difference
from kernel_cases import GREEDY, UNIT, Array, Case, Map, Memory, bfloats, drawn, floats

from regard.kernels.interface import EmbeddingStruct, HeadStruct


class Vectors:
    """Vectors of tokens and of steps: what the kernels are given, and the same in numpy."""

    def __init__(self, rng: np.random.Generator, tokens: int, steps: int, width: int) -> None:
        self.bits, self.scale = int(rng.choice([16, 32])), np.float32(rng.choice([1.0, 0.5, 1.7]))
        self.values = drawn(rng, tokens, width)
        if self.bits == 16:
            self.values = floats(bfloats(self.values))
        self.positions = drawn(rng, steps, width)

    def struct(self, memory: Memory) -> EmbeddingStruct:
        """As the kernels read it."""
        values = memory.put(self.values if self.bits == 32 else bfloats(self.values))
        return EmbeddingStruct(values, memory.put(self.positions), self.scale, self.bits)

    def __call__(self, tokens: Array, step: int) -> Array:
        """(rows, width) of the tokens of a step."""
        return self.values[tokens] * self.scale + self.positions[step]


def greedy_case(rng: np.random.Generator, halves: bool) -> Case:
    """One call of `regard_greedy`; halves: of kernels that round rows to bfloat16 for weights of 16 bits."""
    rows, steps = int(rng.choice([0, 1, 2, 3, 5, 9])), int(rng.choice([0, 1, 2, 4]))
    sizes = replace(Sizes.drawn(rng, halves), crossed=False, per_text=1, rows=rows)
    stack, memory = Stack(rng, sizes), Memory(rng)
    before = int(rng.choice([0, 1, 3, 15, 16, 40]))
    past = Held(rng, sizes, before + max(1, steps))
    past.values[..., before:, :] = np.nan  # of the steps to come
    past.columns = before + 1
    real = int(rng.choice([1, 2, 5, 31, 300]))
    vectors = Vectors(rng, real + int(rng.integers(0, 3)), steps, sizes.width)
    if rng.random() < 0.3 and steps:
        vectors.positions[-1, 0] = rng.choice([np.inf, np.nan])  # the last step has no token to choose
    norm = Norm.drawn(rng, sizes.width, 0.7)
    head = Map.drawn(rng, sizes.bits, real if sizes.bits > 8 else real + -real % UNIT, sizes.width, halves=halves)
    never, ends = (rng.choice(real, int(rng.integers(0, min(real, 4))), replace=False) for _ in range(2))
    positions = rng.integers(0, 40, (steps, rows))

    tokens = np.full((steps + 1, rows), -7, np.int64)
    tokens[0] = rng.integers(0, len(vectors.values), rows)
    logits = np.full((steps, rows, real), np.nan, np.float32)
    arguments = [("to", memory.put_structs(stack.structs(memory))), ("is", sizes.count)]
    arguments += [("to", memory.put_structs([vectors.struct(memory)])), ("to", memory.put(tokens, output=True))]
    arguments += [("is", steps), ("is", rows), ("to", memory.put(positions.astype(np.int64)))]
    arguments += [("to", memory.put_structs([past.struct(memory, output=True)]))]
    arguments += [("to", memory.put_pointers([None] * sizes.count))]
    arguments += [("to", memory.put_structs([HeadStruct(norm.struct(memory), head.struct(memory), real)]))]
    arguments += [("to", memory.put(logits, output=True))]
    for ids in (never, ends):
        arguments += [("to", memory.put(ids.astype(np.int64))), ("is", len(ids))]
    arguments += [("to", memory.put(np.full((rows, sizes.width), np.nan, np.float32), output=True))]
    arguments += [("to", memory.put(np.full(1, -1, np.int32), output=True))]
    outputs: list[tuple[Any, tuple[int, ...]]] = [(np.int64, tokens.shape)]
    outputs += [(np.float32 if sizes.cache_bits == 32 else np.uint16, past.values.shape)]
    outputs += [(np.float32, logits.shape), (np.float32, (rows, sizes.width)), (np.int32, (1,))]

    def judge(found: list[Array]) -> float:
        made, cached, said, _, done = found
        cached = cached if sizes.cache_bits == 32 else floats(cached)
        kept = past.values[..., :before, :].copy()
        if not np.array_equal(cached[..., :before, :], kept, equal_nan=True) or (made[0] != tokens[0]).any():
            return math.inf  # what was there before was changed
        largest, stopped = 0.0, False
        for step in range(steps):
            choices = said[step].copy()
            choices[:, never] = -np.inf
            whole = np.isfinite(said[step]).all(axis=1)
            if stopped or step > done[0]:  # nothing is computed afterwards
                return largest if np.isnan(said[step:]).all() and (made[step + 1 :] == -7).all() else math.inf
            past.columns = before + step + 1
            y, _ = stack(vectors(made[step], step), positions[step], past, [None] * sizes.count, None, None)
            wanted = head(norm(y))[0][:, :real]
            largest = max(largest, difference(said[step], wanted))
            for held, own in ((past.values, cached),):  # goes on from what the kernel kept
                held[..., before + step, :] = own[..., before + step, :]
            best = np.where(whole & (choices.max(axis=1) > -np.inf), choices.argmax(axis=1), -1)
            if not np.array_equal(made[step + 1], best):
                return math.inf
            stopped = bool((best < 0).any() or np.isin(best, ends).any())
            if done[0] != step + (not (best < 0).any()) and (stopped or step == steps - 1):
                return math.inf
        return largest / allowed(sizes) if done[0] <= steps else math.inf

    what = f"greedy, {sizes}, {before} columns, {steps} steps, {real} tokens, {len(never)} forbidden, {len(ends)} ends"
    return Case(what, lambda threads: memory.call(GREEDY, threads, arguments), outputs, judge)
