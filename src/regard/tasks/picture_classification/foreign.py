"""Folders of Hugging Face's with a classifier of pictures in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.checkpoints.pictures import PREPROCESSOR, prepared_as
from regard.errors import InputError
from regard.models import ViTConfig
from regard.reading import read_json_object
from regard.tasks.picture_classification.task import PictureClassificationTask
from regard.tasks.pictures import PictureSize


def classifies_pictures(config: Any) -> bool:
    """Whether a model is a classifier of pictures."""
    return isinstance(config, ViTConfig) and config.outputs > 0


def foreign_picture_classifier(folder: Path, config: ViTConfig) -> PictureClassificationTask:
    """The task of a folder that another program wrote: the classes of its config.json, and pictures of the model's size.

    What becomes of a picture before is what preprocessor_config.json says.

    Raises:
        InputError: where it names other classes than the model has, or is for another problem than one class for each picture.
    """
    path = folder / "config.json"
    values = read_json_object(path, "copy the file again")
    named, problem = values.get("id2label"), values.get("problem_type")
    if problem not in (None, "single_label_classification"):
        raise InputError(
            f"{path}.problem_type is {problem!r}; of pictures Regard tells one class each, which is 'single_label_classification'"
        )
    if config.outputs == 1:
        raise InputError(f"{path}: the model has one output; of pictures Regard tells one of two classes or more")
    if named is None:
        classes = tuple(f"LABEL_{number}" for number in range(config.outputs))
    elif not isinstance(named, Mapping) or {str(key) for key in named} != {str(i) for i in range(config.outputs)}:
        raise InputError(f"{path}.id2label does not name the {config.outputs} classes of the model; mend it")
    else:
        classes = tuple(str(named[str(number)]) for number in range(config.outputs))
    if len(set(classes)) != len(classes):  # as in ImageNet's, where two kinds of crane have one name
        classes = tuple(
            name if classes.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(classes)
        )
    beside = folder / PREPROCESSOR
    said = read_json_object(beside, "copy the file again") if beside.exists() else {}
    size = PictureSize(
        height=config.picture_height,
        width=config.picture_width,
        channels=config.picture_channels,
        fit="stretch",
        steps=prepared_as(config, said, str(path)).steps,
    )
    return PictureClassificationTask(size=size, classes=classes)
