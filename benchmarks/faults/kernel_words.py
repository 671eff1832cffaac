"""Calls of `regard_word2vec`, as those of `kernel_cases.py`: a pass over a piece of a text."""

from __future__ import annotations

import numpy as np
from kernel_cases import WORD2VEC, Array, Case, Memory, drawn

from regard.quantization.interface import TextStruct, WordTablesStruct
from regard.word_embeddings.training.corpus import settings_of
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
