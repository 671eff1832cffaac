"""A classifier ready to use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.metrics.classification import (
    OF_EACH_CLASS,
    ClassScore,
    by_class,
    classification_scores,
    multi_label_scores,
)
from regard.parts import own_scores
from regard.rendering import class_text
from regard.tasks.classification.inputs import Text, joined
from regard.tasks.classification.task import LABEL, ClassificationTask, MultiLabelTask, stored_labels
from regard.tasks.encoders import EncoderPredictor, Joined

MOST_SHOWN = 20
"""The most classes whose figures each evaluation tells; of more the largest are told after training."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Classification:
    """What a classifier says of a text.

    Arguments:
        text: what was read; two texts where the model reads pairs.
        label: the most probable class; where there is a threshold, the positive class from it on, else the best of the others.
        probability: of that class.
        probabilities: of every class, in the model's order.
    """

    text: Text
    label: str
    probability: float
    probabilities: dict[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Labelling:
    """What a model says of a text that may have any number of labels.

    Arguments:
        text: what was read; two texts where the model reads pairs.
        labels: those whose probability is the threshold at least, in the model's order; perhaps none.
        probabilities: of every label, each by itself, in the model's order.
    """

    text: Text
    labels: tuple[str, ...]
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
    judged_of_each: ClassVar[tuple[str, ...]] = OF_EACH_CLASS
    judged_by_own: ClassVar[bool] = True

    def classify(self, text: Text, *, positive: str | None = None, threshold: float | None = None) -> Classification:
        """The class of one text, or of a pair of texts.

        Arguments:
            positive: the class that the threshold decides on; the task's where None, which is the last of two unless it was
                trained with another.
            threshold: the least probability at which the positive class is predicted, else the most probable other class; the
                task's where None, and the most probable class is predicted where that has none.

        Raises:
            InputError: for an empty text, or a pair where the model takes one text, or the other way round; for a class there is
                not, or a threshold that is not between 0 and 1.
        """
        return self.classify_batch([text], positive=positive, threshold=threshold)[0]

    def classify_batch(
        self, texts: Sequence[Text], *, positive: str | None = None, threshold: float | None = None
    ) -> list[Classification]:
        """The classes of many texts; the answers come in the order of the texts.

        Raises:
            InputError: as `classify`.
        """
        least = self.task.threshold if threshold is None else threshold
        decided = self.task.positive_class(positive, least)
        inputs = joined(self.task, texts, pairs=self.task.pairs, maximum=self.maximum_length)
        found: dict[int, Classification] = {}
        for rows, logits in self._batches(inputs):
            made = [
                self._said(texts[row], numbers, decided, least)
                for row, numbers in zip(rows, logits.tolist(), strict=True)
            ]
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

    def _said(
        self, text: Text, probabilities: Sequence[float], positive: str | None, threshold: float | None
    ) -> Classification:
        best = self.task.told(probabilities, positive, threshold)
        return Classification(
            text=text,
            label=self.task.classes[best],
            probability=probabilities[best],
            probabilities=dict(zip(self.task.classes, probabilities, strict=True)),
        )

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """Accuracy, F1 (of the positive class, else the mean over classes), Matthews' coefficient, and figures of each class."""
        inputs = self.stored(data, count)
        right = [int(data.sequence(LABEL, row)[0]) for row in range(len(inputs))]
        return judged(self.task, right, self._predicted(inputs), each=True)

    def _predicted(self, inputs: Sequence[Joined]) -> list[int]:
        """The numbers of the classes that are told of inputs that are tokens already."""
        task = self.task
        positive = task.positive_class()
        return [task.told(row, positive, task.threshold) for row in self.probabilities(inputs).tolist()]

    def remarks(self, data: TokenStore) -> list[str]:
        """A warning for classes that are never predicted; of many classes the figures of the largest."""
        inputs = self.stored(data, len(data))
        classes = self.task.classes
        predicted = [classes[number] for number in self._predicted(inputs)]
        right = [classes[int(data.sequence(LABEL, row)[0])] for row in range(len(inputs))]
        return _remarks(classification_scores(right, predicted, classes).classes, "class")


class MultiLabelClassifier(EncoderPredictor[MultiLabelTask]):
    """A model that tells any number of labels of a text, ready to use: texts in, `Labelling`s out.

    Arguments:
        model: a `TextEncoder` with one output for each label.
        task: tokenizer, labels and threshold.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("micro_f1", "macro_f1", "exact_match")
    judged_of_each: ClassVar[tuple[str, ...]] = OF_EACH_CLASS
    judged_by_own: ClassVar[bool] = True

    def classify(self, text: Text, *, threshold: float | None = None) -> Labelling:
        """The labels of one text, or of a pair of texts.

        Arguments:
            threshold: the least probability of a label that is told; the task's where None.

        Raises:
            InputError: for an empty text, or a pair where the model takes one text, or the other way round; and for a threshold
                that is not between 0 and 1.
        """
        return self.classify_batch([text], threshold=threshold)[0]

    def classify_batch(self, texts: Sequence[Text], *, threshold: float | None = None) -> list[Labelling]:
        """The labels of many texts; the answers come in the order of the texts.

        Raises:
            InputError: as `classify`.
        """
        if threshold is not None and not 0 < threshold < 1:
            raise InputError(f"threshold is {threshold}; it must be above 0 and below 1, 0.5 is usual")
        inputs = joined(self.task, texts, pairs=self.task.pairs, maximum=self.maximum_length)
        names = self.task.classes
        made = []
        for text, row in zip(texts, self.probabilities(inputs).tolist(), strict=True):
            told = tuple(names[number] for number in self._told(row, threshold))
            made.append(Labelling(text=text, labels=told, probabilities=dict(zip(names, row, strict=True))))
        self.tell(made)
        return made

    def probabilities(self, inputs: Sequence[Joined]) -> Tensor:
        """Of every label by itself, (N, labels) float32, for inputs that are tokens already."""
        probabilities = torch.zeros(len(inputs), len(self.task.classes))
        for rows, _, encoded in self.encoded(inputs):
            if encoded.logits is not None:
                probabilities[rows] = encoded.logits.float().sigmoid().cpu()
        return probabilities

    def _told(self, probabilities: Sequence[float], threshold: float | None = None) -> list[int]:
        """The numbers of the labels that are told."""
        least = self.task.least if threshold is None else threshold
        return [number for number, probability in enumerate(probabilities) if probability >= least]

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """F1 of all labels pooled, the mean of the labels' F1, how often all labels are right, and figures of each label."""
        inputs = self.stored(data, count)
        predicted = [self._told(row) for row in self.probabilities(inputs).tolist()]
        return judged_labels(self.task, [stored_labels(data, row) for row in range(len(inputs))], predicted, each=True)

    def remarks(self, data: TokenStore) -> list[str]:
        """A warning for labels that are never predicted; of many labels the figures of the largest."""
        inputs = self.stored(data, len(data))
        predicted = [self._told(row) for row in self.probabilities(inputs).tolist()]
        right = [stored_labels(data, row) for row in range(len(inputs))]
        scores = multi_label_scores(right, predicted, range(len(self.task.classes))).classes
        return _remarks(dict(zip(self.task.classes, scores.values(), strict=True)), "label")


def _remarks(scores: Mapping[str, ClassScore], what: str) -> list[str]:
    """A warning for classes that are never predicted; of many classes, which the run does not show, figures of the largest."""
    named = {name: of for name, of in scores.items() if of.gold}
    lines: list[str] = []
    if len(scores) > MOST_SHOWN:
        shown = sorted(named.items(), key=lambda each: -each[1].gold)[:MOST_SHOWN]
        width = max((len(name) for name, _ in shown), default=0)
        lines += ["on the validation data:"]
        lines += [f"  {name:<{width}}  {class_text(of.precision, of.recall, of.f1, of.gold)}" for name, of in shown]
        if len(named) > len(shown):
            smaller = f"{what}es" if what == "class" else f"{what}s"
            lines.append(f"  ... and {len(named) - len(shown)} smaller {smaller}; regard evaluate shows all")
    missed = [name for name, of in named.items() if not of.predicted]
    lines += [
        f"warning: the {what} {name!r} is never predicted; {named[name].gold:,} of the validation examples are of it; "
        "train longer, give more of it, or set data.class_weights=balanced"
        for name in missed[:5]
    ]
    return lines


def judged_labels(
    task: MultiLabelTask, right: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]], *, each: bool = False
) -> dict[str, float]:
    """The metrics of predicted labels, both as numbers.

    Arguments:
        each: whether those of each label are among them.
    """
    scores = multi_label_scores(right, predicted, range(len(task.classes)))
    said, gold = ([tuple(task.classes[each] for each in row) for row in rows] for rows in (predicted, right))
    found = own_scores(task.name, said, gold) | {
        "micro_f1": scores.micro_f1,
        "macro_f1": scores.macro_f1,
        "exact_match": scores.exact_match,
    }
    return found | (by_class(dict(zip(task.classes, scores.classes.values(), strict=True))) if each else {})


def judged(
    task: ClassificationTask,
    right: Sequence[int],
    predicted: Sequence[int],
    *,
    positive: str | None = None,
    each: bool = False,
) -> dict[str, float]:
    """The metrics of predictions, both as numbers of classes.

    Arguments:
        positive: the class that F1 is of; the task's where None.
        each: whether those of each class are among them.
    """
    names = task.classes
    gold, said = ([names[number] for number in numbers] for numbers in (right, predicted))
    scores = classification_scores(gold, said, names)
    of = task.positive_class(positive)
    found = own_scores(task.name, said, gold) | {
        "accuracy": scores.accuracy,
        "f1": scores.macro_f1 if of is None else scores.classes[of].f1,
        "matthews_correlation": scores.matthews_correlation,
    }
    return found | (by_class(scores.classes) if each else {})
