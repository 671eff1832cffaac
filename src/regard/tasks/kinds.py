"""The tasks there are: `TASKS` names every one, and a task joins recipes, training and folders by standing in it."""

from __future__ import annotations

from typing import Any

from regard.errors import InputError, nearest
from regard.parts import WithOwn, own_hint
from regard.tasks.bidirectional_language_modelling.kinds import BIDIRECTIONAL_LANGUAGE_MODELLING
from regard.tasks.captioning.kinds import CAPTIONING
from regard.tasks.classification.kinds import CLASSIFICATION, MULTI_LABEL, MULTI_OUTPUT, REGRESSION
from regard.tasks.copying.kinds import COPYING
from regard.tasks.few_shot.kinds import FEW_SHOT
from regard.tasks.language_modelling.kinds import LANGUAGE_MODELLING
from regard.tasks.masked_language_modelling.kinds import MASKED_LANGUAGE_MODELLING
from regard.tasks.multiple_choice.kinds import MULTIPLE_CHOICE
from regard.tasks.picture_classification.kinds import PICTURE_CLASSIFICATION
from regard.tasks.question_answering.kinds import QUESTION_ANSWERING
from regard.tasks.sentence_embedding.kinds import SENTENCE_EMBEDDING
from regard.tasks.span_corruption.kinds import SPAN_CORRUPTION
from regard.tasks.spec import Kind
from regard.tasks.tagging.kinds import TAGGING
from regard.tasks.text_to_text.kinds import TEXT_TO_TEXT
from regard.tasks.translation.kinds import TRANSLATION

TASKS: WithOwn[Kind] = WithOwn(
    "task",
    {
        kind.task.name: kind
        for kind in (
            TRANSLATION,
            LANGUAGE_MODELLING,
            MASKED_LANGUAGE_MODELLING,
            BIDIRECTIONAL_LANGUAGE_MODELLING,
            TEXT_TO_TEXT,
            SPAN_CORRUPTION,
            CLASSIFICATION,
            MULTI_LABEL,
            REGRESSION,
            MULTI_OUTPUT,
            TAGGING,
            QUESTION_ANSWERING,
            MULTIPLE_CHOICE,
            CAPTIONING,
            COPYING,
            FEW_SHOT,
            PICTURE_CLASSIFICATION,
            SENTENCE_EMBEDDING,  # last: it takes any encoder
        )
    },
    lambda part: part.value,
)


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


def kind_of(name: str, where: str = "task") -> Kind:
    """The kind of a task by its name.

    Raises:
        InputError: where there is none of that name, with the nearest.
    """
    if name not in TASKS:
        raise InputError(f"{where} is {name!r}; {nearest(name, list(TASKS))}{own_hint('task')}")
    return TASKS[name]
