"""What `regard evaluate` would find of a run: any metric of its task, on examples of other data than it learnt from."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from regard.claims.measure import Measure
from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.structure import from_mapping
from regard.tasks.kinds import kind_of
from regard.training.recipe import Recipe


def check_evaluated(measure: Measure, recipe: Recipe, where: str) -> None:
    """Refuse a measure that a recipe's task cannot answer.

    Raises:
        InputError: for a task without such an evaluation or metric, or data that it cannot have.
    """
    kind = kind_of(recipe.task)
    if kind.read is None:
        raise InputError(f"{where}: evaluated is for tasks of examples, and {recipe.task} is none; choose another kind")
    section_of(measure, recipe, where)


def evaluated(measure: Measure, recipe: Recipe, predictor: Any) -> dict[str, float]:
    """The metrics of a predictor on the examples that a measure asks for.

    Raises:
        InputError: for data that cannot be read, or a metric that the task does not have.
    """
    kind, where = kind_of(recipe.task), f"measure {measure.name!r}"
    if kind.read is None:
        raise InputError(f"{where}: evaluated is for tasks of examples, and {recipe.task} is none; choose another kind")
    section = section_of(measure, recipe, where)
    examples = list(itertools.islice(kind.read(section, MalformedRows()), measure.size))
    metrics = dict(kind.evaluate(predictor, examples).metrics)
    if measure.metric not in metrics:
        raise InputError(f"{where}: task {recipe.task} has no metric {measure.metric!r}; it has {', '.join(metrics)}")
    return metrics


def section_of(measure: Measure, recipe: Recipe, where: str) -> Any:
    """The run's data section, changed as the measure says; nothing of it is held out from what is asked for."""
    own = dataclasses.asdict(recipe.data)
    own = {name: value for name, value in own.items() if not name.startswith("validation")}
    return from_mapping(type(recipe.data), {**own, **(measure.data or {})}, f"{where}: data")
