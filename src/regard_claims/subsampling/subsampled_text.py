"""Subsampling of frequent words in the training of word embeddings: how much work it saves, and how it changes the quality."""

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
    """Word embeddings trained with or without subsampling of frequent words (Mikolov et al. 2013b, section 2.3).

    Measured are:

    - `words trained on`: the number of words trained on, over all epochs;
    - `similarity`: Spearman's correlation of cosines with human ratings, of the pairs whose words are in the vocabulary;
    - `seconds`: the training time, without counting the words.

    Arguments:
        path: a folder with the training text, `train.txt` or `train.txt.gz`.
        pairs: a file of rated word pairs: its name in the folder, or its path.
        tokenisation: how the text is split into words, see `regard.word_embeddings.training.Corpus`.
        method: skipgram, cbow or fasttext.
        subsample: the threshold t; 0 disables subsampling.
        width, window, epochs, minimum_count: training settings; the other settings are the published ones.
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
        """The number of words, the correlation, and the time in seconds."""
        return WORDS, SIMILARITY, SECONDS

    def run(self, seed: int) -> dict[str, float]:
        """Train the vectors, and evaluate them.

        Raises:
            InputError: for a missing or unreadable file.
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
