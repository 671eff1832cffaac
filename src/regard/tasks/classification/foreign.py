"""Classifiers and raters that another program wrote, read by us."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.tasks.classification.regression import RegressionTask
from regard.tasks.classification.task import ClassificationTask
from regard.tasks.encoders.open_folder import foreign_tokenizer


def classifies(config: Any) -> bool:
    """Whether a model tells of whole texts by several numbers."""
    return getattr(config, "head", None) == "sequence" and config.outputs > 1


def rates(config: Any) -> bool:
    """Whether a model tells of whole texts by one number."""
    return getattr(config, "head", None) == "sequence" and config.outputs == 1


def foreign_classifier(folder: Path, config: Any) -> ClassificationTask:
    """The task of a classifier's folder: its tokenizer, its classes as config.json names them.

    Whether it reads texts or pairs is not told there, so both are taken.

    Raises:
        InputError: where the names are not one for each output, or there is no tokenizer.
    """
    return ClassificationTask(
        tokenizer=foreign_tokenizer(folder, config),
        maximum_length=config.maximum_positions,
        classes=names_of(folder, config.outputs),
        pairs=None,
    )


def foreign_rater(folder: Path, config: Any) -> RegressionTask:
    """The task of a folder whose model gives one number; whether it reads texts or pairs is not told there.

    Raises:
        InputError: where there is no tokenizer.
    """
    return RegressionTask(
        tokenizer=foreign_tokenizer(folder, config), maximum_length=config.maximum_positions, pairs=None
    )


def names_of(folder: Path, outputs: int) -> tuple[str, ...]:
    """The names of a model's outputs in a config.json: `id2label`, or LABEL_0 and so on where it names none.

    Raises:
        InputError: where they are not one for each output, or not different.
    """
    path = folder / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    named: Mapping[str, Any] | None = values.get("id2label")
    if named is None:
        return tuple(f"LABEL_{number}" for number in range(outputs))
    try:
        names = tuple(str(named[str(number)]) for number in range(outputs))
    except (KeyError, TypeError):
        raise InputError(
            f"{path}.id2label does not name each of the model's {outputs} outputs; mend the file"
        ) from None
    if len(named) != outputs or len(set(names)) != outputs:
        raise InputError(f"{path}.id2label names {len(named)} classes where the model has {outputs}; mend the file")
    return names
