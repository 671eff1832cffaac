"""The tasks there are: `TASKS` names every one, and a task joins recipes, training and folders by standing in it."""

from __future__ import annotations

from typing import Any

from regard.errors import InputError, nearest
from regard.parts import Imported, WithOwn, own_hint
from regard.tasks.spec import TaskSpec

TASKS: WithOwn[TaskSpec] = WithOwn(
    "task",
    Imported(
        {
            "translation": "regard.tasks.translation:TRANSLATION",
            "language_modelling": "regard.tasks.language_modelling:LANGUAGE_MODELLING",
            "masked_language_modelling": "regard.tasks.masked_language_modelling:MASKED_LANGUAGE_MODELLING",
            "bidirectional_language_modelling": (
                "regard.tasks.bidirectional_language_modelling:BIDIRECTIONAL_LANGUAGE_MODELLING"
            ),
            "text_to_text": "regard.tasks.text_to_text:TEXT_TO_TEXT",
            "span_corruption": "regard.tasks.span_corruption:SPAN_CORRUPTION",
            "classification": "regard.tasks.classification:CLASSIFICATION",
            "multi_label_classification": "regard.tasks.classification:MULTI_LABEL",
            "regression": "regard.tasks.regression:REGRESSION",
            "multi_output_regression": "regard.tasks.regression:MULTI_OUTPUT",
            "tagging": "regard.tasks.tagging:TAGGING",
            "question_answering": "regard.tasks.question_answering:QUESTION_ANSWERING",
            "multiple_choice": "regard.tasks.multiple_choice:MULTIPLE_CHOICE",
            "captioning": "regard.tasks.captioning:CAPTIONING",
            "copying": "regard.tasks.copying:COPYING",
            "few_shot": "regard.tasks.few_shot:FEW_SHOT",
            "picture_classification": "regard.tasks.picture_classification:PICTURE_CLASSIFICATION",
            "sentence_embedding": "regard.tasks.sentence_embedding:SENTENCE_EMBEDDING",  # last: it takes any encoder
        }
    ),
    lambda part: part.value,
)
"""By name: the package's, each imported when it is asked for, and after them those of the user's own (`regard.parts.task`)."""


def task_for(config: Any, where: str, problem: str | None = None) -> str:
    """The name of the task that a model which another program wrote is for.

    Arguments:
        where: what messages call its folder.
        problem: the `problem_type` of its config.json; None where there is none.

    Raises:
        InputError: where it is for none of them.
    """
    unfit = []
    for name, kind in TASKS.items():
        if not kind.fits(config) or (unfit and not kind.problems):
            continue
        if not kind.problems or problem in kind.problems:
            return name
        unfit += [each for each in kind.problems if each is not None]
    if unfit:
        raise InputError(
            f"{where}: config.json has the problem_type {problem!r}, and the model {config.outputs} outputs; "
            f"{nearest(str(problem), sorted(set(unfit)))}, or name a task to load it for"
        )
    raise InputError(f"{where}: a {config.model_type} without a head is for no task by itself; name one to load it for")


def kind_of(name: str, where: str = "task") -> TaskSpec:
    """The kind of a task by its name.

    Raises:
        InputError: where there is none of that name, with the nearest.
    """
    if name not in TASKS:
        raise InputError(f"{where} is {name!r}; {nearest(name, list(TASKS))}{own_hint('task')}")
    return TASKS[name]
