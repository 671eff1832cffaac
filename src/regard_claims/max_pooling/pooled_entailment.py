"""Which pooling makes the best sentence vectors of those that were learnt by telling what follows from what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.synthetic_texts import ABOVE, ROOTS, Entailment
from regard.models.config import check
from regard.tasks.loading import load
from regard_claims.shared import accuracy, check_counts, check_examples, learning, trained

Encoder = Literal["max", "mean", "last", "words"]

RIDGE = 1.0
"""Added to the squared length of every feature where the linear map of the transfer is solved for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PooledEntailment:
    """InferSent on pairs of a small grammar (`Entailment`; Conneau et al. 2017, tables 3 and 4).

    Measured are the accuracy on pairs of the test split, in per cent; and, of the vectors left as they are, how well a linear map
    tells from that of one sentence of what sort its subject is, animals, people or things, in per cent of other sentences.

    Arguments:
        encoder: a bidirectional LSTM with one of the three poolings; or `words`, the mean of the words' vectors, as wide as the
            others' vectors.
        width: of each direction of the LSTM, and of the vectors of words.
        classifier_width: of the hidden layer over the comparison of two vectors.
        size: pairs to learn from.
        test_size: pairs to measure on.
        transfer_size: sentences that the linear map is learnt from; it is measured on half as many.
        epochs: passes over the pairs.
        batch: pairs in an update, about.
        learning_rate: the peak, which falls to 0 along a cosine.

    Raises:
        InputError: for sizes that are none.
    """

    precision: ClassVar[str] = "float32"
    encoder: Encoder = "max"
    width: int = 64
    classifier_width: int = 128
    size: int = 30_000
    test_size: int = 3_000
    transfer_size: int = 2_000
    epochs: int = 8
    batch: int = 64
    learning_rate: float = 2e-3

    def __post_init__(self) -> None:
        check_counts(self, "width", "test_size", "epochs", "batch")
        check_examples(self)
        size = self.transfer_size
        check(size >= 10, "experiment.transfer_size", size, "at least 10", "raise it")

    @property
    def measures(self) -> tuple[str, ...]:
        """Both in per cent."""
        return ("accuracy", "transfer")

    def run(self, seed: int) -> dict[str, float]:
        """Train the encoder, and measure it."""
        recurrent = self.encoder != "words"
        sizes = {
            "embedding_width": self.width if recurrent else 2 * self.width,
            "hidden_width": self.width,
            "layers": 1 if recurrent else 0,
            "pooling": self.encoder if recurrent else "mean",
            "classifier_width": self.classifier_width,
        }
        examples = _pairs("train", self.size, seed)
        with trained(
            "classification",
            {"name": "infersent", **sizes},
            examples,
            seed=seed,
            data={"labels": ["entailment", "neutral", "contradiction"]},
            training=learning(self, self.batch * TOKENS),
        ) as folder:
            classifier = load(folder, task="classification")
            test = _pairs("test", self.test_size, seed)
            told = classifier.classify_batch([texts for texts, _ in test])
            right = accuracy(told, [label for _, label in test])
            encoder = load(folder, task="sentence_embedding")
            sentences, roots = _subjects(self.transfer_size + self.transfer_size // 2, seed)
            found = _told_linearly(encoder.embed(sentences), np.array(roots), self.transfer_size)
        return {"accuracy": right, "transfer": 100 * found}


TOKENS = 18
"""Of a pair, about."""


@lru_cache(maxsize=4)
def _pairs(split: str, size: int, seed: int) -> list[tuple[tuple[str, str], str]]:
    """The same for every arm of a seed, drawn once."""
    return list(Entailment(split, size=size, seed=seed))


def _subjects(size: int, seed: int) -> tuple[list[str], list[int]]:
    """Sentences none of which was learnt from as a first one of its pair, and of what sort their subjects are."""
    pairs = Entailment("validation", size=size, seed=seed)
    premises = [pairs.statements(index)[0] for index in range(size)]
    return [each.text for each in premises], [ROOTS.index(ABOVE[each.subject.noun][-1]) for each in premises]


def _told_linearly(vectors: NDArray[np.float32], labels: NDArray[np.int64], learnt: int) -> float:
    """The share of right answers of a linear map, fitted by least squares with a ridge to the first `learnt` vectors."""
    x = torch.from_numpy(vectors).double()
    mean, spread = x[:learnt].mean(dim=0), x[:learnt].std(dim=0).clamp_min(1e-9)
    x = torch.cat([(x - mean) / spread, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    y = torch.nn.functional.one_hot(torch.from_numpy(labels)).double()
    gram = x[:learnt].T @ x[:learnt] + RIDGE * torch.eye(x.shape[1], dtype=x.dtype)
    weights = torch.linalg.solve(gram, x[:learnt].T @ y[:learnt])
    told = (x[learnt:] @ weights).argmax(dim=1)
    return float((told == torch.from_numpy(labels)[learnt:]).double().mean())
