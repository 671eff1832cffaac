"""How well the probabilities of a classifier fit how often it is right: pre-trained or not, trained briefly or long."""

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
"""Words of either topic, words of none, and how many labels are wrong."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A decoder that learns to classify from few labels, as it was pre-trained or from weights sampled anew.

    With p the probability of the predicted class, and B_m the texts whose p lies in the m-th of 15 equal parts of [0, 1],
    measured are (Guo et al. 2017, sections 2 and 4.2)

        ECE = sum_m |B_m| / n * | share right in B_m - mean p in B_m |
        overconfidence = mean p - share right
        ECE, rescaled: of softmax(z / T), T the temperature with the least loss on texts that are neither learned nor measured

    besides the accuracy; per cent, but for T. Where no path is given, texts of 8 words have one of two topics, half of their
    words are of it, the labels say which, and one label in ten is wrong, so that no more than 90 % can be right; a language model
    that reads the texts without labels sees which words belong together.

    Arguments:
        path: a file of labelled texts; sampled texts where null. The language model reads those of it that are not in the test.
        pretrained: whether the language model's weights are taken.
        epochs: passes over the labelled texts.
        labels, test_size: labelled texts to learn from, and as many again for the temperature; texts to measure on, at most.
        size: sampled texts without labels.
        pretraining_steps: updates of the language model.
        width: of the decoder, 2 layers of 4 heads.

    Raises:
        InputError: for sizes that are none.
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
        """Per cent, but for the temperature."""
        return ("accuracy", "ECE", "overconfidence", "ECE, rescaled", "temperature")

    def run(self, seed: int) -> dict[str, float]:
        """Fine-tune the decoder, and measure it.

        Raises:
            InputError: for a file without texts enough.
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
        """Texts without labels, and labelled ones to learn from, for the temperature, and to measure on."""
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
    """The `model` section."""
    dropouts = dict.fromkeys(("dropout", "embedding_dropout", "attention_dropout"), 0.1)
    sizes = {"width": width, "heads": 4, "layers": 2, "feedforward_width": 4 * width, "maximum_positions": LONGEST}
    return {"name": "gpt2", **sizes, **dropouts}


@lru_cache(maxsize=1)
def pre_trained(texts: tuple[str, ...], seed: int, steps: int, width: int) -> tempfile.TemporaryDirectory[str]:
    """A folder with a language model of the texts in `run`; trained once for all arms of a seed, gone with the process."""
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
    """The logits, (N, classes) float64, and the numbers of the right classes, (N,)."""
    task = classifier.task
    inputs = joined(task, [text for text, _ in examples], pairs=task.pairs, maximum=classifier.maximum_length)
    probabilities = classifier.probabilities(inputs).double().clamp_min(1e-12)
    return probabilities.log(), torch.tensor([task.classes.index(label) for _, label in examples])


def expected_error(logits: Tensor, right: Tensor) -> float:
    """The expected calibration error, as a share.

    >>> said = torch.tensor([[0.8, 0.2], [0.8, 0.2]], dtype=torch.double)
    >>> expected_error(said.log(), torch.tensor([0, 1]))  # a half is right
    0.3
    """
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    bins = (confidence * BINS).ceil().clamp(1, BINS).long() - 1
    apart = (predicted == right).double() - confidence
    sums = torch.zeros(BINS, dtype=apart.dtype).index_add(0, bins, apart)
    return round(float(sums.abs().sum()) / len(right), 12)


def best_temperature(logits: Tensor, right: Tensor) -> float:
    """T with the least cross-entropy of softmax(z / T), of 200 from 0.1 to 10 at equal distances of their logarithms."""
    candidates = np.geomspace(0.1, 10, 200).tolist()
    return min(candidates, key=lambda each: float(F.cross_entropy(logits / each, right)))


def topical_texts(size: int, seed: int) -> list[Labelled]:
    """Texts with their topic, `one` or `two`, wrong in a tenth of the cases."""
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
