"""The tasks there are: `TASKS` names every one, and a task joins recipes, training and folders by standing in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from regard.errors import InputError, nearest
from regard.generation import GenerationSettings
from regard.models import Interface
from regard.tasks.language_modelling.data import TextData
from regard.tasks.language_modelling.language_model import LanguageModel
from regard.tasks.language_modelling.preparation import prepare as prepare_texts
from regard.tasks.language_modelling.task import LanguageModellingTask
from regard.tasks.predictor import Predictor
from regard.tasks.prepared import Prepared
from regard.tasks.task import Task
from regard.tasks.tokenizer_settings import TokenizerSettings
from regard.tasks.translation.data import PairTokenizerSettings, TranslationData
from regard.tasks.translation.preparation import prepare as prepare_pairs
from regard.tasks.translation.task import TranslationTask
from regard.tasks.translation.translator import Translator


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """All that recipes, training and folders need to know of one task.

    Arguments:
        task: what holds tokenizers and settings.
        predictor: what a trained model of it becomes.
        interface: what it asks of a model.
        sections: what a recipe says beside model and training, section by section.
        prepare: from those sections, by name, to token ids in a folder; takes `folder`, `seed`, and examples in memory instead of
            files as `given` and `given_validation`.
        filled_in: what the vocabularies decide of a model's config, not the recipe, each with a value that is always allowed.
    """

    task: type[Task]
    predictor: type[Predictor[Any]]
    interface: Interface
    sections: Mapping[str, type]
    prepare: Callable[..., Prepared[Any]]
    filled_in: Mapping[str, int]


TASKS: Mapping[str, Kind] = MappingProxyType(
    {
        TranslationTask.name: Kind(
            task=TranslationTask,
            predictor=Translator,
            interface="encoder_decoder",
            sections={
                "data": TranslationData,
                "tokenizer": PairTokenizerSettings,
                "generation": GenerationSettings,
            },
            prepare=prepare_pairs,
            filled_in={
                "source_vocabulary": 1,
                "target_vocabulary": 1,
                "padding_id": 0,
                "start_id": 0,
                "end_id": 0,
            },
        ),
        LanguageModellingTask.name: Kind(
            task=LanguageModellingTask,
            predictor=LanguageModel,
            interface="language_model",
            sections={"data": TextData, "tokenizer": TokenizerSettings},
            prepare=prepare_texts,
            filled_in={"vocabulary": 1, "padding_id": 0, "end_id": 0},
        ),
    }
)


def kind_of(name: str, where: str = "task") -> Kind:
    """The kind of a task by its name.

    Raises:
        InputError: where there is none of that name, with the nearest.
    """
    if name not in TASKS:
        raise InputError(f"{where} is {name!r}; {nearest(name, list(TASKS))}")
    return TASKS[name]
