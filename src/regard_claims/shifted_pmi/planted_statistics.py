"""Text sampled from known statistics: inner products of its word embeddings against the pointwise mutual information."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from regard.metrics.regression import pearson
from regard.models.config import check, check_sizes
from regard.word_embeddings.training.corpus import Method, count_words, settings_of
from regard.word_embeddings.training.word2vec import word2vec_tables

Table = NDArray[np.float64]

CORRELATION, SLOPE, SHIFT = "correlation", "slope", "shift"

_DRAWN_AT_ONCE = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class PlantedStatistics:
    """Word embeddings trained on text with a known pointwise mutual information (Levy and Goldberg 2014).

    Each sentence has a topic z, and its words are sampled independently from P(w | z). So two positions of a sentence are the
    words w and c with the probability

        P(w, c) = sum over z of P(z) P(w | z) P(c | z),    PMI(w, c) = log P(w, c) / (P(w) P(c)).

    With K negative samples from the unigram distribution, the optimum of skip-gram is v_w v'_c = PMI(w, c) - log K. Measured over
    the pairs with an expected count of at least `frequent` in the training windows are:

    - `correlation`: Pearson's correlation of v_w v'_c with the PMI;
    - `slope`: the slope of the least-squares line of v_w v'_c over the PMI;
    - `shift`: the mean of PMI - v_w v'_c, log K at the optimum.

    Arguments:
        method: skipgram or cbow.
        words: the size of the vocabulary.
        topics: the number of topics.
        spread: the standard deviation of the logarithm of the factor by which a topic changes a word's probability.
        sentences: the number of sentences.
        length: the number of words in a sentence.
        width, window, negative, epochs, learning_rate, noise_exponent: training settings; frequent words are not subsampled.
        frequent: the minimum expected count of a pair.

    Raises:
        InputError: for a size below its minimum, or another method.
    """

    precision: ClassVar[str] = "float32"
    method: Method = "skipgram"
    words: int = 500
    topics: int = 20
    spread: float = 1.0
    sentences: int = 100_000
    length: int = 10
    width: int = 50
    window: int = 5
    negative: int = 5
    epochs: int = 5
    learning_rate: float = 0.025
    noise_exponent: float = 1.0
    frequent: int = 20

    def __post_init__(self) -> None:
        check_sizes(self, "words", "topics", "sentences", "length", "frequent")
        check(self.method in ("skipgram", "cbow"), "experiment.method", self.method, "skipgram or cbow", "choose one")

    @property
    def measures(self) -> tuple[str, ...]:
        """Three numbers, over the same pairs of words."""
        return CORRELATION, SLOPE, SHIFT

    def run(self, seed: int) -> dict[str, float]:
        """Sample the text, train vectors on it, and compare their products with the PMI."""
        generator = np.random.Generator(np.random.Philox(key=[seed, 0x9A11]))
        shares = self.shares(generator)
        text = list(self.text(shares, generator))
        vocabulary = count_words(text)
        settings = settings_of(
            self.method, width=self.width, window=self.window, minimum_count=1, epochs=self.epochs, seed=seed,
            learning_rate=self.learning_rate, negative=self.negative, subsample=0.0, noise_exponent=self.noise_exponent,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as scratch:
            tables, _ = word2vec_tables(text, vocabulary, settings, scratch=Path(scratch))
        order = np.array([int(word) for word in vocabulary.words])
        joint = (shares.T @ shares / self.topics)[np.ix_(order, order)]
        single = shares.mean(axis=0)[order]
        information = np.log(joint / np.outer(single, single))
        # A window's size is sampled from 1 to `window`: positions k apart are a pair with probability (window - k + 1) / window.
        together = sum(
            2 * (self.length - k) * (self.window - k + 1) / self.window
            for k in range(1, min(self.window, self.length - 1) + 1)
        )
        often = joint * self.sentences * together >= self.frequent
        learnt = (tables.words @ tables.contexts.T).astype(np.float64)[often]
        true = information[often]
        slope = float(np.polyfit(true, learnt, 1)[0])
        return {CORRELATION: pearson(true, learnt), SLOPE: slope, SHIFT: float((true - learnt).mean())}

    def shares(self, generator: np.random.Generator) -> Table:
        """P(w | z), (topics, words): Zipf's law times a random factor of the topic. The topics are equally probable."""
        zipf = 1 / np.arange(1, self.words + 1)
        found = zipf * np.exp(self.spread * generator.normal(size=(self.topics, self.words)))
        return found / found.sum(axis=1, keepdims=True)

    def text(self, shares: Table, generator: np.random.Generator) -> Iterator[list[str]]:
        """Sample the sentences; the words are numbers in digits."""
        names = [str(number) for number in range(self.words)]
        ends = shares.cumsum(axis=1)
        for _ in range(math.ceil(self.sentences / _DRAWN_AT_ONCE)):
            topics = generator.integers(self.topics, size=_DRAWN_AT_ONCE)
            drawn = generator.random((_DRAWN_AT_ONCE, self.length))
            for topic, places in zip(topics.tolist(), drawn, strict=True):
                yield [names[min(row, self.words - 1)] for row in np.searchsorted(ends[topic], places).tolist()]
