"""The calibration of a classifier, pre-trained or not, after short or long training."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.labelled import read_labelled
from regard.errors import InputError
from regard.models.config import check
from regard.tasks.classification import Classifier
from regard.tasks.labelled import joined
from regard.tasks.loading import load
from regard.training.run import train
from regard_claims.shared import SETTINGS, check_counts

Labelled = tuple[str, str]

BINS = 15
TOPICAL, PLAIN, NOISE = 150, 100, 0.1
"""The number of words of each topic, the number of neutral words, and the share of wrong labels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A decoder trained as a classifier on few labels, from pre-trained weights or from random ones.

    With p the probability of the predicted class, and B_m the texts whose p is in the m-th of 15 equal intervals of [0, 1],
    measured are (Guo et al. 2017, sections 2 and 4.2)

        ECE = sum_m |B_m| / n * | accuracy in B_m - mean p in B_m |
        overconfidence = mean p - accuracy
        ECE, rescaled = ECE of softmax(z / T), where the temperature T minimizes the loss on separate held-out texts

    and the accuracy and T. All except T are in per cent.

    Without `path`, texts are sampled: each has 8 words and one of two topics, and half of its words, on average, belong to the
    topic. The label is the topic; one label in ten is wrong, so the expected accuracy is at most 90 %. A language model of the
    unlabelled texts can learn which words occur together.

    Arguments:
        path: a file of labelled texts. None: sampled texts. The language model is trained on the texts outside the test set.
        pretrained: whether to start from the language model's weights.
        epochs: the number of passes over the labelled training texts.
        labels: the number of labelled training texts, and of held-out texts for the temperature.
        test_size: the largest number of test texts.
        size: the number of sampled unlabelled texts.
        pretraining_steps: the number of updates of the language model.
        width: the width of the decoder, which has 2 layers and 4 heads.

    Raises:
        InputError: for a size below its minimum.
    """

    precision: ClassVar[str] = "float32"
    path: str | None = None
    pretrained: bool = True
    epochs: int = 20
    labels: int = 200
    test_size: int = 1_000
    size: int = 6_000
    pretraining_steps: int = 500
    width: int = 48

    def __post_init__(self) -> None:
        check_counts(self, "epochs", "pretraining_steps", "test_size", "width")
        for name in ("labels", "size"):
            check(getattr(self, name) >= 20, f"experiment.{name}", getattr(self, name), "at least 20", "raise it")

    @property
    def measures(self) -> tuple[str, ...]:
        """In per cent, except the temperature."""
        return ("accuracy", "ECE", "overconfidence", "ECE, rescaled", "temperature")

    def run(self, seed: int) -> dict[str, float]:
        """Train the classifier, and measure its calibration.

        Raises:
            InputError: for a file with too few labelled texts.
        """
        texts, learned, held_out, test = self._texts(seed)
        folder = Path(pre_trained(texts, seed, self.pretraining_steps, self.width).name) / "run"
        with tempfile.TemporaryDirectory(prefix="regard-") as place:
            model = {"pretrained": str(folder)} if self.pretrained else decoder(self.width)
            train(
                {
                    "task": "classification",
                    "seed": seed,
                    "model": model,
                    "data": {"maximum_length": LONGEST},
                    "tokenizer": {"path": str(folder)},
                    "training": {
                        **SETTINGS,
                        "epochs": self.epochs,
                        "batch_tokens": 400,
                        "learning_rate": 1e-3,
                        "warmup": 10,
                    },
                },
                output=Path(place) / "run",
                data=learned,
                validation=held_out,
            )
            classifier = load(Path(place) / "run", task="classification")
        logits, right = logits_of(classifier, test)
        temperature = best_temperature(*logits_of(classifier, held_out))
        correct = (logits.argmax(dim=1) == right).double()
        confidence = logits.softmax(dim=1).amax(dim=1)
        found = (
            correct.mean(),
            expected_error(logits, right),
            confidence.mean() - correct.mean(),
            expected_error(logits / temperature, right),
        )
        return dict(zip(self.measures, [*(100 * float(each) for each in found), temperature], strict=True))

    def _texts(self, seed: int) -> tuple[tuple[str, ...], list[Labelled], list[Labelled], list[Labelled]]:
        """Unlabelled texts, and labelled texts for training, for the temperature, and for the test."""
        if self.path is None:
            drawn = topical_texts(self.size + 2 * self.labels + self.test_size, seed)
        else:
            drawn = [(each.text, str(each.label)) for each in read_labelled(self.path) if each.label is not None]
            Random(seed).shuffle(drawn)
        test = drawn[: min(self.test_size, len(drawn) // 4)]
        rest = drawn[len(test) :]
        if len(rest) < 3 * self.labels:
            raise InputError(
                f"{self.path}: has {len(drawn)} labelled texts, which are too few; give at least {4 * self.labels}, or lower "
                "experiment.labels"
            )
        texts = tuple(text for text, _ in rest)
        return texts, rest[: self.labels], rest[self.labels : 2 * self.labels], test


LONGEST = 64


def decoder(width: int) -> dict[str, Any]:
    """The recipe's `model` section."""
    dropouts = dict.fromkeys(("dropout", "embedding_dropout", "attention_dropout"), 0.1)
    sizes = {"width": width, "heads": 4, "layers": 2, "feedforward_width": 4 * width, "maximum_positions": LONGEST}
    return {"name": "gpt2", **sizes, **dropouts}


@lru_cache(maxsize=1)
def pre_trained(texts: tuple[str, ...], seed: int, steps: int, width: int) -> tempfile.TemporaryDirectory[str]:
    """Train a language model on the texts; it is in `run` in the returned temporary folder.

    Cached, because all arms of a seed use the same model. The folder is deleted when the process ends.
    """
    place = tempfile.TemporaryDirectory(prefix="regard-")
    held_out = max(2, len(texts) // 100)
    train(
        {
            "task": "language_modelling",
            "seed": seed,
            "model": decoder(width),
            "data": {"length": LONGEST - 2},
            "tokenizer": {"kind": "word", "size": 4_000},
            "training": {**SETTINGS, "steps": steps, "batch_tokens": 1_000, "learning_rate": 2e-3},
        },
        output=Path(place.name) / "run",
        data=list(texts[:-held_out]),
        validation=list(texts[-held_out:]),
    )
    return place


def logits_of(classifier: Classifier, examples: list[Labelled]) -> tuple[Tensor, Tensor]:
    """The log-probabilities of the classes, (N, classes) float64, and the numbers of the right classes, (N,) int64."""
    task = classifier.task
    inputs = joined(task, [text for text, _ in examples], pairs=task.pairs, maximum=classifier.maximum_length)
    probabilities = classifier.probabilities(inputs).double().clamp_min(1e-12)
    return probabilities.log(), torch.tensor([task.classes.index(label) for _, label in examples])


def expected_error(logits: Tensor, right: Tensor) -> float:
    """The expected calibration error, from 0 to 1.

    Arguments:
        logits: (N, classes) floating point.
        right: the numbers of the right classes, (N,) int64.

    >>> probabilities = torch.tensor([[0.8, 0.2], [0.8, 0.2]], dtype=torch.double)
    >>> expected_error(probabilities.log(), torch.tensor([0, 1]))  # accuracy 0.5, confidence 0.8
    0.3
    """
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    bins = (confidence * BINS).ceil().clamp(1, BINS).long() - 1
    apart = (predicted == right).double() - confidence
    sums = torch.zeros(BINS, dtype=apart.dtype).index_add(0, bins, apart)
    return round(float(sums.abs().sum()) / len(right), 12)


def best_temperature(logits: Tensor, right: Tensor) -> float:
    """The temperature T that minimizes the cross-entropy of softmax(z / T), of 200 logarithmically spaced from 0.1 to 10."""
    candidates = np.geomspace(0.1, 10, 200).tolist()
    return min(candidates, key=lambda each: float(F.cross_entropy(logits / each, right)))


def topical_texts(size: int, seed: int) -> list[Labelled]:
    """Sample texts with their topic as the label, `one` or `two`; a label is wrong with probability 0.1."""
    draw = Random(seed)
    found = []
    for _ in range(size):
        topic = draw.choice(("one", "two"))
        words = [
            f"{topic}{draw.randrange(TOPICAL)}" if draw.random() < 0.5 else f"plain{draw.randrange(PLAIN)}"
            for _ in range(8)
        ]
        wrong = draw.random() < NOISE
        found.append((" ".join(words), {"one": "two", "two": "one"}[topic] if wrong else topic))
    return found
