"""Poolings for sentence embeddings that are trained on entailment."""

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
"""The ridge penalty of the linear map of the transfer test, added to the diagonal of X^T X."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PooledEntailment:
    """InferSent on sentence pairs from a small grammar (`Entailment`; Conneau et al. 2017, tables 3 and 4).

    Measured are `accuracy`, on the pairs of the test split; and `transfer`, the accuracy of a linear map on the frozen sentence
    embeddings that predicts whether the subject of a sentence is an animal, a person or a thing, on other sentences than it was
    fitted to. Both are in per cent.

    Arguments:
        encoder: the pooling of a bidirectional LSTM; or `words`, the mean of word embeddings as wide as the LSTM's output.
        width: the width of each direction of the LSTM, and of its word embeddings.
        classifier_width: the width of the hidden layer over the comparison of two embeddings.
        size: the number of training pairs.
        test_size: the number of test pairs.
        transfer_size: the number of sentences that the linear map is fitted to; it is tested on half as many.
        epochs: the number of passes over the pairs.
        batch: the approximate number of pairs in an update.
        learning_rate: the peak learning rate; it decreases to 0 along a cosine.

    Raises:
        InputError: for a size below its minimum.
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
        """The two accuracies, in per cent."""
        return ("accuracy", "transfer")

    def run(self, seed: int) -> dict[str, float]:
        """Train the encoder, and measure it on the test pairs and on the transfer task."""
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
"""The approximate number of tokens in a pair."""


@lru_cache(maxsize=4)
def _pairs(split: str, size: int, seed: int) -> list[tuple[tuple[str, str], str]]:
    """The pairs of a split; cached, because all arms of a seed use the same."""
    return list(Entailment(split, size=size, seed=seed))


def _subjects(size: int, seed: int) -> tuple[list[str], list[int]]:
    """Premises of the validation split, none of which is a premise in training, and the categories of their subjects."""
    pairs = Entailment("validation", size=size, seed=seed)
    premises = [pairs.statements(index)[0] for index in range(size)]
    return [each.text for each in premises], [ROOTS.index(ABOVE[each.subject.noun][-1]) for each in premises]


def _told_linearly(vectors: NDArray[np.float32], labels: NDArray[np.int64], learnt: int) -> float:
    """The accuracy, from 0 to 1, of a ridge regression onto one-hot labels that is fitted to the first `learnt` vectors.

    It is measured on the other vectors.
    """
    x = torch.from_numpy(vectors).double()
    mean, spread = x[:learnt].mean(dim=0), x[:learnt].std(dim=0).clamp_min(1e-9)
    x = torch.cat([(x - mean) / spread, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    y = torch.nn.functional.one_hot(torch.from_numpy(labels)).double()
    gram = x[:learnt].T @ x[:learnt] + RIDGE * torch.eye(x.shape[1], dtype=x.dtype)
    weights = torch.linalg.solve(gram, x[:learnt].T @ y[:learnt])
    told = (x[learnt:] @ weights).argmax(dim=1)
    return float((told == torch.from_numpy(labels)[learnt:]).double().mean())
