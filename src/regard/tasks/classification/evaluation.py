"""How good a classifier, or a model that rates texts, is on examples it has not seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.data.labelled import LabelledText
from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.metrics.classification import ClassScore, classification_scores, multi_label_scores
from regard.metrics.regression import regression_scores
from regard.parts import own_scores
from regard.tasks.classification.classifier import (
    Classification,
    Classifier,
    Labelling,
    MultiLabelClassifier,
    judged,
    judged_labels,
)
from regard.tasks.classification.data import LabelledData, MultiLabelData, MultiOutputData
from regard.tasks.classification.inputs import Text
from regard.tasks.classification.preparation import (
    Given,
    in_memory,
    label_of,
    labels_of,
    rating_of,
    ratings_of,
    reader,
)
from regard.tasks.classification.rater import MultiRater, Rater, Rating, Ratings, judged_numbers
from regard.tasks.classification.regression import MultiOutputTask, RegressionTask
from regard.tasks.classification.task import ClassificationTask, MultiLabelTask


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassificationEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `accuracy`; `f1`, of the positive class, or the mean over classes where there is none; `matthews_correlation`.
        count: examples.
        classes: precision, recall and F1 of each class by name.
        positive: the class that `f1` is of; None where it is the mean.
        threshold: the least probability at which that class was predicted; None where the most probable class was.
        predictions: one for each example.
    """

    metrics: dict[str, float]
    count: int
    classes: dict[str, ClassScore]
    positive: str | None = None
    threshold: float | None = None
    predictions: tuple[Classification, ...] = field(repr=False, default=())


@dataclass(frozen=True, kw_only=True, slots=True)
class RegressionEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `pearson` and `spearman`, in [-1, 1].
        count: examples.
        predictions: one for each example.
    """

    metrics: dict[str, float]
    count: int
    predictions: tuple[Rating, ...] = field(repr=False, default=())


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiLabelEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `micro_f1`, of all labels pooled; `macro_f1`, the mean of the labels' F1; `exact_match`.
        count: examples.
        classes: precision, recall and F1 of each label by name.
        threshold: the least probability at which a label was predicted.
        predictions: one for each example.
    """

    metrics: dict[str, float]
    count: int
    classes: dict[str, ClassScore]
    threshold: float = 0.5
    predictions: tuple[Labelling, ...] = field(repr=False, default=())


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiOutputEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `pearson` and `spearman`, the means over the numbers; then those of each, as `pearson.NAME`.
        count: examples.
        predictions: one for each example.
    """

    metrics: dict[str, float]
    count: int
    predictions: tuple[Ratings, ...] = field(repr=False, default=())


def evaluate_classes(
    model: Classifier, examples: Given, *, positive: str | None = None, threshold: float | None = None
) -> ClassificationEvaluation:
    """Compare the classes of examples with those that a model tells.

    Arguments:
        examples: `LabelledText`s, or (text, label), where text may be a pair.
        positive: the class that F1 is of and the threshold decides on; the task's where None.
        threshold: the least probability at which it is predicted; the task's where None.

    Raises:
        InputError: for an empty list, or a label that is none of the model's; for a class that there is not, or a threshold that
            is not between 0 and 1.
    """
    least = model.task.threshold if threshold is None else threshold
    of = model.task.positive_class(positive, least)
    texts = _listed(examples)
    right = [model.task.number_of(label_of(text), f"{text.file}, line {text.line}") for text in texts]
    predictions = model.classify_batch([_content(text) for text in texts], positive=of, threshold=least)
    predicted = [model.task.classes.index(prediction.label) for prediction in predictions]
    names = model.task.classes
    scores = classification_scores([names[i] for i in right], [names[i] for i in predicted], names)
    return ClassificationEvaluation(
        metrics=judged(model.task, right, predicted, positive=of),
        count=len(texts),
        classes=scores.classes,
        positive=of,
        threshold=least,
        predictions=tuple(predictions),
    )


def evaluate_labels(
    model: MultiLabelClassifier, examples: Given, *, threshold: float | None = None
) -> MultiLabelEvaluation:
    """Compare the labels of examples with those that a model tells.

    Arguments:
        examples: `LabelledText`s, or (text, labels), where text may be a pair, and labels are a list or one text.
        threshold: the least probability of a label that is told; the task's where None.

    Raises:
        InputError: for an empty list, a label that is none of the model's, or a threshold that is not between 0 and 1.
    """
    texts, task = _listed(examples), model.task
    right = [
        [task.number_of(label, f"{text.file}, line {text.line}") for label in labels_of(text, task.separator)]
        for text in texts
    ]
    predictions = model.classify_batch([_content(text) for text in texts], threshold=threshold)
    predicted = [[task.classes.index(label) for label in prediction.labels] for prediction in predictions]
    scores = multi_label_scores(right, predicted, range(len(task.classes)))
    return MultiLabelEvaluation(
        metrics=judged_labels(task, right, predicted),
        count=len(texts),
        classes=dict(zip(task.classes, scores.classes.values(), strict=True)),
        threshold=task.least if threshold is None else threshold,
        predictions=tuple(predictions),
    )


def evaluate_numbers(model: MultiRater, examples: Given) -> MultiOutputEvaluation:
    """Compare the numbers of examples with those that a model gives.

    Arguments:
        examples: `LabelledText`s, or (text, numbers), where text may be a pair.

    Raises:
        InputError: for an empty list, or an example with another number of numbers.
    """
    texts = _listed(examples)
    right = [model.task.numbers_of(ratings_of(text), f"{text.file}, line {text.line}") for text in texts]
    predictions = model.rate_batch([_content(text) for text in texts])
    predicted = [list(prediction.values.values()) for prediction in predictions]
    return MultiOutputEvaluation(
        metrics=judged_numbers(model.task, right, predicted), count=len(texts), predictions=tuple(predictions)
    )


def evaluate_ratings(model: Rater, examples: Given) -> RegressionEvaluation:
    """Compare the numbers of examples with those that a model gives.

    Arguments:
        examples: `LabelledText`s, or (text, number), where text may be a pair.

    Raises:
        InputError: for an empty list, or a label that is no number.
    """
    texts = _listed(examples)
    right = [rating_of(text) for text in texts]
    predictions = model.rate_batch([_content(text) for text in texts])
    values = [prediction.value for prediction in predictions]
    scores = regression_scores(right, values)
    return RegressionEvaluation(
        metrics=own_scores(model.task.name, values, right) | {"pearson": scores.pearson, "spearman": scores.spearman},
        count=len(texts),
        predictions=tuple(predictions),
    )


def read_classes(data: LabelledData, malformed: MalformedRows) -> Iterator[LabelledText]:
    """The examples that `data.train` names, with classes."""
    return _read(data, malformed, number=False)


def read_ratings(data: LabelledData, malformed: MalformedRows) -> Iterator[LabelledText]:
    """The examples that `data.train` names, with numbers."""
    return _read(data, malformed, number=True)


def read_labels(data: MultiLabelData, malformed: MalformedRows) -> Iterator[LabelledText]:
    """The examples that `data.train` names, with any number of labels."""
    return _read(data, malformed, number=False, several=True)


def read_numbers(data: MultiOutputData, malformed: MalformedRows) -> Iterator[LabelledText]:
    """The examples that `data.train` names, with several numbers."""
    return _read(data, malformed, number=True, several=True)


def class_beside(task: ClassificationTask, example: LabelledText, said: Classification) -> dict[str, Any]:
    """An example, its class and the class that was told, by name."""
    del task
    found = {"label": label_of(example), "predicted": said.label, "probability": said.probability}
    return _beside(example, found | {"probabilities": said.probabilities})


def labels_beside(task: MultiLabelTask, example: LabelledText, said: Labelling) -> dict[str, Any]:
    """An example, its labels and those that were told, by name."""
    right = list(labels_of(example, task.separator))
    return _beside(example, {"label": right, "predicted": list(said.labels), "probabilities": said.probabilities})


def number_beside(task: RegressionTask, example: LabelledText, said: Rating) -> dict[str, Any]:
    """An example, its number and the one that was told, by name."""
    del task
    return _beside(example, {"label": rating_of(example), "predicted": said.value})


def numbers_beside(task: MultiOutputTask, example: LabelledText, said: Ratings) -> dict[str, Any]:
    """An example, its numbers and those that were told, by name."""
    right = dict(zip(task.names, ratings_of(example), strict=True))
    return _beside(example, {"label": right, "predicted": said.values})


def _beside(example: LabelledText, found: dict[str, Any]) -> dict[str, Any]:
    """The texts, what was found, and the other columns; one of those with a name that is taken is called `other_NAME`."""
    texts = {"text": example.text} if example.pair is None else {"text": example.text, "pair": example.pair}
    own = texts | found
    return own | {f"other_{name}" if name in own else name: value for name, value in (example.rest or {}).items()}


def _read(
    data: LabelledData, malformed: MalformedRows, *, number: bool, several: bool = False
) -> Iterator[LabelledText]:
    read = reader(data, data.train, number=number, several=several, rest=True)
    if read is None:
        raise InputError("no file of labelled texts is named; name one")
    return iter(read(malformed))


def _listed(examples: Given) -> Sequence[LabelledText]:
    if isinstance(examples, str) or not examples:
        raise InputError("there is nothing to evaluate; give a list with at least one example")
    return in_memory(examples) or []


def _content(text: LabelledText) -> Text:
    return text.text if text.pair is None else (text.text, text.pair)
