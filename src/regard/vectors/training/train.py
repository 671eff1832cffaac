"""From text to word vectors."""

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
from regard.vectors.store import WordVectors
from regard.vectors.subwords import NgramSubwords
from regard.vectors.training.cooccurrence import cooccurrences
from regard.vectors.training.corpus import Corpus
from regard.vectors.training.entries import shuffled
from regard.vectors.training.glove import GloveTables, train_glove
from regard.vectors.training.progress import Report, quiet
from regard.vectors.training.settings import VectorSettings
from regard.vectors.training.vocabulary import Vocabulary, count_words
from regard.vectors.training.word2vec import train_word2vec

MIB = 1 << 20


def train_vectors(
    sentences: Iterable[Sequence[str]],
    settings: VectorSettings | None = None,
    *,
    name: str = "vectors",
    scratch: Path | str | None = None,
    report: Report = quiet,
) -> WordVectors:
    """Vectors of the words of a text, the commonest first.

    Arguments:
        sentences: lists of words, which are gone through several times: a list, or what `sentences` of this package reads.
        settings: skip-gram as published if None.
        name: what messages and tables call the vectors.
        scratch: a folder for what does not stand in memory; the system's own if None. What is written there is removed.
        report: is told how far it is.

    Returns:
        The vectors, with counts, for fastText the parts of words, and as `metadata` the settings, the text, seconds, words per
        second and versions.

    Raises:
        InputError: for text that cannot be read, or has too little in it; where gensim is needed and missing; for a full disk.

    >>> text = [["the", "cat", "sat"], ["the", "dog", "sat"]] * 20
    >>> vectors = train_vectors(text, VectorSettings(method="glove", width=4, minimum_count=1))
    >>> vectors.words, vectors.matrix.shape
    (('sat', 'the', 'cat', 'dog'), (4, 4))
    """
    settings = settings if settings is not None else VectorSettings()
    if isinstance(sentences, Iterator):
        raise InputError("the sentences can be gone through once and are needed several times; give a list of them")
    with (
        writing_errors(Path(scratch or tempfile.gettempdir())),
        scratch_folder(scratch or tempfile.gettempdir(), "regard-vectors-") as folder,
    ):
        began = time.monotonic()
        kept = sentences
        if isinstance(sentences, Corpus) and sentences.tokenisation == "words":  # finding words takes time
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


def glove_tables(
    sentences: Iterable[Sequence[str]],
    vocabulary: Vocabulary,
    settings: VectorSettings,
    *,
    scratch: Path,
    report: Report = quiet,
) -> tuple[GloveTables, dict[str, Any]]:
    """What GloVe learns of a text, and how many counts there were, how fast they were made and learnt, and the cost at the end.

    Arguments:
        vocabulary: of the text.
        scratch: an empty folder.

    Raises:
        InputError: as `train_vectors`.
    """
    began = time.monotonic()
    rows = {word: row for row, word in enumerate(vocabulary.words)}
    memory = settings.memory * MIB
    most, pieces = cooccurrences(sentences, rows, window=settings.window, scratch=scratch, memory=memory, report=report)
    generator = np.random.Generator(np.random.Philox(key=[settings.seed, 0x5EED]))
    entries = shuffled(pieces, len(vocabulary), most=most, scratch=scratch, memory=memory, generator=generator)
    counted = time.monotonic()
    tables = train_glove(entries, len(vocabulary), settings, report=report)
    ended = time.monotonic()
    facts = {
        "counts": len(entries),
        "words_per_second": _speed(vocabulary.tokens, counted - began),
        "counts_per_second": _speed(len(entries) * settings.epochs, ended - counted),
        "cost": tables.costs[-1],
    }
    return tables, facts


def _word2vec(
    sentences: Iterable[Sequence[str]], vocabulary: Vocabulary, settings: VectorSettings, report: Report
) -> tuple[dict[str, Any], dict[str, Any]]:
    began = time.monotonic()
    trained = train_word2vec(sentences, vocabulary, settings, report=report)
    facts = {
        "words_per_second": _speed(vocabulary.tokens * settings.epochs, time.monotonic() - began),
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
    """Sentences that are written down when they are gone through for the first time, and read from there afterwards."""

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


def _speed(count: int, seconds: float) -> float:
    return round(count / max(seconds, 1e-9), 1)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
