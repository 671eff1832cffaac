"""Training word embeddings on text: `train_vectors` for all methods."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import scratch_folder, writing_errors
from regard.word_embeddings.store import NgramSubwords, WordVectors
from regard.word_embeddings.training.corpus import (
    Corpus,
    Report,
    VectorSettings,
    count_words,
    quiet,
)
from regard.word_embeddings.training.glove import glove_tables
from regard.word_embeddings.training.word2vec import word2vec_tables


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
        InputError: if the text cannot be read or is too short, numbers overflow, or the disk is full.

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
            trained, facts = word2vec_tables(kept, vocabulary, settings, scratch=folder, report=report)
            vectors = {"matrix": trained.words}
            if trained.ngrams is not None:
                vectors["subwords"] = NgramSubwords(
                    table=trained.ngrams, minimum=settings.minimum_ngram, maximum=settings.maximum_ngram
                )
        ended = time.monotonic()
    metadata = {
        "method": settings.method,
        "settings": settings.to_json(),
        "text": (sentences.to_json() if isinstance(sentences, Corpus) else {})
        | {"words": vocabulary.tokens, "sentences": vocabulary.sentences},
        "seconds": round(ended - began, 3),
        "seconds_counting_words": round(counted - began, 3),
        **facts,
        "versions": {package: _version(package) for package in ("regard", "numpy", "torch")},
    }
    return WordVectors(words=vocabulary.words, counts=vocabulary.counts, metadata=metadata, name=name, **vectors)


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
