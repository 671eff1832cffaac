"""Poolings for sentence embeddings that are trained on human similarity ratings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from regard.data.labelled import read_labelled
from regard.embeddings.pooling import unit
from regard.errors import InputError
from regard.metrics.regression import pearson
from regard.tasks.loading import load
from regard_claims.max_pooling.pooled_entailment import Encoder
from regard_claims.shared import check_counts, learning, split_file, trained

PARTS = {"train": ("sts-train", "train"), "validation": ("sts-dev", "dev", "validation")}
"""The names of each split, one of which is between the dots of its file's name."""

TOKENS = 26
"""The approximate number of tokens in a pair."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PooledRatings:
    """InferSent on the rated pairs of the STS benchmark (Conneau et al. 2017, tables 3 and 4).

    The encoder is trained so that the cosine of two texts' embeddings is their rating. Measured is Pearson's correlation of the
    cosines with the ratings of the validation file. The word embeddings are trained from random values; the paper's are GloVe's.

    Arguments:
        path: a folder with `sts-train.csv` and `sts-dev.csv`, in the format of the STS benchmark.
        encoder: the pooling of a bidirectional LSTM; or `words`, the mean of word embeddings as wide as the LSTM's output.
        width: the width of each direction of the LSTM, and of its word embeddings.
        pairs: the number of training pairs, from the file's beginning. None: all.
        epochs: the number of passes over the pairs.
        batch: the approximate number of pairs in an update.
        learning_rate: the peak learning rate; it decreases to 0 along a cosine.

    Raises:
        InputError: for a size below its minimum.
    """

    precision: ClassVar[str] = "float32"
    path: str | None = None
    encoder: Encoder = "max"
    width: int = 64
    pairs: int | None = None
    epochs: int = 6
    batch: int = 32
    learning_rate: float = 2e-3

    def __post_init__(self) -> None:
        check_counts(self, "width", "epochs", "batch")

    @property
    def measures(self) -> tuple[str, ...]:
        """The correlation, from -1 to 1."""
        return ("correlation",)

    def run(self, seed: int) -> dict[str, float]:
        """Train the encoder, and measure it on the validation file.

        Raises:
            InputError: for a missing or unreadable file.
        """
        if self.path is None:
            raise InputError("experiment.path is missing; name a folder with sts-train.csv and sts-dev.csv")
        recurrent = self.encoder != "words"
        sizes = {
            "embedding_width": self.width if recurrent else 2 * self.width,
            "hidden_width": self.width,
            "layers": 1 if recurrent else 0,
            "pooling": self.encoder if recurrent else "mean",
        }
        with trained(
            "sentence_embedding",
            {"name": "infersent", **sizes},
            _rated(self.path, "train")[: self.pairs],
            seed=seed,
            data={"objective": "cosine", "format": "stsb", "lowest": 0.0, "highest": 5.0},
            tokenizer={"kind": "bert", "size": 4_000},
            training=learning(self, self.batch * TOKENS),
        ) as folder:
            encoder = load(folder, task="sentence_embedding")
            held_out = _rated(self.path, "validation")
            first = unit(encoder.embed([one for one, _, _ in held_out]))
            second = unit(encoder.embed([other for _, other, _ in held_out]))
        return {"correlation": pearson([rating for _, _, rating in held_out], (first * second).sum(axis=1).tolist())}


@lru_cache(maxsize=4)
def _rated(path: str, split: str) -> list[tuple[str, str, float]]:
    """Pairs of texts and their ratings, from 0 to 5; cached, because all arms use the same."""
    file = split_file(Path(path), PARTS[split], f"rated pairs for {split}", "csv")
    return [(row.text, row.pair or "", float(str(row.label))) for row in read_labelled(file, format="stsb")]
