"""Whether vectors of words tell how frequent the words are, and whether tests of such vectors rank the methods alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regard.errors import InputError
from regard.models.config import check
from regard.word_embeddings.evaluation.categories import builtin_categories, evaluate_categories
from regard.word_embeddings.evaluation.probes import frequency_probe
from regard.word_embeddings.evaluation.similarity import evaluate_similarity, read_similarity
from regard.word_embeddings.training import settings_of, train_vectors
from regard.word_embeddings.training.corpus import Method, Tokenisation
from regard_claims.shared import check_counts, file_of, training_text

SIMILARITY, PURITY, PROBE = "similarity", "purity", "frequency probe"


@dataclass(frozen=True, kw_only=True, slots=True)
class FrequencyInVectors:
    """Vectors trained on a text, and three tests of them (Schnabel et al. 2015).

    Measured are Spearman's correlation with judged pairs, the purity of clusters of the built-in categories, and the accuracy of
    logistic regression that tells the most frequent words from as many others by their unit vectors. No vector is made of
    subwords, so that all methods are tested on the same words.

    Arguments:
        path: a folder with a file for training (`train.txt`, perhaps gzip).
        pairs: a file of judged pairs: its name in that folder, or its path.
        method: of training; what is not named here is as the method's own program has it.
        width: numbers in a vector.
        minimum_count: words seen less often have no vector.
        largest_count: of GloVe's weighting.
        tokenisation: of the text, see `regard.word_embeddings.training.Corpus`.
        share: of the words that are called frequent.
        epochs: of the training; as the method's own program has it where null.

    Raises:
        InputError: for sizes that are none.
    """

    precision: ClassVar[str] = "float32"
    path: str | None = None
    pairs: str = "EN-WS-353-ALL.txt"
    method: Method = "skipgram"
    width: int = 50
    minimum_count: int = 5
    largest_count: float = 10.0
    tokenisation: Tokenisation = "whitespace"
    share: float = 0.1
    epochs: int | None = None

    def __post_init__(self) -> None:
        check_counts(self, "width")
        check(0 < self.share <= 0.5, "experiment.share", self.share, "above 0 and at most 0.5", "0.1 is a tenth")

    @property
    def measures(self) -> tuple[str, ...]:
        """One for each test."""
        return SIMILARITY, PURITY, PROBE

    def run(self, seed: int) -> dict[str, float]:
        """Train the vectors, and test them.

        Raises:
            InputError: for a folder that lacks a file, files that cannot be read, or a text of too few words for a test.
        """
        if self.path is None:
            raise InputError("experiment.path is missing; name a folder with train.txt and judged pairs")
        judged = read_similarity(file_of(self.path, self.pairs))
        corpus = training_text(self.path, self.tokenisation)
        own = {"largest_count": self.largest_count} if self.method == "glove" else {}
        sizes = {"width": self.width, "minimum_count": self.minimum_count, "epochs": self.epochs}
        trained = train_vectors(corpus, settings_of(self.method, seed=seed, **sizes, **own), name=self.method)
        table = trained.with_matrix(trained.matrix)
        similarity = evaluate_similarity(table, judged, resamples=0)
        purity = evaluate_categories(table, builtin_categories(), seed=seed).purity
        probe = frequency_probe(table, share=self.share, seed=seed).accuracy
        if similarity.used < 2 or purity is None or probe is None:
            raise InputError(f"{self.path}: the text has too few of the words that are asked for; give more text")
        return {SIMILARITY: similarity.spearman, PURITY: purity, PROBE: probe}
