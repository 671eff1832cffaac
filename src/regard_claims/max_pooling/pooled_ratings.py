"""Which pooling makes the best sentence vectors of those that are learned from people's ratings of real pairs."""

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
"""How the files of each split are called, as one of the parts between dots."""

TOKENS = 26
"""Of a pair, about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PooledRatings:
    """InferSent on the rated pairs of the STS benchmark (Conneau et al. 2017, tables 3 and 4).

    The cosine of the vectors of two texts is to be their rating. Measured is Pearson's correlation of the cosines with the
    ratings of the validation file. The word embeddings are learned with the rest; the published ones were GloVe's.

    Arguments:
        path: a folder with `sts-train.csv` and `sts-dev.csv`, in the layout of the STS benchmark.
        encoder: a bidirectional LSTM with one of the three poolings; or `words`, the mean of the word embeddings, as wide as the
            others' vectors.
        width: of each direction of the LSTM, and of the word embeddings.
        pairs: of the training file, the first ones; all where null.
        epochs: passes over the pairs.
        batch: pairs in an update, about.
        learning_rate: the peak, which falls to 0 along a cosine.

    Raises:
        InputError: for sizes that are none.
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
        """One, from -1 to 1."""
        return ("correlation",)

    def run(self, seed: int) -> dict[str, float]:
        """Train the encoder, and measure it.

        Raises:
            InputError: for a folder that lacks a file, or files that cannot be read.
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
    """Two texts and their rating, from 0 to 5; read once for all arms."""
    file = split_file(Path(path), PARTS[split], f"rated pairs for {split}", "csv")
    return [(row.text, row.pair or "", float(str(row.label))) for row in read_labelled(file, format="stsb")]
