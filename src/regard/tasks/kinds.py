"""The tasks there are: `TASKS` names every one, and a task joins recipes, training and folders by standing in it."""

from __future__ import annotations

from typing import Any

from regard.errors import InputError, nearest
from regard.parts import WithOwn, own_hint
from regard.tasks.bidirectional_language_modelling.kinds import BIDIRECTIONAL_LANGUAGE_MODELLING
from regard.tasks.captioning.kinds import CAPTIONING
from regard.tasks.classification.kinds import CLASSIFICATION, REGRESSION
from regard.tasks.copying.kinds import COPYING
from regard.tasks.few_shot.kinds import FEW_SHOT
from regard.tasks.kind import Kind
from regard.tasks.language_modelling.kinds import LANGUAGE_MODELLING
from regard.tasks.masked_language_modelling.kinds import MASKED_LANGUAGE_MODELLING
from regard.tasks.multiple_choice.kinds import MULTIPLE_CHOICE
from regard.tasks.picture_classification.kinds import PICTURE_CLASSIFICATION
from regard.tasks.question_answering.kinds import QUESTION_ANSWERING
from regard.tasks.sentence_embedding.kinds import SENTENCE_EMBEDDING
from regard.tasks.span_corruption.kinds import SPAN_CORRUPTION
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
            REGRESSION,
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


def task_for(config: Any, where: str) -> str:
    """The name of the task that a model which another program wrote is for.

    Raises:
        InputError: where it is for none of them.
    """
    for name, kind in TASKS.items():
        if kind.fits(config):
            return name
    raise InputError(f"{where}: a {config.model_type} without a head is for no task by itself; name one to load it for")


def kind_of(name: str, where: str = "task") -> Kind:
    """The kind of a task by its name.

    Raises:
        InputError: where there is none of that name, with the nearest.
    """
    if name not in TASKS:
        raise InputError(f"{where} is {name!r}; {nearest(name, list(TASKS))}{own_hint('task')}")
    return TASKS[name]
