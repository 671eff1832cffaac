"""Training word embeddings on text: `train_vectors` for all methods. Skip-gram, CBoW and fastText are trained by gensim."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.files import scratch_folder, writing_errors
from regard.word_embeddings.store import NgramSubwords, WordVectors
from regard.word_embeddings.training.corpus import (
    Corpus,
    Progress,
    Report,
    VectorSettings,
    Vocabulary,
    count_words,
    per_second,
    quiet,
)
from regard.word_embeddings.training.glove import glove_tables


def train_vectors(
    sentences: Iterable[Sequence[str]],
    settings: VectorSettings | None = None,
    *,
    name: str = "vectors",
    scratch: Path | str | None = None,
    report: Report = quiet,
) -> WordVectors:
    """Train word embeddings on a text.

    Arguments:
        sentences: lists of words. They are read several times, so give a list, or a `Corpus` from `sentences` in this package.
        settings: the method and its settings; None for skip-gram with its published defaults.
        name: the name of the vectors in messages and tables.
        scratch: a folder for data that does not fit in memory; None for the system's temporary folder. Its files are removed.
        report: is called with the progress.

    Returns:
        The word embeddings, the most frequent words first, with counts and, for fastText, n-gram vectors. The `metadata` has
        the settings, the text, seconds, words per second and package versions.

    Raises:
        InputError: if the text cannot be read or is too short, gensim is needed but not installed, or the disk is full.

    >>> text = [["the", "cat", "sat"], ["the", "dog", "sat"]] * 20
    >>> vectors = train_vectors(text, VectorSettings(method="glove", width=4, minimum_count=1))
    >>> vectors.words, vectors.matrix.shape
    (('sat', 'the', 'cat', 'dog'), (4, 4))
    """
    settings = settings if settings is not None else VectorSettings()
    if isinstance(sentences, Iterator):
        raise InputError("the sentences are an iterator, which can be read only once; give a list of sentences")
    with (
        writing_errors(Path(scratch or tempfile.gettempdir())),
        scratch_folder(scratch or tempfile.gettempdir(), "regard-vectors-") as folder,
    ):
        began = time.monotonic()
        kept = sentences
        if isinstance(sentences, Corpus) and sentences.tokenisation == "words":  # tokenising is slow, so do it once
            kept = _Kept(path=folder / "words", sentences=sentences)
        vocabulary = count_words(kept, settings.minimum_count, report=report)
        counted = time.monotonic()
        if settings.method == "glove":
            tables, facts = glove_tables(kept, vocabulary, settings, scratch=folder, report=report)
            vectors: dict[str, Any] = {"matrix": tables.sum if settings.vectors == "sum" else tables.words}
        else:
            vectors, facts = _word2vec(kept, vocabulary, settings, report)
        ended = time.monotonic()
    metadata = {
        "method": settings.method,
        "settings": settings.to_json(),
        "text": (sentences.to_json() if isinstance(sentences, Corpus) else {})
        | {"words": vocabulary.tokens, "sentences": vocabulary.sentences},
        "seconds": round(ended - began, 3),
        "seconds_counting_words": round(counted - began, 3),
        **facts,
        "versions": {package: _version(package) for package in ("regard", "numpy", "torch", "gensim")},
    }
    return WordVectors(words=vocabulary.words, counts=vocabulary.counts, metadata=metadata, name=name, **vectors)


def _word2vec(
    sentences: Iterable[Sequence[str]], vocabulary: Vocabulary, settings: VectorSettings, report: Report
) -> tuple[dict[str, Any], dict[str, Any]]:
    began = time.monotonic()
    trained = train_word2vec(sentences, vocabulary, settings, report=report)
    facts = {
        "words_per_second": per_second(vocabulary.tokens * settings.epochs, time.monotonic() - began),
        "trained_words": trained.trained_words,
    }
    subwords = None
    if settings.method == "fasttext":
        subwords = NgramSubwords(
            table=trained.model.wv.vectors_ngrams, minimum=settings.minimum_ngram, maximum=settings.maximum_ngram
        )
    return {"matrix": trained.model.wv.vectors, "subwords": subwords}, facts


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kept:
    """Sentences that are cached in a file by the first iteration and read from it afterwards."""

    path: Path
    sentences: Iterable[Sequence[str]]

    def __iter__(self) -> Iterator[Sequence[str]]:
        if self.path.exists():
            with self.path.open(encoding="utf-8", newline="\n") as file:
                yield from (line.split() for line in file)
            return
        partial = self.path.with_suffix(".partial")
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            for sentence in self.sentences:
                file.write(" ".join(sentence) + "\n")
                yield sentence
        partial.replace(self.path)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


# Skip-gram, CBoW and fastText with negative sampling, by gensim.

LEAST_RATE = 1e-4
"""The final learning rate as a share of the initial one."""

_BATCH_WORDS = 10_000
_FEWEST_BATCHES = 200
"""The fewest batches per pass; the learning rate changes only between batches, so a small text needs small ones."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A trained gensim model.

    Arguments:
        model: its `wv.vectors` are the word vectors in the order of the vocabulary, its `syn1neg` the context vectors.
        trained_words: the number of words trained on over all epochs, without rare words and words dropped by subsampling.
    """

    model: Any
    trained_words: int


def train_word2vec(
    sentences: Iterable[Sequence[str]], vocabulary: Vocabulary, settings: VectorSettings, *, report: Report = quiet
) -> Trained:
    """Train skip-gram, CBoW or fastText with negative sampling (Mikolov et al. 2013; Bojanowski et al. 2017).

    The objective for each word I and each word O in its window is to maximize

        log σ(v'_O v_I) + Σ_k log σ(-v'_k v_I)

    over `negative` words k, sampled in proportion to count^`noise_exponent`. In CBoW, v_I is the mean of the vectors of the words
    around O, each of which receives the whole gradient. In fastText, v_I is the mean of the word's own vector and those of its
    n-grams.

    Arguments:
        sentences: lists of words; must be iterable several times.
        vocabulary: the vocabulary of the text.
        settings: the settings of training.
        report: is called with the progress.

    Raises:
        InputError: if gensim is not installed, or vectors overflow; and any error of iterating over the sentences.
    """
    try:
        from gensim.models import FastText, Word2Vec
    except ImportError as error:
        raise InputError(
            f"method {settings.method} is trained by gensim; install it with: pip install 'regard[static]' (gensim 4.4 cannot "
            "be built for Python 3.14; use an earlier Python there)"
        ) from error
    given: dict[str, Any] = {
        "vector_size": settings.width,
        "window": settings.window,
        "min_count": 1,  # the vocabulary already has only frequent words
        "epochs": settings.epochs,
        "alpha": settings.learning_rate,
        "min_alpha": settings.learning_rate * LEAST_RATE,
        "seed": settings.seed,
        "workers": settings.workers,
        "negative": settings.negative,
        "sample": settings.subsample,
        "ns_exponent": settings.noise_exponent,
        "sg": int(settings.method != "cbow"),
        "sorted_vocab": 0,  # already sorted
        "batch_words": max(100, min(_BATCH_WORDS, vocabulary.tokens // _FEWEST_BATCHES)),
    }
    if settings.method == "fasttext":
        model: Any = FastText(
            **given, min_n=settings.minimum_ngram, max_n=settings.maximum_ngram, bucket=settings.buckets
        )
    else:
        model = Word2Vec(**given)
    counts = dict(zip(vocabulary.words, vocabulary.counts.tolist(), strict=True))
    model.build_vocab_from_freq(counts, corpus_count=vocabulary.sentences)
    stream = _Stream(sentences, vocabulary.tokens, settings.epochs, report)
    trained, _ = model.train(corpus_iterable=stream, total_words=vocabulary.tokens, epochs=settings.epochs)
    if stream.error is not None:
        raise stream.error
    if not np.isfinite(model.wv.vectors).all():
        raise InputError(f"the vectors overflow; lower learning_rate, which is {settings.learning_rate:g}")
    return Trained(model=model, trained_words=int(trained))


class _Stream:
    """The sentences for each epoch, with progress reports.

    gensim reads them in a thread, and would wait forever if an exception ended that thread. So an exception is stored, and the
    iteration ends.
    """

    def __init__(self, sentences: Iterable[Sequence[str]], tokens: int, epochs: int, report: Report) -> None:
        self.error: Exception | None = None
        self._sentences, self._tokens, self._epochs, self._report = sentences, tokens, epochs, report
        self._epoch = 0

    def __iter__(self) -> Iterator[list[str]]:
        self._epoch += 1
        stage = f"epoch {self._epoch} of {self._epochs}"
        done = reported = 0
        try:
            for sentence in self._sentences if self.error is None else ():
                yield list(sentence)
                done += len(sentence)
                if done - reported >= _BATCH_WORDS or done == self._tokens:
                    reported = done
                    self._report(Progress(stage, done, self._tokens, "words"))
        except Exception as error:
            self.error = error
