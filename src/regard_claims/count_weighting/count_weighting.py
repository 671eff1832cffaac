"""The effect of GloVe's weighting function, and of adding a word's two vectors."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import ClassVar

from regard.files import scratch_folder
from regard.word_embeddings.evaluation.analogies import evaluate_analogies, read_analogies
from regard.word_embeddings.evaluation.similarity import evaluate_similarity, read_similarity
from regard.word_embeddings.store import WordVectors
from regard.word_embeddings.training.corpus import Tokenisation, VectorSettings, Weighting, count_words
from regard.word_embeddings.training.glove import glove_tables
from regard_claims.shared import file_of, training_text

SUM, ALONE, ANALOGIES = "similarity", "similarity of w alone", "analogies"


@dataclass(frozen=True, kw_only=True, slots=True)
class CountWeighting:
    """GloVe with one of the weighting functions (Pennington et al. 2014, section 3).

    Measured on the same trained model are:

    - `similarity` and `similarity of w alone`: Spearman's correlation of cosines with human ratings, of the pairs whose words are
      in the vocabulary, with the vectors w + w~ and with w only;
    - `analogies`: the accuracy on analogies with w + w~.

    Arguments:
        path: a folder with the training text, `train.txt` or `train.txt.gz`.
        pairs: a file of rated word pairs: its name in the folder, or its path.
        analogies: an analogy file: its name in the folder, or its path.
        tokenisation: how the text is split into words, see `regard.word_embeddings.training.Corpus`.
        weighting, largest_count: see `VectorSettings`.
        width, window, epochs, minimum_count: training settings.
    """

    precision: ClassVar[str] = "float32"
    path: str | None = None
    pairs: str = "EN-WS-353-ALL.txt"
    analogies: str = "questions-words.txt"
    tokenisation: Tokenisation = "whitespace"
    weighting: Weighting = "power"
    largest_count: float = 10.0
    width: int = 50
    window: int = 10
    epochs: int = 15
    minimum_count: int = 5

    @property
    def measures(self) -> tuple[str, ...]:
        """The correlations with w + w~ and with w only, and the accuracy on analogies with w + w~."""
        return SUM, ALONE, ANALOGIES

    def run(self, seed: int) -> dict[str, float]:
        """Count co-occurrences, train the vectors, and evaluate them.

        Raises:
            InputError: for a missing or unreadable file.
        """
        corpus = training_text(self.path, self.tokenisation)
        judged = read_similarity(file_of(self.path, self.pairs))
        asked = read_analogies(file_of(self.path, self.analogies))
        settings = VectorSettings(
            method="glove", width=self.width, window=self.window, epochs=self.epochs, seed=seed,
            minimum_count=self.minimum_count, weighting=self.weighting, largest_count=self.largest_count,
        )  # fmt: skip
        vocabulary = count_words(corpus, self.minimum_count)
        with scratch_folder(tempfile.gettempdir(), "regard-vectors-") as scratch:
            tables, _ = glove_tables(corpus, vocabulary, settings, scratch=scratch)
        vectors = WordVectors(words=vocabulary.words, matrix=tables.sum)
        alone = vectors.with_matrix(tables.words)
        return {
            SUM: evaluate_similarity(vectors, judged, resamples=0).spearman,
            ALONE: evaluate_similarity(alone, judged, resamples=0).spearman,
            ANALOGIES: evaluate_analogies(vectors, asked, resamples=0).total.accuracy or 0.0,
        }
