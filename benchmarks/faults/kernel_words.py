"""Calls of `regard_word2vec` and `regard_glove`, as those of `kernel_cases.py`: a pass over a piece of a text, or over counts."""

from __future__ import annotations

import numpy as np
from kernel_cases import GLOVE, WORD2VEC, Array, Case, Memory, drawn

from regard.kernels.interface import CountTablesStruct, TextStruct, WordTablesStruct
from regard.word_embeddings.training.corpus import settings_of
from regard.word_embeddings.training.counting import ENTRY
from regard.word_embeddings.training.word2vec import Piece, plain_pass

METHODS = ("skipgram", "cbow", "fasttext")


def words_case(rng: np.random.Generator) -> Case:
    """One call of `regard_word2vec`, of which the result in float64 is that of `plain_pass`."""
    method = str(rng.choice(METHODS))
    vocabulary, width, window, negative = (int(rng.choice(few)) for few in ((1, 2, 30), (1, 16, 50), (1, 2, 6), (1, 3)))
    stride, buckets, rate = width + -width % 16, 7, int(rng.choice([1, 50, 200]))
    count = int(rng.choice([0, 1, 2, 40]))
    words = rng.integers(0, vocabulary, count).astype(np.int32)
    places, reach = np.arange(count), rng.integers(1, window + 1, count)
    sentence = np.sort(rng.integers(0, 4, count))
    starts, stops = (np.searchsorted(sentence, sentence, side) for side in ("left", "right"))
    begins, ends = np.maximum(places - reach, starts), np.minimum(places + reach + 1, stops)
    pairs = int((ends - begins - 1).sum()) if method == "fasttext" else count
    negatives = rng.integers(0, vocabulary, pairs * negative).astype(np.int32)
    piece = Piece(words=words, begins=begins.astype(np.int32), ends=ends.astype(np.int32), negatives=negatives)
    counts = rng.integers(1, 6, vocabulary)
    rows = vocabulary + (buckets if method == "fasttext" else 0)
    parts = rng.integers(0, rows, counts.sum()).astype(np.int32)
    part_ends = np.cumsum(counts).astype(np.int64)
    if method != "fasttext":
        parts, part_ends = parts[:0], part_ends[:0]
    inputs, outputs = np.zeros((rows, stride), np.float32), np.zeros((vocabulary, stride), np.float32)
    for table in (inputs, outputs):
        table[:, :width] = drawn(rng, len(table), width)

    memory = Memory(rng)
    places_of = [memory.put(table, output=True) for table in (inputs, outputs)]
    tables = WordTablesStruct(*places_of, stride)
    arrays = (words, piece.begins, piece.ends, negatives, parts, part_ends)
    text = TextStruct(*(memory.put(each) for each in arrays), count, negative)
    arguments = [("to", memory.put_structs([tables])), ("to", memory.put_structs([text]))]
    arguments += [("is", METHODS.index(method)), ("is", window), ("is", rate)]
    outputs_of = [(np.float32, table.shape) for table in (inputs, outputs)]

    def judge(found: list[Array]) -> float:
        wanted = [table.astype(np.float64) for table in (inputs, outputs)]
        settings = settings_of(method, width=width, window=window, negative=negative)  # type: ignore[arg-type]
        plain_pass(*wanted, piece, rate / 1000, settings, parts, part_ends)
        errors = [float(np.abs(one - other).max(initial=0)) for one, other in zip(found, wanted, strict=True)]
        size = max(float(np.abs(table).max(initial=1)) for table in wanted)
        grown = (1 + rate / 1000) ** min(count, 40)  # an error of one window is read by later ones
        return max(errors) / (1e-5 * size * width * grown)

    what = f"{method}, {vocabulary} words, width {width}, window {window}, {negative} negatives, {count} positions"
    return Case(what, lambda threads: memory.call(WORD2VEC, threads, arguments), outputs_of, judge)


def counts_case(rng: np.random.Generator) -> Case:
    """One call of `regard_glove`, against a loop over its counts in float64."""
    words, width, number = (int(rng.choice(few)) for few in ((1, 2, 30), (1, 14, 15, 60), (0, 1, 3, 50)))
    stride, clip = width + 2 + -(width + 2) % 16, int(rng.choice([100_000, 300]))
    entries = np.empty(number, dtype=ENTRY)
    entries["row"], entries["column"] = rng.integers(0, words, (2, number))
    entries["count"] = 1
    logs, factors = (x.astype(np.float32) for x in (rng.normal(size=number), rng.random(number)))
    tables = [np.zeros((words, stride), np.float32) for _ in range(4)]
    for side, (rows, squares) in enumerate(zip(tables[:2], tables[2:], strict=True)):
        rows[:, :width], rows[:, width + side], rows[:, width + 1 - side] = drawn(rng, words, width) / 4, 0.1, 1
        squares[:] = np.inf
        squares[:, :width], squares[:, width + side] = 1, 1

    memory = Memory(rng)
    places = [memory.put(table, output=True) for table in tables]
    arguments = [("to", memory.put_structs([CountTablesStruct(*places, stride)]))]
    arguments += [("to", memory.put(each)) for each in (entries, logs, factors)]
    arguments += [("is", number), ("is", clip), ("to", memory.put(np.full(1, -1.0), output=True))]

    def judge(found: list[Array]) -> float:
        x, y, x_squares, y_squares = (table.astype(np.float64) for table in tables)
        cost = 0.0
        for (i, j, _), log, factor in zip(entries.tolist(), logs.tolist(), factors.tolist(), strict=True):
            wrong = x[i] @ y[j] - log
            cost += 0.5 * factor * wrong * wrong
            one, other = (0.05 * np.clip(factor * wrong * each, -clip / 1000, clip / 1000) for each in (y[j], x[i]))
            x[i] -= one / np.sqrt(x_squares[i])
            y[j] -= other / np.sqrt(y_squares[j])
            x_squares[i] += one * one
            y_squares[j] += other * other
        wanted = (x, y, np.where(np.isinf(x_squares), 0, x_squares), np.where(np.isinf(y_squares), 0, y_squares))
        made = (found[0], found[1], *(np.where(np.isinf(each), 0, each) for each in found[2:4]))
        errors = [float(np.abs(a - b).max(initial=0)) for a, b in zip(made, wanted, strict=True)]
        return max(*errors, abs(float(found[4][0]) - cost) / max(1.0, cost)) / (1e-5 * width)

    outputs = [(np.float32, (words, stride))] * 4 + [(np.float64, (1,))]
    what = f"glove, {words} words, width {width}, {number} counts, clipped at {clip / 1000}"
    return Case(what, lambda threads: memory.call(GLOVE, threads, arguments), outputs, judge)
