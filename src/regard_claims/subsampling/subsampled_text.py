"""Leaving common words out of the training of word vectors: how much less there is to do, and what the vectors are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regard.models.config import check
from regard.word_embeddings.evaluation.similarity import evaluate_similarity, read_similarity
from regard.word_embeddings.training.corpus import Method, Tokenisation, settings_of
from regard.word_embeddings.training.train import train_vectors
from regard_claims.shared import file_of, training_text

WORDS, SIMILARITY, SECONDS = "words trained on", "similarity", "seconds"


@dataclass(frozen=True, kw_only=True, slots=True)
class SubsampledText:
    """Vectors trained with and without the subsampling of common words (Mikolov et al. 2013b, section 2.3).

    Measured are the words that are trained on, over all epochs; Spearman's correlation of cosines with judged pairs, of those
    whose words are in the vocabulary; and the seconds of the training.

    Arguments:
        path: a folder with text for training, `train.txt`, perhaps gzip.
        pairs: a file of judged pairs: its name in that folder, or its path.
        tokenisation: of the text, see `regard.word_embeddings.training.Corpus`.
        method: skipgram, cbow or fasttext.
        subsample: t; 0 leaves nothing out.
        width, window, epochs, minimum_count: of the training; the rest is as published.
    """

    precision: ClassVar[str] = "float32"
    path: str | None = None
    pairs: str = "EN-WS-353-ALL.txt"
    tokenisation: Tokenisation = "whitespace"
    method: Method = "skipgram"
    subsample: float = 0.0
    width: int = 50
    window: int = 5
    epochs: int = 5
    minimum_count: int = 5

    def __post_init__(self) -> None:
        check(self.method != "glove", "experiment.method", self.method, "skipgram, cbow or fasttext", "choose one")

    @property
    def measures(self) -> tuple[str, ...]:
        """Work, worth and time."""
        return WORDS, SIMILARITY, SECONDS

    def run(self, seed: int) -> dict[str, float]:
        """Train, and test.

        Raises:
            InputError: for a folder that lacks a file, or what cannot be read.
        """
        corpus = training_text(self.path, self.tokenisation)
        judged = read_similarity(file_of(self.path, self.pairs))
        settings = settings_of(
            self.method, width=self.width, window=self.window, epochs=self.epochs, seed=seed,
            minimum_count=self.minimum_count, subsample=self.subsample,
        )  # fmt: skip
        vectors = train_vectors(corpus, settings)
        found = evaluate_similarity(vectors, judged, resamples=0)
        facts = vectors.metadata
        return {
            WORDS: facts["trained_words"],
            SIMILARITY: found.spearman,
            SECONDS: facts["seconds"] - facts["seconds_counting_words"],
        }
