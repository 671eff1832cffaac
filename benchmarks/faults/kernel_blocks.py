"""Calls of `regard_blocks`, as those of `kernel_cases.py`: blocks of every kind, in numpy alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernel_cases import BLOCKS, GROUP, SPECIAL, UNIT, Array, Case, Map, Memory, activated, bfloats, drawn, floats

from regard.kernels.interface import BlockStruct, CacheStruct, HeadStruct, NormStruct, RotaryStruct


@dataclass(frozen=True)
class Norm:
    """A layer norm, an RMS norm (no bias) or none (no weight)."""

    weight: Array | None
    bias: Array | None

    @classmethod
    def drawn(cls, rng: np.random.Generator, width: int, share: float) -> Norm:
        """None with a chance of 1 - `share`."""
        if rng.random() > share:
            return cls(None, None)
        return cls(
            1 + drawn(rng, width) * np.float32(0.2), drawn(rng, width) * np.float32(0.2) if rng.random() < 0.5 else None
        )

    def struct(self, memory: Memory) -> NormStruct:
        """As the kernels read it."""
        weight, bias = (None if each is None else memory.put(each) for each in (self.weight, self.bias))
        return NormStruct(weight, bias, 1e-5)

    def __call__(self, x: Array) -> Array:
        """Over the last axis."""
        if self.weight is None:
            return x
        mean = 0 if self.bias is None else x.mean(axis=-1, keepdims=True)
        normal = (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + np.float32(1e-5))
        return normal * self.weight + (0 if self.bias is None else self.bias)


@dataclass(frozen=True)
class Sizes:
    """What all blocks of a case have alike."""

    bits: int
    cache_bits: int
    count: int
    heads: int
    key_heads: int
    each: int
    width: int
    inner: int
    gated: bool
    parallel: bool
    crossed: bool
    turned: int
    neighbours: bool
    rows: int
    per_text: int
    halves: bool

    @classmethod
    def drawn(cls, rng: np.random.Generator, halves: bool) -> Sizes:
        """Small ones of every kind."""
        key_heads, per_text = int(rng.choice([1, 1, 2, 3])), int(rng.choice([1, 1, 1, 2, 3, 7]))
        texts = int(rng.choice([0, 1, 2, 3, 5, 9]))
        if rng.random() < 0.03:  # more rows than go through a block together
            per_text, texts = int(rng.integers(100, 300)), int(rng.integers(1, 3))
        each, crossed = GROUP * int(rng.choice([1, 1, 2])), bool(rng.random() < 0.4)
        return cls(
            bits=int(rng.choice([32, 16, 8, 4])),
            cache_bits=int(rng.choice([16, 32])),
            count=int(rng.integers(1, 4)),
            heads=key_heads * int(rng.choice([1, 2, 3, 5])),
            key_heads=key_heads,
            each=each,
            width=GROUP * int(rng.choice([1, 2, 3])),
            inner=GROUP * int(rng.choice([1, 2, 4])),
            gated=bool(rng.random() < 0.5),
            parallel=not crossed and bool(rng.random() < 0.4),
            crossed=crossed,
            turned=int(rng.choice([0, 2, each // 2, each])),
            neighbours=bool(rng.random() < 0.5),
            rows=per_text * texts,
            per_text=per_text,
            halves=halves,
        )


class Held:
    """Keys and values (2, rows, blocks, key heads, capacity, width), those that may not be read NaN."""

    def __init__(self, rng: np.random.Generator, sizes: Sizes, columns: int) -> None:
        groups = sizes.rows // sizes.per_text
        self.columns, self.capacity = columns, columns + int(rng.choice([0, 1, 16]))
        rows = groups + int(rng.integers(0, 3))
        self.homes = rng.permutation(rows)[:groups].astype(np.int64) if rng.random() < 0.5 else None
        shape = (2, rows, sizes.count, sizes.key_heads, self.capacity, sizes.each)
        self.values = drawn(rng, *shape)
        if sizes.cache_bits == 16:
            self.values = floats(bfloats(self.values))
        self.values[..., columns:, :] = np.nan
        self.bits, self.groups = sizes.cache_bits, groups

    def sprinkle(self, rng: np.random.Generator) -> None:
        """Put some of `SPECIAL` among them."""
        few = rng.random(self.values.shape) < 0.01
        special = rng.choice(SPECIAL, int(few.sum()))
        self.values[few] = special if self.bits == 32 else floats(bfloats(special))

    def array(self) -> Array:
        """As the kernels read it."""
        return self.values if self.bits == 32 else bfloats(self.values)

    def home(self, group: int) -> int:
        """The row of a group."""
        return group if self.homes is None else int(self.homes[group])

    def struct(self, memory: Memory, *, output: bool) -> CacheStruct:
        """As the kernels read it."""
        homes = None if self.homes is None else memory.put(self.homes)
        values = memory.put(self.array(), output=output)
        return CacheStruct(values, homes, self.values.shape[1], self.capacity, self.columns, self.bits)


NORMS = (
    "attention_before",
    "attention_after",
    "feedforward_before",
    "feedforward_after",
    "source_before",
    "source_after",
)


class Stack:
    """Blocks of one kind: what the kernels are given, and the same in numpy."""

    def __init__(self, rng: np.random.Generator, sizes: Sizes) -> None:
        self.sizes = s = sizes
        queries, keys = s.heads * s.each, s.key_heads * s.each
        shapes = {
            "query": (queries, s.width),
            "key": (keys, s.width),
            "value": (keys, s.width),
            "output": (s.width, queries),
            "inner": (s.inner, s.width),
            "outer": (s.width, s.inner),
        }
        if s.gated:
            shapes["gate"] = (s.inner, s.width)
        if s.crossed:
            shapes |= {"source_query": (queries, s.width), "source_output": (s.width, queries)}
        activation, activated_map = int(rng.integers(0, 5)), "gate" if s.gated else "inner"
        self.maps = [
            {
                name: Map.drawn(rng, s.bits, *shape, activation * (name == activated_map), halves=s.halves)
                for name, shape in shapes.items()
            }
            for _ in range(s.count)
        ]
        self.norms = [{name: Norm.drawn(rng, s.width, 0.7) for name in NORMS} for _ in range(s.count)]
        for each in self.norms:
            each |= {name: Norm.drawn(rng, s.each, 0.4) for name in ("query_norm", "key_norm")}
            if s.parallel:
                each["attention_after"] = Norm(None, None)
        angles = rng.uniform(-3, 3, (40, s.turned // 2))
        self.cosines, self.sines = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        self.scale = 1 / math.sqrt(s.each)

    def structs(self, memory: Memory) -> list[BlockStruct]:
        """As the kernels read them."""
        s = self.sizes
        tables = (memory.put(self.cosines), memory.put(self.sines)) if s.turned else (None, None)
        return [
            BlockStruct(
                **{name: each.struct(memory) for name, each in maps.items()},
                **{name: each.struct(memory) for name, each in norms.items()},
                rotary=RotaryStruct(*tables, s.turned, s.neighbours),
                width=s.width,
                heads=s.heads,
                key_heads=s.key_heads,
                head_width=s.each,
                scale=self.scale,
                source_scale=self.scale,
                parallel=s.parallel,
            )
            for maps, norms in zip(self.maps, self.norms, strict=True)
        ]

    def turn(self, x: Array, positions: Array) -> Array:
        """Rotary positions of (rows, heads, width)."""
        pairs = self.sizes.turned // 2
        cosines, sines = (table[positions][:, None] for table in (self.cosines, self.sines))
        y = x.copy()
        one, two = (
            (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
            if self.sizes.neighbours
            else (slice(pairs), slice(pairs, 2 * pairs))
        )
        y[..., one] = x[..., one] * cosines - x[..., two] * sines
        y[..., two] = x[..., two] * cosines + x[..., one] * sines
        return y

    def attended(self, number: int, query: Array, held: Held, visible: Array | None, per_text: int) -> Array:
        """(rows, heads, width) over a cache; `visible` has a row for each `per_text` rows."""
        s, y = self.sizes, np.zeros_like(query)
        for row in range(s.rows):
            seen = slice(held.columns) if visible is None else np.flatnonzero(visible[row // per_text])
            keys, values = held.values[:, held.home(row // s.per_text), number].astype(np.float64)
            for head in range(s.heads):
                own = head // (s.heads // s.key_heads)
                scores = keys[own, seen] @ query[row, head] * self.scale
                if len(scores):
                    shares = np.exp(scores - scores.max())
                    y[row, head] = shares @ values[own, seen] / shares.sum()
        return y

    def __call__(
        self,
        x: Array,
        positions: Array,
        past: Held,
        visible: Sequence[Array | None],
        source: Held | None,
        seen: Array | None,
    ) -> tuple[Array, list[Array]]:
        """What comes out, and the queries to the source of each block; `past` is written."""
        s, asked = self.sizes, []
        x = x.astype(np.float64)
        for number, (maps, norms) in enumerate(zip(self.maps, self.norms, strict=True)):
            inside = norms["attention_before"](x)
            query, key, value = (self.heads(maps[name], inside) for name in ("query", "key", "value"))
            query, key = norms["query_norm"](query), norms["key_norm"](key)
            if s.turned:
                query, key = self.turn(query, positions), self.turn(key, positions)
            for row in range(s.rows):
                place = past.home(row // s.per_text), number, slice(None), past.columns - s.per_text + row % s.per_text
                for held, new in zip(past.values, (key[row], value[row]), strict=True):
                    held[place] = new if s.cache_bits == 32 else floats(bfloats(new))
            attended = self.attended(number, query, past, visible[number], 1).reshape(s.rows, s.heads * s.each)
            if s.parallel:
                net = self.net(maps, norms["feedforward_before"](x))
                x = norms["feedforward_after"](x + maps["output"](attended)[0] + net)
                continue
            x = norms["attention_after"](x + maps["output"](attended)[0])
            if source is not None:
                query = self.heads(maps["source_query"], norms["source_before"](x))
                asked.append(query)
                attended = self.attended(number, query, source, seen, s.per_text).reshape(s.rows, s.heads * s.each)
                x = norms["source_after"](x + maps["source_output"](attended)[0])
            x = norms["feedforward_after"](x + self.net(maps, norms["feedforward_before"](x)))
        return x, asked

    def heads(self, projection: Map, x: Array) -> Array:
        """(rows, heads, width) of a projection."""
        return projection(x)[0].reshape(self.sizes.rows, len(projection.weight) // self.sizes.each, self.sizes.each)

    def net(self, maps: dict[str, Map], x: Array) -> Array:
        """The feed-forward net."""
        inside = maps["inner"](x)[0]
        if "gate" in maps:
            inside = inside * activated(maps["gate"](x)[0], maps["gate"].activation)
        else:
            inside = activated(inside, maps["inner"].activation)
        return maps["outer"](inside)[0]


def blocks_case(rng: np.random.Generator, halves: bool) -> Case:
    """One call of `regard_blocks`; halves: of kernels that round rows to bfloat16 for weights of 16 bits."""
    sizes = Sizes.drawn(rng, halves)
    stack, memory = Stack(rng, sizes), Memory(rng)
    rows, groups = sizes.rows, sizes.rows // sizes.per_text
    past = Held(rng, sizes, sizes.per_text + int(rng.choice([0, 1, 3, 15, 16, 40])))
    source = Held(rng, sizes, int(rng.choice([0, 1, 7, 33]))) if sizes.crossed else None
    x, positions = drawn(rng, rows, sizes.width), rng.integers(0, 40, rows)
    wild = rng.random() < 0.25  # numbers of any size, among them what is not finite, in places that are attended to too
    if wild:
        x = drawn(rng, rows, sizes.width, extreme=True)
        past.sprinkle(rng)
    poisoned = not wild and rng.random() < 0.3 and groups > 1
    if poisoned:
        x[0, 0] = rng.choice([np.inf, np.nan, -np.inf])
    visible = [None if rng.random() < 0.5 else rng.random((rows, past.columns)) < 0.7 for _ in range(sizes.count)]
    ranges = [drawn_ranges(rng, rows, past.columns) if rng.random() < 0.5 else None for _ in range(sizes.count)]
    for number, each in enumerate(ranges):
        if each is not None:
            visible[number] = (each[:, :1] <= np.arange(past.columns)) & (np.arange(past.columns) < each[:, 1:])
    seen = None if source is None or rng.random() < 0.5 else rng.random((groups, source.columns)) < 0.7
    head_norm = Norm.drawn(rng, sizes.width, 0.7)
    real = int(rng.choice([1, 31, 50, 64]))
    head = (
        Map.drawn(rng, sizes.bits, real if sizes.bits > 8 else real + -real % UNIT, sizes.width, halves=halves)
        if rng.random() < 0.5
        else None
    )
    asked = int(rng.integers(-1, sizes.count)) if sizes.crossed else -1

    given = memory.put(x, output=True)
    places = [
        None if each is None or given_range is not None else memory.put(each.astype(np.uint8))
        for each, given_range in zip(visible, ranges, strict=True)
    ]
    spans = [None if each is None else memory.put(each) for each in ranges]
    arguments = [("to", memory.put_structs(stack.structs(memory))), ("is", sizes.count), ("to", given), ("is", rows)]
    arguments += [("is", sizes.per_text), ("to", memory.put(positions.astype(np.int64)))]
    arguments += [("to", memory.put_structs([past.struct(memory, output=True)])), ("to", memory.put_pointers(places))]
    arguments += [("to", memory.put_pointers(spans) if any(each is not None for each in spans) else 0)]
    arguments += [("to", 0 if source is None else memory.put_structs([source.struct(memory, output=False)]))]
    arguments += [("to", 0 if seen is None else memory.put(seen.astype(np.uint8))), ("is", asked)]
    queries = np.full((rows, sizes.heads * sizes.each), np.nan, np.float32)
    arguments += [("to", memory.put(queries, output=True))]
    struct = None if head is None else HeadStruct(head_norm.struct(memory), head.struct(memory), real)
    arguments += [("to", 0 if struct is None else memory.put_structs([struct]))]
    arguments += [("to", memory.put(np.full((rows, real), np.nan, np.float32), output=True))]
    outputs: list[tuple[Any, tuple[int, ...]]] = [(np.float32, x.shape)]
    outputs += [(np.float32 if sizes.cache_bits == 32 else np.uint16, past.values.shape)]
    outputs += [(np.float32, queries.shape), (np.float32, (rows, real))]
    hidden = past.values.copy()
    y, asks = stack(x, positions, past, visible, source, seen)
    logits = None if head is None else head(head_norm(y))[0][:, :real]

    def judge(found: list[Array]) -> float:
        states, cached, wrote, said = found
        cached = cached if sizes.cache_bits == 32 else floats(cached)
        pairs = [(states, y), (said, np.full(said.shape, np.nan) if logits is None else logits)]
        pairs += [(wrote, asks[asked].reshape(wrote.shape) if asked >= 0 else queries)]
        new = np.zeros(past.capacity, bool)
        new[past.columns - sizes.per_text : past.columns] = True
        if not np.array_equal(cached[..., ~new, :], hidden[..., ~new, :], equal_nan=True):
            return math.inf  # what was there before was changed
        if wild:  # float32 overflows where float64 does not
            return math.inf if np.isfinite(states[np.isnan(x).any(axis=1)]).any() else 0.0
        pairs += [(cached[..., new, :], past.values[..., new, :])]
        return max(difference(*pair) for pair in pairs) / allowed(sizes)

    what = f"blocks, {sizes}, {past.columns} columns{', wild numbers' if wild else ', one row not finite' if poisoned else ''}"
    return Case(what, lambda threads: memory.call(BLOCKS, threads, arguments), outputs, judge)


def drawn_ranges(rng: np.random.Generator, rows: int, columns: int) -> Array:
    """(rows, 2) int32, the columns that each row may attend to, mostly as many as the row before or one more; some have none."""
    first, ends = int(rng.integers(0, columns)), columns - rows + 1 + np.arange(rows)
    starts = np.where(rng.random() < 0.5, 0, np.maximum(ends - int(rng.integers(1, 9)), 0)) + np.zeros(rows, int)
    if rng.random() < 0.5:
        starts, ends = rng.integers(0, columns, rows), first + rng.integers(0, columns, rows)
    ends = np.clip(ends, 0, columns)
    return np.stack([np.minimum(starts, ends), ends], axis=1).astype(np.int32)


def difference(found: Array, wanted: Array) -> float:
    """The largest, as a share of the largest number wanted; infinite where one is finite and the other is not."""
    finite = np.isfinite(wanted)
    if not np.array_equal(np.isfinite(found), finite):
        return math.inf
    return float(np.abs(found - wanted)[finite].max(initial=0)) / max(1.0, float(np.abs(wanted)[finite].max(initial=0)))


def allowed(sizes: Sizes) -> float:
    """What rounding may come to: once more on the way where whole numbers, or keys and values of bfloat16, are rounded to."""
    rounded = sizes.cache_bits == 16 or (sizes.halves and sizes.bits == 16)
    return 0.1 if sizes.bits <= 8 else 0.02 if rounded else 2e-4
