"""How good a classifier is on pictures it has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from regard.data.labelled_pictures import LabelledPicture, read_labelled_pictures
from regard.data.malformed import MalformedRows
from regard.metrics.classification import ClassScore, classification_scores
from regard.tasks.picture_classification.classifier import PictureClassifierPredictor, accuracy_and_f1
from regard.tasks.picture_classification.data import PictureData
from regard.tasks.picture_classification.examples import Given, listed
from regard.tasks.picture_classification.task import PictureClassificationTask
from regard.tasks.pictures import PictureClassification


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `accuracy`, and `f1`, the mean over classes.
        count: pictures.
        classes: precision, recall and F1 of each class by name.
        predictions: one for each picture.
    """

    metrics: dict[str, float]
    count: int
    classes: dict[str, ClassScore]
    predictions: tuple[PictureClassification, ...] = field(repr=False, default=())


def evaluate_pictures(model: PictureClassifierPredictor, pictures: Given) -> PictureEvaluation:
    """Compare the classes of pictures with those that a model tells.

    Arguments:
        pictures: `LabelledPicture`s, or (picture, class).

    Raises:
        InputError: for an empty list, or a class that is none of the model's.
    """
    examples = listed(pictures, "pictures to evaluate")
    names = model.task.classes
    right = [model.task.number_of(example.label, example.name) for example in examples]
    found = model.classify_batch([example.picture for example in examples])
    predicted = [names.index(each.label) for each in found]
    scores = classification_scores([names[i] for i in right], [names[i] for i in predicted], names)
    return PictureEvaluation(
        metrics=accuracy_and_f1(right, predicted, len(names)),
        count=len(examples),
        classes=scores.classes,
        predictions=tuple(found),
    )


def picture_beside(
    task: PictureClassificationTask, picture: LabelledPicture, said: PictureClassification
) -> dict[str, Any]:
    """The name of a picture, its class and the one that was told."""
    del task
    return {
        "picture": picture.name,
        "label": picture.label,
        "predicted": said.label,
        "probability": said.probability,
        "probabilities": said.probabilities,
    }


def read_pictures(data: PictureData, malformed: MalformedRows) -> Iterator[LabelledPicture]:
    """The pictures that `data` names, with their classes; those of builtin digits that no training sees."""
    del malformed
    part = "test" if data.builtin is not None else data.part
    return iter(read_labelled_pictures(data.place, part, colour=data.colour))
