"""Classifiers and raters that another program wrote, read by us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.reading import read_json_object, spoken_kind
from regard.tasks.classification.regression import MultiOutputTask, RegressionTask
from regard.tasks.classification.task import ClassificationTask, MultiLabelTask
from regard.tasks.encoders import foreign_tokenizer


def tells_of_texts(config: Any) -> bool:
    """Whether a model tells of whole texts by one number or several."""
    return getattr(config, "head", None) == "sequence"


def classifies(config: Any) -> bool:
    """Whether a model tells of whole texts by several numbers."""
    return tells_of_texts(config) and config.outputs > 1


def rates(config: Any) -> bool:
    """Whether a model tells of whole texts by one number."""
    return tells_of_texts(config) and config.outputs == 1


def foreign_classifier(folder: Path, config: Any) -> ClassificationTask:
    """The task of a classifier's folder: its tokenizer, its classes as config.json names them.

    Whether it reads texts or pairs is not told there, so both are taken.

    Raises:
        InputError: where the names are not one for each output, or there is no tokenizer.
    """
    return ClassificationTask(**_read(folder, config), classes=names_of(folder, config.outputs))


def foreign_multi_label(folder: Path, config: Any) -> MultiLabelTask:
    """The same of a folder whose model tells any number of labels; the threshold is 0.5, for the folder says none.

    Raises:
        InputError: as `foreign_classifier`.
    """
    return MultiLabelTask(**_read(folder, config), classes=names_of(folder, config.outputs))


def foreign_rater(folder: Path, config: Any) -> RegressionTask:
    """The task of a folder whose model gives one number; whether it reads texts or pairs is not told there.

    Raises:
        InputError: where there is no tokenizer.
    """
    return RegressionTask(**_read(folder, config))


def foreign_multi_output(folder: Path, config: Any) -> MultiOutputTask:
    """The same of a folder whose model gives several numbers, with the names of its config.json.

    Raises:
        InputError: as `foreign_classifier`.
    """
    names = names_of(folder, config.outputs)
    return MultiOutputTask(**_read(folder, config), names=names, means=(0.0,) * len(names), spreads=(1.0,) * len(names))


def _read(folder: Path, config: Any) -> dict[str, Any]:
    """What all of these tasks are told of a folder."""
    tokenizer = foreign_tokenizer(folder, config)
    return {"tokenizer": tokenizer, "maximum_length": config.maximum_positions, "pairs": None}


def names_of(folder: Path, outputs: int) -> tuple[str, ...]:
    """The names of a model's outputs in a config.json: `id2label`, or LABEL_0 and so on where it names none.

    Raises:
        InputError: where they are not one for each output, or not different.
    """
    path = folder / "config.json"
    named = read_json_object(path, "copy the file again").get("id2label")
    if named is None:
        return tuple(f"LABEL_{number}" for number in range(outputs))
    if not isinstance(named, dict):
        raise InputError(f"{path}.id2label holds {spoken_kind(named)}, not an object of names by number; mend the file")
    try:
        names = tuple(str(named[str(number)]) for number in range(outputs))
    except (KeyError, TypeError):
        raise InputError(
            f"{path}.id2label does not name each of the model's {outputs} outputs; mend the file"
        ) from None
    if len(named) != outputs or len(set(names)) != outputs:
        raise InputError(f"{path}.id2label names {len(named)} classes where the model has {outputs}; mend the file")
    return names
