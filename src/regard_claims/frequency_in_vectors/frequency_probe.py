"""Predicting word frequency from word embeddings, and ranking training methods by different evaluations."""

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
    """Word embeddings trained on a text, and three evaluations of them (Schnabel et al. 2015).

    Measured are:

    - `similarity`: Spearman's correlation of cosines with human ratings;
    - `purity`: the purity of clusters of the builtin categories;
    - `frequency probe`: the accuracy of a logistic regression on unit vectors that predicts whether a word is one of the most
      frequent words or one of as many others.

    No vector is composed from subwords, so all methods are evaluated on the same words.

    Arguments:
        path: a folder with the training text, `train.txt` or `train.txt.gz`.
        pairs: a file of rated word pairs: its name in the folder, or its path.
        method: the training method; settings not listed here have the defaults of the method's original program.
        width: the number of dimensions of a vector.
        minimum_count: words with a lower count have no vector.
        largest_count: x_max of GloVe's weighting function; unused by other methods.
        tokenisation: how the text is split into words, see `regard.word_embeddings.training.Corpus`.
        share: the share of the vocabulary that counts as frequent.
        epochs: the number of training epochs. None: the default of the method's original program.

    Raises:
        InputError: for a value out of range.
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
        """One number for each evaluation."""
        return SIMILARITY, PURITY, PROBE

    def run(self, seed: int) -> dict[str, float]:
        """Train the vectors, and evaluate them.

        Raises:
            InputError: for a missing or unreadable file, or a text with too few words for an evaluation.
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
