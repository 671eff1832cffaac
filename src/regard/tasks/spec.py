"""`TaskSpec`: what a task is to recipes, training, folders and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.malformed import MalformedRows
from regard.layers import HeadKind
from regard.models import Interface
from regard.parts import own_metrics
from regard.tasks.examples import Examples
from regard.tasks.predictor import Predictor
from regard.tasks.preparation import Prepared
from regard.tasks.task import Task


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskSpec:
    """All that recipes, training, folders and commands need to know of one task.

    It stands at the end of the task's own file, and `regard.tasks.registry` names it there.

    Arguments:
        task: what holds tokenizers and settings.
        predictor: what a trained model of it becomes.
        interface: what it asks of a model; whatever serves it will do.
        sections: what a recipe says beside model and training, section by section.
        prepare: from those sections, by name, to token ids in a folder; takes `folder`, `seed`, and examples in memory instead of
            files as `given` and `given_validation`.
        evaluate: measures a predictor on examples; what it returns has `metrics`, `count` and, for tasks of encoders,
            `predictions`.
        filled_in: what the task decides of a model's config, not the recipe, each with a value that is always allowed.
        decided_of_some: what it decides likewise of those models that have such a setting, by name.
        examples: where its examples come from: rows in memory, or the files of its `data` section.
        read: the examples that `train` names in a `data` section, to be evaluated: those of `examples`, unless a task reads them
            otherwise. Where there is neither, the command line has its own way.
        beside: of the task, one of those examples and what was predicted of it: what was read, the right answer and the predicted
            one, by name; the prediction's own fields where None.
        fits: whether a model is one for this task, by its config; asked of folders that another program wrote.
        problems: what `problem_type` has to be in such a folder's config.json, None where it is absent; () for whatever it is.
        foreign: the task in such a folder, by the folder and the model's config; None where no other program writes any.
    """

    task: type[Task]
    predictor: type[Predictor[Any]]
    interface: Interface
    sections: Mapping[str, type]
    prepare: Callable[..., Prepared[Any]]
    evaluate: Callable[..., Any]
    filled_in: Mapping[str, Any]
    decided_of_some: tuple[str, ...] = ()
    examples: Examples[Any] | None = None
    read: Callable[[Any, MalformedRows], Iterator[Any]] | None = None
    beside: Callable[[Any, Any, Any], dict[str, Any]] | None = None
    fits: Callable[[Any], bool] = lambda config: False
    problems: tuple[str | None, ...] = ()
    foreign: Callable[[Path, Any], Task] | None = None

    def __post_init__(self) -> None:
        if self.read is None and self.examples is not None:
            object.__setattr__(self, "read", self.examples.named)

    @property
    def judged(self) -> tuple[str, ...]:
        """The metrics of a model's own answers: the predictor's, and those of the user's own for the task."""
        own = own_metrics(self.task.name) if self.predictor.judged_by_own else ()
        return (*self.predictor.judged, *own)


OF_VECTOR_READERS = ("texts", "boundary_ids")
"""What a task of whole texts decides of models that make a vector of each text: of how many the head is told, and what parts
sentences."""


def decided_of_encoder(head: HeadKind, outputs: int) -> dict[str, Any]:
    """What every task of an encoder decides of its config: `filled_in` of a head with so many outputs."""
    return {"vocabulary": 1, "padding_id": 0, "head": head, "outputs": outputs}
