"""A classifier ready to use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from regard.data.token_store import TokenStore
from regard.metrics.classification import classification_scores, f1
from regard.parts import own_scores
from regard.tasks.classification.inputs import Text, joined
from regard.tasks.classification.task import LABEL, ClassificationTask
from regard.tasks.encoders import EncoderPredictor, Joined

MOST_SHOWN = 20
"""Classes whose figures are told after training."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Classification:
    """What a classifier says of a text.

    Arguments:
        text: what was read; two texts where the model reads pairs.
        label: the most probable class.
        probability: of that class.
        probabilities: of every class, in the model's order.
    """

    text: Text
    label: str
    probability: float
    probabilities: dict[str, float]


class Classifier(EncoderPredictor[ClassificationTask]):
    """A classifier ready to use: texts in, `Classification`s out.

    Arguments:
        model: a `TextEncoder` with one output for each class.
        task: tokenizer and classes.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("accuracy", "f1", "matthews_correlation")
    judged_by_own: ClassVar[bool] = True

    def classify(self, text: Text) -> Classification:
        """The class of one text, or of a pair of texts.

        Raises:
            InputError: for an empty text, or a pair where the model takes one text, or the other way round.
        """
        return self.classify_batch([text])[0]

    def classify_batch(self, texts: Sequence[Text]) -> list[Classification]:
        """The classes of many texts; the answers come in the order of the texts.

        Raises:
            InputError: as `classify`.
        """
        inputs = joined(self.task, texts, pairs=self.task.pairs, maximum=self.maximum_length)
        found: dict[int, Classification] = {}
        for rows, logits in self._batches(inputs):
            made = [self._said(texts[row], numbers) for row, numbers in zip(rows, logits.tolist(), strict=True)]
            self.tell(made)
            found.update(zip(rows, made, strict=True))
        return [found[row] for row in range(len(texts))]

    def probabilities(self, inputs: Sequence[Joined]) -> Tensor:
        """Of every class, (N, classes) float32, for inputs that are tokens already."""
        probabilities = torch.zeros(len(inputs), len(self.task.classes))
        for rows, found in self._batches(inputs):
            probabilities[rows] = found
        return probabilities

    def _batches(self, inputs: Sequence[Joined]) -> list[tuple[list[int], Tensor]]:
        return [
            (rows, encoded.logits.float().softmax(dim=-1).cpu())
            for rows, _, encoded in self.encoded(inputs)
            if encoded.logits is not None
        ]

    def _said(self, text: Text, probabilities: Sequence[float]) -> Classification:
        best = max(range(len(probabilities)), key=probabilities.__getitem__)
        return Classification(
            text=text,
            label=self.task.classes[best],
            probability=probabilities[best],
            probabilities=dict(zip(self.task.classes, probabilities, strict=True)),
        )

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """Accuracy, F1 (of the last of two classes, else the mean over classes) and Matthews' coefficient."""
        inputs = self.stored(data, count)
        predicted = self.probabilities(inputs).argmax(dim=1).tolist()
        return judged(self.task, [int(data.sequence(LABEL, row)[0]) for row in range(len(inputs))], predicted)

    def remarks(self, data: TokenStore) -> list[str]:
        """Precision, recall and F1 of each class, and a warning for classes that are never predicted."""
        inputs = self.stored(data, len(data))
        classes = self.task.classes
        predicted = [classes[number] for number in self.probabilities(inputs).argmax(dim=1).tolist()]
        right = [classes[int(data.sequence(LABEL, row)[0])] for row in range(len(inputs))]
        scores = classification_scores(right, predicted, classes).classes
        named = {name: of for name, of in scores.items() if of.gold}
        shown = sorted(named.items(), key=lambda each: -each[1].gold)[:MOST_SHOWN]
        width = max((len(name) for name, _ in shown), default=0)
        lines = [
            f"  {name:<{width}}  precision {of.precision:.3f}, recall {of.recall:.3f}, F1 {of.f1:.3f} ({of.gold:,} examples)"
            for name, of in shown
        ]
        if len(named) > len(shown):
            lines.append(f"  ... and {len(named) - len(shown)} smaller classes; regard evaluate shows all")
        missed = [name for name, of in named.items() if not of.predicted]
        lines += [
            f"warning: the class {name!r} is never predicted; {named[name].gold:,} of the validation examples are of it; "
            "train longer, give more of it, or set data.class_weights=balanced"
            for name in missed[:5]
        ]
        return ["on the validation data:", *lines]


def judged(task: ClassificationTask, right: Sequence[int], predicted: Sequence[int]) -> dict[str, float]:
    """The metrics of predictions, both as numbers of classes."""
    scores = classification_scores(right, predicted, range(len(task.classes)))
    names = task.classes
    own = own_scores(task.name, [names[each] for each in predicted], [names[each] for each in right])
    return own | {
        "accuracy": scores.accuracy,
        "f1": f1(right, predicted, positive=1) if len(task.classes) == 2 else scores.macro_f1,
        "matthews_correlation": scores.matthews_correlation,
    }
