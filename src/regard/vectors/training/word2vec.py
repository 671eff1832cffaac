"""Skip-gram, CBoW and fastText with negative sampling, trained by gensim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.vectors.training.progress import Progress, Report, quiet
from regard.vectors.training.settings import VectorSettings
from regard.vectors.training.vocabulary import Vocabulary

LEAST_RATE = 1e-4
"""Of the learning rate, where it ends."""

_BATCH_WORDS = 10_000
_FEWEST_BATCHES = 200
"""Between two the learning rate falls: a small text is cut into so many in each pass."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A model of gensim's, and what its training saw.

    Arguments:
        model: `wv.vectors` are the word vectors in the order of the vocabulary, `syn1neg` those of the contexts.
        trained_words: words that were left when rare ones and those that subsampling dropped were out, over all epochs.
    """

    model: Any
    trained_words: int


def train_word2vec(
    sentences: Iterable[Sequence[str]], vocabulary: Vocabulary, settings: VectorSettings, *, report: Report = quiet
) -> Trained:
    """Skip-gram with negative sampling, CBoW, or skip-gram over the parts of words (Mikolov et al. 2013; Bojanowski et al. 2017).

    Maximised for each word I and each word O near it is log σ(v'_O v_I) + Σ_k log σ(-v'_k v_I) over `negative` words k drawn by
    their counts to the power of `noise_exponent`. In CBoW v_I is the mean of the vectors near O, each of which gets the whole
    error. In fastText it is the mean of the word's own row and those of its parts.

    Arguments:
        sentences: can be gone through several times.

    Raises:
        InputError: where gensim is not installed, and whatever going through the sentences raises.
    """
    try:
        from gensim.models import FastText, Word2Vec
    except ImportError as error:
        raise InputError(
            f"method {settings.method} is trained by gensim; install it with: pip install 'regard[static]'"
        ) from error
    given: dict[str, Any] = {
        "vector_size": settings.width,
        "window": settings.window,
        "min_count": 1,  # the vocabulary has no others
        "epochs": settings.epochs,
        "alpha": settings.learning_rate,
        "min_alpha": settings.learning_rate * LEAST_RATE,
        "seed": settings.seed,
        "workers": settings.workers,
        "negative": settings.negative,
        "sample": settings.subsample,
        "ns_exponent": settings.noise_exponent,
        "sg": int(settings.method != "cbow"),
        "sorted_vocab": 0,  # it is sorted
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
    """The sentences once more for every epoch, with reports.

    gensim reads them in a thread, and would wait for ever if that ended by an error: so the error is kept, and the text ends.
    """

    def __init__(self, sentences: Iterable[Sequence[str]], tokens: int, epochs: int, report: Report) -> None:
        self.error: Exception | None = None
        self._sentences, self._tokens, self._epochs, self._report = sentences, tokens, epochs, report
        self._epoch = 0

    def __iter__(self) -> Iterator[list[str]]:
        self._epoch += 1
        stage = f"epoch {self._epoch} of {self._epochs}"
        done = told = 0
        try:
            for sentence in self._sentences if self.error is None else ():
                yield list(sentence)
                done += len(sentence)
                if done - told >= _BATCH_WORDS or done == self._tokens:
                    told = done
                    self._report(Progress(stage, done, self._tokens, "words"))
        except Exception as error:
            self.error = error
