"""Calls of the compiled kernels on drawn shapes and numbers, and what has to come out, in float64 by numpy alone.

Here are what all calls have in common and those of `regard_linear`; those of `regard_blocks` are in `kernel_blocks.py`,
those of `regard_greedy` in `kernel_greedy.py`, those of `regard_word2vec` and `regard_glove` in
`kernel_words.py`, those of `regard_texts` in `kernel_texts.py`, those of `regard_loss`, `regard_dropout` and
`regard_attention` in `kernel_training.py`, those of `regard_additive` in `kernel_additive.py`, those of
`regard_candidates` in `kernel_candidates.py`, those of `regard_recurrent` in `kernel_recurrent.py`, those of
`regard_lstm` in `kernel_lstm.py`.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.kernels.interface import LinearStruct, Pointer

Array = NDArray[Any]

GROUP, TILE, UNIT = 32, 16, 32
ACTIVATIONS = ("none", "relu", "gelu_tanh", "gelu", "swish")
EPSILON = 2.0**-24
LINEAR, BLOCKS, GREEDY, WORD2VEC, GLOVE, TEXTS, LOSS, DROPOUT, ATTENTION, ADDITIVE, CANDIDATES, RECURRENT, LSTM = range(
    1, 14
)


@dataclass
class Memory:
    """The arrays of a call, as `kernels_driver.cpp` lays them out; the first holds the arguments.

    A pointer in a structure or among the arguments is the number of an array plus one.
    """

    rng: np.random.Generator
    arrays: list[tuple[bytes, int, bool]] = field(default_factory=lambda: [(b"", 0, False)])
    pointers: list[tuple[int, int, int]] = field(default_factory=list)

    def put(self, array: Array, *, output: bool = False) -> int:
        """An array, at an address that is no multiple of more than its elements' size."""
        shift = array.itemsize * int(self.rng.integers(0, 5))
        self.arrays.append((np.ascontiguousarray(array).tobytes(), shift, output))
        return len(self.arrays)

    def put_structs(self, structs: Sequence[ctypes.Structure]) -> int:
        """Structures one after another."""
        self.arrays.append((b"".join(map(bytes, structs)), 0, False))
        for number, each in enumerate(structs):
            self._found(each, number * ctypes.sizeof(each), len(self.arrays) - 1)
        return len(self.arrays)

    def put_pointers(self, places: Sequence[int | None]) -> int:
        """Pointers one after another; None is null."""
        self.arrays.append((bytes(8 * len(places)), 0, False))
        own = len(self.arrays) - 1
        self.pointers += [(own, 8 * n, place - 1) for n, place in enumerate(places) if place]
        return own + 1

    def _found(self, value: ctypes.Structure, at: int, own: int) -> None:
        for name, kind in value._fields_:  # type: ignore[misc]
            place, held = at + getattr(type(value), name).offset, getattr(value, name)
            if kind is Pointer and held:
                self.pointers.append((own, place, held - 1))
            elif isinstance(held, ctypes.Structure):
                self._found(held, place, own)

    def call(self, function: int, threads: int, arguments: Sequence[tuple[str, int]]) -> bytes:
        """The case as bytes: `("to", n)` is a pointer to array n, or null, `("is", n)` a number."""
        self.arrays[0] = (
            struct.pack(f"<{len(arguments)}q", *(n if kind == "is" else 0 for kind, n in arguments)),
            0,
            False,
        )
        pointers = [
            *self.pointers,
            *((0, 8 * at, n - 1) for at, (kind, n) in enumerate(arguments) if kind == "to" and n),
        ]
        parts = [struct.pack("<4i", function, threads, len(self.arrays), len(pointers))]
        for content, shift, output in self.arrays:
            parts += [struct.pack("<q2i", len(content), shift, output), content]
        parts += [struct.pack("<3i", *pointer) for pointer in pointers]
        return b"".join(parts)


@dataclass(frozen=True)
class Case:
    """A call, and how what comes of it is judged.

    Arguments:
        what: what it is, in words.
        call: the bytes for the driver, for a number of threads.
        outputs: dtype and shape of each array that comes back.
        judge: the outputs to the largest error, as a share of what is allowed; infinite where something is plainly wrong.
    """

    what: str
    call: Callable[[int], bytes]
    outputs: list[tuple[Any, tuple[int, ...]]]
    judge: Callable[[list[Array]], float]


# Numbers.

SPECIAL = np.array([np.inf, -np.inf, np.nan, -0.0, 1e-45, -1e-40, 3e38, -3e38, 1.2e-38, 1e-30], np.float32)


def drawn(rng: np.random.Generator, *shape: int, extreme: bool = False) -> Array:
    """Numbers of about 1; or of any size, all 0, all alike, or with some of `SPECIAL` among them."""
    x = rng.standard_normal(shape).astype(np.float32)
    kind = rng.integers(0, 6) if extreme else 0
    if kind == 1:
        x = (x * 10.0 ** rng.integers(-42, 37)).astype(np.float32)
    elif kind == 2:
        x = x * 0
    elif kind == 3:
        x = np.full(shape, x.flat[0] if x.size else 0, np.float32)
    elif kind in (4, 5):
        few = rng.random(shape) < rng.choice([0.002, 0.02, 0.3])
        x[few] = rng.choice(SPECIAL if kind == 4 else SPECIAL[3:6], int(few.sum()))
    return x


def bfloats(x: Array) -> Array:
    """As bfloat16 holds them, rounded to nearest, in uint16; NaN stays one."""
    words = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (words.astype(np.uint64) + 0x7FFF + (words >> 16 & 1)) >> 16
    return np.where(np.isnan(x), words >> 16 | 0x40, rounded).astype(np.uint16)


def floats(halves: Array) -> Array:
    """What numbers of bfloat16 are."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


def normal(x: Array) -> Array:
    """Without denormal numbers of float32: zero in their place."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.float32(0), x)


def activated(x: Array, kind: int) -> Array:
    """An activation by its equation."""
    name = ACTIVATIONS[kind]
    if name == "relu":
        return np.where(x < 0, 0, x)
    if name == "gelu_tanh":
        return x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) / 2
    if name == "gelu":
        erf = np.array([math.erf(each / math.sqrt(2)) for each in x.flat]).reshape(x.shape)
        return x * (1 + erf) / 2
    if name == "swish":
        return x / (1 + np.exp(-x))
    return x


def in_bytes(x: Array) -> tuple[Array, Array]:
    """Activations (N, K) as whole numbers (N, K / 32, 32) and the scale of each group, to the bit as `linear.h` rounds them."""
    groups = x.astype(np.float32).reshape(len(x), x.shape[1] // GROUP, GROUP)
    size = np.abs(groups)
    largest = np.where(np.isnan(size), 0, size).max(axis=2, initial=0).astype(np.float32)
    inverse = np.where(largest > np.float32(1e-36), np.float32(127) / largest, np.float32(0))
    shares = np.rint(groups * inverse[..., None])
    values = np.where(np.abs(shares) <= 127, shares, 0).astype(np.int64)
    poison = np.where(np.isfinite(groups).all(axis=2), np.float32(0), np.float32(np.nan))
    return values, largest / np.float32(127) + poison


@dataclass(frozen=True)
class Map:
    """A linear layer: what the kernels are given, and the same in numpy.

    Arguments:
        weight: (outputs, inputs): float, or whole numbers.
        scale: (outputs,) of 8 bits, (outputs, groups) of 4.
        halves: whether rows are rounded to bfloat16 before a product with weights of 16 bits.
    """

    bits: int
    activation: int
    weight: Array
    scale: Array
    bias: Array
    halves: bool = False

    @classmethod
    def drawn(
        cls,
        rng: np.random.Generator,
        bits: int,
        outputs: int,
        inputs: int,
        activation: int = 0,
        *,
        extreme: bool = False,
        halves: bool = False,
    ) -> Map:
        """One whose outputs are of about the size of its inputs; of 8 and 4 bits `outputs` is a multiple of `UNIT`."""
        spread = 1 / math.sqrt(max(inputs, 1))
        bias = drawn(rng, outputs) * np.float32(0.1)
        if bits > 8:
            weight = drawn(rng, outputs, inputs, extreme=extreme and rng.random() < 0.3) * np.float32(spread)
            weight = weight if bits == 32 else floats(bfloats(weight))
            return cls(bits, activation, weight, np.zeros(0, np.float32), bias, halves)
        ends = (-127, 127) if bits == 8 else (-8, 7)
        weight = rng.integers(ends[0], ends[1] + 1, (outputs, inputs))
        if extreme and rng.random() < 0.3:  # products as large as they get
            weight = rng.choice(ends, (outputs, inputs))
        size = rng.uniform(0.5, 2, outputs if bits == 8 else (outputs, inputs // GROUP)) * spread / ends[1]
        scale = size.astype(np.float32) if bits == 8 else floats(bfloats(size.astype(np.float32)))
        return cls(bits, activation, weight, scale, bias)

    def struct(self, memory: Memory) -> LinearStruct:
        """As the kernels read it."""
        outputs, inputs = self.weight.shape
        scale: int | None = None
        if self.bits == 32:
            weight = memory.put(self.weight.astype(np.float32))
        elif self.bits == 16:
            weight = memory.put(bfloats(self.weight))
        elif self.bits == 8:
            tiles = (self.weight + 128).astype(np.uint8).reshape(outputs // TILE, TILE, inputs // 4, 4)
            weight, scale = memory.put(tiles.transpose(0, 2, 1, 3)), memory.put(self.scale)
        else:
            fours = (self.weight + 8).astype(np.uint8).reshape(outputs // TILE, TILE, inputs // 8, 2, 4)
            fours = fours.transpose(0, 2, 3, 1, 4)
            weight = memory.put(fours[:, :, 0] | fours[:, :, 1] << 4)
            scale = memory.put(bfloats(self.scale.reshape(outputs // TILE, TILE, inputs // GROUP).transpose(0, 2, 1)))
        return LinearStruct(outputs, inputs, self.bits, self.activation, weight, scale, memory.put(self.bias))

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """(N, inputs) to (N, outputs) without the activation, in float64, and the sum of the magnitudes of what was added."""
        if self.bits > 8:
            weight = self.weight
            if self.halves and self.bits == 16:  # and denormal numbers are zero to `vdpbf16ps`
                x, weight = normal(floats(bfloats(normal(x)))), normal(weight)
            parts = x.astype(np.float64)[:, None] * weight.astype(np.float64)
            return parts.sum(axis=2) + self.bias, np.abs(parts).sum(axis=2) + np.abs(self.bias)
        values, scales = in_bytes(x)
        parts = np.einsum("ngk,ogk->ngo", values, self.weight.reshape(len(self.weight), values.shape[1], GROUP)).astype(
            np.float64
        )
        parts *= scales[..., None]
        parts *= self.scale if self.bits == 8 else self.scale.T
        return parts.sum(axis=1) + self.bias, np.abs(parts).sum(axis=1) + np.abs(self.bias)


# A linear layer.


def linear_case(rng: np.random.Generator, halves: bool) -> Case:
    """One call of `regard_linear`; halves: of kernels that round rows to bfloat16 for weights of 16 bits."""
    bits, activation = int(rng.choice([32, 16, 8, 4])), int(rng.integers(0, 5))
    rows, inputs = (
        int(rng.choice([0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 16, 17, 27])),
        GROUP * int(rng.choice([0, 1, 1, 2, 3, 5, 8])),
    )
    real, extreme = int(rng.choice([0, 1, 3, 16, 31, 32, 33, 50, 64, 96, 101])), bool(rng.random() < 0.6)
    own = Map.drawn(
        rng, bits, real if bits > 8 else real + -real % UNIT, inputs, activation, extreme=extreme, halves=halves
    )
    x = drawn(rng, rows, inputs, extreme=extreme)
    memory = Memory(rng)
    w = memory.put_structs([own.struct(memory)])
    given, y = memory.put(x), memory.put(np.full((rows, real), np.nan, np.float32), output=True)
    arguments = [("to", w), ("to", given), ("is", rows), ("to", y), ("is", real)]
    plain, sizes = (each[:, :real] for each in own(x))

    def judge(found: list[Array]) -> float:
        allowed = EPSILON * (inputs / 4 + 16) * sizes + 1e-36
        # Beyond, float32 overflows on the way where float64 does not; of 8 bits an output's scale comes last.
        checked = (sizes / own.scale[:real] if bits == 8 else sizes) < 1e37
        finite = checked & np.isfinite(plain)
        wanted = activated(np.where(finite, plain, 0), activation)
        error = (
            np.abs(found[0] - wanted)[finite]
            / (1.2 * allowed + np.abs(plain) * (4e-7 if activation > 1 else 0))[finite]
        )
        lost = np.isnan(plain) & np.isfinite(found[0])  # NaN became a number
        return math.inf if lost.any() or not np.isfinite(error).all() else float(error.max(initial=0))

    what = f"linear, {bits} bits, {ACTIVATIONS[activation]}, {rows} rows, {inputs} inputs, {real} outputs"
    return Case(what, lambda threads: memory.call(LINEAR, threads, arguments), [(np.float32, (rows, real))], judge)
