"""Skip-gram, CBoW (Mikolov et al. 2013) and fastText (Bojanowski et al. 2017), trained by negative sampling.

A window is a word and the words around it. Its vectors are read, all their products computed, and then the vectors changed; the
next window sees the change. The compiled kernel (`kernels/sources/word2vec.h`) and `plain_pass` do the same with the same
samples.
"""

from __future__ import annotations

import ctypes
import time
import warnings
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.kernels import kernels
from regard.kernels.interface import LANES, TextStruct, WordTablesStruct
from regard.word_embeddings.store import Matrix, ngram_rows
from regard.word_embeddings.training.corpus import Progress, Report, VectorSettings, Vocabulary, per_second, quiet

Ids = NDArray[np.int32]

LEAST_RATE = 1e-4
"""The final learning rate as a share of the initial one."""

_PART_WORDS = 10_000
_FEWEST_PARTS = 200
"""The fewest parts of a text; the learning rate changes only between parts, so a small text needs small ones."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Word2VecTables:
    """The learned parameters.

    Arguments:
        words: (N, W) float32, the vectors v that predict; for fastText each the mean of the word's own and its n-grams' vectors.
        contexts: (N, W) float32, the vectors v' that are predicted.
        ngrams: (B, W) float32, for fastText the vectors of n-grams; else None.
        trained_words: the number of words trained on over all epochs, without rare words and words dropped by subsampling.
    """

    words: Matrix
    contexts: Matrix
    ngrams: Matrix | None
    trained_words: int


def word2vec_tables(
    sentences: Iterable[Sequence[str]],
    vocabulary: Vocabulary,
    settings: VectorSettings,
    *,
    scratch: Path,
    report: Report = quiet,
) -> tuple[Word2VecTables, dict[str, Any]]:
    """Train skip-gram, CBoW or fastText with negative sampling.

    The objective for each word O and each word I in its window is to maximize (Mikolov et al. 2013b, equation 4)

        log σ(v'_O v_I) + Σ_k log σ(-v'_k v_I)

    over `negative` words k, sampled in proportion to count^`noise_exponent`; a sample that is O itself is left out. In CBoW, v_I
    is the mean of the vectors of the words around O, each of which receives the whole gradient. In fastText, I is the middle
    word, O each word around it, and v_I the mean of the word's own vector and those of its n-grams. In skip-gram the words
    around O share its sampled words, so that each vector is read once in a window. The learning rate falls linearly.

    With one worker the same seed gives the same vectors; several change the same tables without waiting (Recht et al. 2011).

    Arguments:
        sentences: lists of words; they are read once.
        vocabulary: the vocabulary of the text.
        settings: the settings of training.
        scratch: a folder for temporary files.
        report: is called with the progress.

    Returns:
        The learned parameters; and the number of words trained on and the speed.

    Raises:
        InputError: if vectors overflow; and any error of iterating over the sentences or writing.
    """
    began = time.monotonic()
    text, places = encoded(sentences, vocabulary, scratch / "ids", settings)
    sampler = Sampler.of(vocabulary, settings)
    learner = Learner.of(vocabulary, settings)
    total, trained = vocabulary.tokens * settings.epochs, 0

    def train(epoch: int, number: int) -> int:
        place = places[number]
        share = (vocabulary.tokens * epoch + place.before) / total
        rate = settings.learning_rate * max(1 - share * (1 - LEAST_RATE), LEAST_RATE)
        generator = np.random.Generator(np.random.Philox(key=[settings.seed, 0x3012], counter=[0, 0, number, epoch]))
        piece = sampler.sampled(text[place.begin : place.end], generator)
        learner.learn(piece, rate)
        return len(piece.words)

    with ThreadPoolExecutor(settings.workers) as pool:
        for epoch in range(settings.epochs):
            waiting: deque[tuple[Future[int], int]] = deque()
            for number, place in enumerate(places):
                waiting.append((pool.submit(train, epoch, number), place.done))
                last = number + 1 == len(places)
                while waiting and (last or len(waiting) > 2 * settings.workers):
                    future, done = waiting.popleft()
                    trained += future.result()
                    report(Progress(f"epoch {epoch + 1} of {settings.epochs}", done, vocabulary.tokens, "words"))
    tables = learner.tables(trained)
    if not np.isfinite(tables.words).all():
        raise InputError(f"the vectors overflow; lower learning_rate, which is {settings.learning_rate:g}")
    speed = per_second(total, time.monotonic() - began)
    return tables, {"words_per_second": speed, "trained_words": trained}


class Place(NamedTuple):
    """A part of the encoded text, of whole sentences.

    Arguments:
        begin, end: where it begins and ends there.
        before, done: the number of the text's words before it, and up to its end.
    """

    begin: int
    end: int
    before: int
    done: int


def encoded(
    sentences: Iterable[Sequence[str]], vocabulary: Vocabulary, path: Path, settings: VectorSettings
) -> tuple[Ids, list[Place]]:
    """The text in numbers, memory-mapped from a file, and its parts.

    Returns:
        The row of each word that is in the vocabulary, with -1 behind each sentence; and the parts, which are sampled and trained
        on as a whole.
    """
    rows = {word: row for row, word in enumerate(vocabulary.words)}
    least = max(100, min(_PART_WORDS, vocabulary.tokens // _FEWEST_PARTS))
    places: list[Place] = []
    begin = before = seen = 0
    held = array("i")
    with path.open("wb") as file:
        for sentence in sentences:
            held.extend([rows[word] for word in sentence if word in rows])
            held.append(-1)
            seen += len(sentence)
            if seen - before >= least:
                places.append(Place(begin, begin + len(held), before, seen))
                begin, before = begin + len(held), seen
                held.tofile(file)
                held = array("i")
        if held:
            places.append(Place(begin, begin + len(held), before, seen))
            held.tofile(file)
    return np.memmap(path, dtype=np.int32, mode="r"), places


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Piece:
    """A piece of a text as it is trained on once: without the words that subsampling drops, with sampled windows and negatives.

    Arguments:
        words: (n,) int32, the rows of the words.
        begins, ends: (n,) int32, the window of word i: the words from `begins[i]` to before `ends[i]`, without i itself.
        negatives: (n * negative,) int32, the sampled words of each word; for fastText (pairs * negative,), of each word of each
            window.
    """

    words: Ids
    begins: Ids
    ends: Ids
    negatives: Ids


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Sampler:
    """What is sampled: which words are kept, the size of each window, and negatives in constant time (Walker's alias method).

    Arguments:
        kept: (N,) float32, the probability of keeping each word: sqrt(t / f) + t / f.
        limits: (N,) uint64, 2^32 times the probability of a word when its place is sampled, else `aliases` (N,) is.
    """

    kept: NDArray[np.float32]
    limits: NDArray[np.uint64]
    aliases: Ids
    settings: VectorSettings

    @classmethod
    def of(cls, vocabulary: Vocabulary, settings: VectorSettings) -> Sampler:
        """The sampler for the words of a text."""
        counts = vocabulary.counts.astype(np.float64)
        kept = np.ones(len(counts))
        if settings.subsample:
            ratio = settings.subsample / (counts / counts.sum())
            kept = np.sqrt(ratio) + ratio
        limits, aliases = _alias_table(counts**settings.noise_exponent)
        return cls(kept=kept.astype(np.float32), limits=limits, aliases=aliases, settings=settings)

    def sampled(self, ids: Ids, generator: np.random.Generator) -> Piece:
        """A piece of the encoded text with its windows and negatives."""
        ids = ids[(ids < 0) | (generator.random(len(ids), dtype=np.float32) < self.kept[ids])]
        ending = ids < 0
        words = ids[~ending]
        lengths = np.diff(np.flatnonzero(ending), prepend=-1) - 1
        stops = np.repeat(np.cumsum(lengths), lengths).astype(np.int32)
        starts = stops - np.repeat(lengths, lengths).astype(np.int32)
        places = np.arange(len(words), dtype=np.int32)
        reach = generator.integers(1, self.settings.window, len(words), dtype=np.int32, endpoint=True)
        begins, ends = np.maximum(places - reach, starts), np.minimum(places + reach + 1, stops)
        wanted = int((ends - begins - 1).sum()) if self.settings.method == "fasttext" else len(words)
        return Piece(words=words, begins=begins, ends=ends, negatives=self._negatives(wanted, generator))

    def _negatives(self, wanted: int, generator: np.random.Generator) -> Ids:
        numbers = generator.integers(0, 1 << 64, wanted * self.settings.negative, dtype=np.uint64)
        places = (((numbers >> np.uint64(32)) * np.uint64(len(self.aliases))) >> np.uint64(32)).astype(np.int32)
        own = (numbers & np.uint64(0xFFFFFFFF)) < self.limits[places]
        return np.where(own, places, self.aliases[places])


def _alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.uint64], Ids]:
    """Vose's construction: each of N equally probable places holds one or two words, the first up to its limit."""
    shares = weights * (len(weights) / weights.sum())
    aliases = np.arange(len(weights), dtype=np.int32)
    limits = shares.tolist()
    small, large = np.flatnonzero(shares < 1).tolist(), np.flatnonzero(shares >= 1).tolist()
    while small and large:
        less, more = small.pop(), large[-1]
        aliases[less] = more
        limits[more] -= 1 - limits[less]
        if limits[more] < 1:
            small.append(large.pop())
    for left in small + large:  # 1 up to rounding
        limits[left] = 1.0
    return (np.minimum(limits, 1.0) * 2.0**32).astype(np.uint64), aliases


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Learner:
    """The tables, and passes over pieces of the text that change them.

    Arguments:
        inputs: (N, S) float32, for fastText (N + B, S): vectors that predict, in rows filled up with zeros.
        outputs: (N, S) float32: vectors that are predicted.
        parts: for fastText the rows of `inputs` of all words, one after another; else empty.
        part_ends: for fastText (N,), where those of each word end; else empty.
    """

    inputs: Matrix
    outputs: Matrix
    parts: Ids
    part_ends: NDArray[np.int64]
    settings: VectorSettings
    library: ctypes.CDLL | None

    @classmethod
    def of(cls, vocabulary: Vocabulary, settings: VectorSettings) -> Learner:
        """The tables before training: inputs are sampled uniformly from ±1/W, as in gensim; outputs are 0."""
        found = kernels()
        if found.library is None:
            warnings.warn(f"{found.why}: training word embeddings takes many times as long", UserWarning, stacklevel=2)
        fasttext = settings.method == "fasttext"
        words, rows = len(vocabulary), len(vocabulary) + (settings.buckets if fasttext else 0)
        if rows >= 1 << 31:
            raise InputError(f"{words:,} words and {settings.buckets:,} buckets are too many; lower buckets")
        stride = -(-settings.width // LANES) * LANES
        inputs, outputs = _zeros(rows, stride), _zeros(words, stride)
        generator = np.random.Generator(np.random.Philox(key=[settings.seed, 0x1217]))
        for start in range(0, rows, _PART_WORDS):
            part = inputs[start : start + _PART_WORDS, : settings.width]
            part[:] = (generator.random(part.shape, dtype=np.float32) * 2 - 1) / np.float32(settings.width)
        parts, part_ends = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
        if fasttext:
            ngrams, counts = ngram_rows(
                vocabulary.words, settings.buckets, settings.minimum_ngram, settings.maximum_ngram
            )
            own = np.cumsum(counts) - counts
            parts = np.insert(ngrams + words, own, np.arange(words)).astype(np.int32)
            part_ends = np.cumsum(counts + 1)
        return cls(
            inputs=inputs, outputs=outputs, parts=parts, part_ends=part_ends, settings=settings, library=found.library
        )

    def learn(self, piece: Piece, rate: float) -> None:
        """Change the tables by the windows of a piece, one after another."""
        if self.library is None:
            plain_pass(self.inputs, self.outputs, piece, rate, self.settings, self.parts, self.part_ends)
            return
        window, negative, stride = self.settings.window, self.settings.negative, self.inputs.shape[1]
        scratch = np.empty(self.library.regard_word2vec_scratch(stride, window, negative), dtype=np.uint8)
        arrays = (piece.words, piece.begins, piece.ends, piece.negatives, self.parts, self.part_ends)
        text = TextStruct(*(each.ctypes.data for each in arrays), len(piece.words), negative)
        tables = WordTablesStruct(self.inputs.ctypes.data, self.outputs.ctypes.data, stride)
        method = ("skipgram", "cbow", "fasttext").index(self.settings.method)
        self.library.regard_word2vec(tables, text, method, window, rate, scratch.ctypes.data)

    def tables(self, trained_words: int) -> Word2VecTables:
        """The vectors without what rows are filled up with."""
        width, count = self.settings.width, len(self.outputs)
        words, ngrams = self.inputs[:count, :width].copy(), None
        if self.settings.method == "fasttext":
            ngrams = self.inputs[count:, :width].copy()
            starts = np.concatenate(([0], self.part_ends[:-1]))
            for row, (start, end) in enumerate(zip(starts.tolist(), self.part_ends.tolist(), strict=True)):
                words[row] = self.inputs[self.parts[start:end], :width].mean(axis=0)
        return Word2VecTables(
            words=words, contexts=self.outputs[:, :width].copy(), ngrams=ngrams, trained_words=trained_words
        )


def _zeros(rows: int, stride: int) -> Matrix:
    """(rows, stride) float32, which begin where a line of the processor's cache does."""
    held = np.zeros(rows * stride + LANES, dtype=np.float32)
    begin = -held.ctypes.data % 64 // 4
    return held[begin : begin + rows * stride].reshape(rows, stride)


def plain_pass(
    inputs: Matrix,
    outputs: Matrix,
    piece: Piece,
    rate: float,
    settings: VectorSettings,
    parts: Ids,
    part_ends: NDArray[np.int64],
) -> None:
    """What the kernel does, in NumPy: change `inputs` and `outputs` by the windows of a piece; the arguments are `Learner`'s."""
    negatives = piece.negatives.reshape(-1, settings.negative)
    used = 0
    for at, own in enumerate(piece.words.tolist()):
        around = np.delete(piece.words[piece.begins[at] : piece.ends[at]], at - piece.begins[at])
        targets = around.tolist() if settings.method == "fasttext" else [own]
        sampled = negatives[used : used + len(targets)]
        used += len(targets)
        if not len(around):
            continue
        own_parts = slice(part_ends[own - 1] if own else 0, part_ends[own]) if len(part_ends) else None
        sources = around if own_parts is None else parts[own_parts]
        x = inputs[sources]
        if settings.method != "skipgram":
            x = x.mean(axis=0, keepdims=True)
        before = x.copy()
        for target, others in zip(targets, sampled, strict=True):
            rows = np.concatenate(([target], others[others != target]))
            labels = np.arange(len(rows)) == 0
            y = outputs[rows]
            steps = rate * (labels - 1 / (1 + np.exp(-(x @ y.T))))
            np.add.at(outputs, rows, steps.T @ x)
            x = x + steps @ y
        np.add.at(inputs, sources, np.broadcast_to(x - before, inputs[sources].shape))
