"""`TaskSpec`: what a task is to recipes, training, folders and the command line; and `TASKS`, which names every task.

A task is imported when it is asked for by its name. To find the task of a model that another program wrote, none is imported:
`MODELS_OF` says of each task which models are for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.errors import InputError, nearest
from regard.models import MODELS
from regard.parts import Imported, WithOwn, own_hint, own_metrics
from regard.structure import renamed

if TYPE_CHECKING:
    from regard.data.malformed import MalformedRows
    from regard.layers import HeadKind
    from regard.models import Interface
    from regard.tasks.examples import Examples
    from regard.tasks.predictor import Predictor
    from regard.tasks.preparation import Prepared
    from regard.tasks.task import Task


@renamed(filled_in="derived_config", decided_of_some="derived_if_present", beside="record", foreign="from_hf")
@dataclass(frozen=True, kw_only=True, slots=True)
class TaskSpec:
    """All that recipes, training, folders and commands need to know of one task.

    It is at the end of the task's own file, and `TASKS` names it there.

    Arguments:
        task: what holds tokenizers and settings.
        predictor: what a trained model of it becomes.
        interface: what it asks of a model; whatever serves it will do.
        sections: what a recipe says besides model and training, section by section.
        prepare: from those sections, by name, to token ids in a folder; takes `folder`, `seed`, and examples in memory instead of
            files as `given` and `given_validation`.
        evaluate: measures a predictor on examples; what it returns has `metrics`, `count` and, for tasks of encoders,
            `predictions`.
        derived_config: what the task decides of a model's config, not the recipe, each with a value that is always allowed.
        derived_if_present: what it decides likewise of those models that have such a setting, by name.
        examples: where its examples come from: rows in memory, or the files of its `data` section.
        read: the examples that `train` names in a `data` section, to be evaluated: those of `examples`, unless a task reads them
            otherwise. Where there is neither, the command line has its own way.
        record: of the task, one of those examples and what was predicted of it: what was read, the right answer and the predicted
            one, by name; the prediction's own fields where None.
        fits: of a task of your own, whether a model is one for it, by its config; asked of folders that another program wrote.
            `MODELS_OF` says it of the package's tasks.
        problems: of a task of your own, what `problem_type` has to be in such a folder's config.json, None where it is absent; ()
            for whatever it is.
        from_hf: the task in such a folder, by the folder and the model's config; None where no other program writes any.
    """

    task: type[Task]
    predictor: type[Predictor[Any]]
    interface: Interface
    sections: Mapping[str, type]
    prepare: Callable[..., Prepared[Any]]
    evaluate: Callable[..., Any]
    derived_config: Mapping[str, Any]
    derived_if_present: tuple[str, ...] = ()
    examples: Examples[Any] | None = None
    read: Callable[[Any, MalformedRows], Iterator[Any]] | None = None
    record: Callable[[Any, Any, Any], dict[str, Any]] | None = None
    fits: Callable[[Any], bool] = lambda config: False
    problems: tuple[str | None, ...] = ()
    from_hf: Callable[[Path, Any], Task] | None = None

    def __post_init__(self) -> None:
        if self.read is None and self.examples is not None:
            object.__setattr__(self, "read", self.examples.named)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics of a model's own answers: the predictor's, and those of the user's own for the task."""
        own = own_metrics(self.task.name) if self.predictor.takes_own_metrics else ()
        return (*self.predictor.metric_names, *own)


OF_SENTENCE_ENCODERS = ("texts", "boundary_ids")
"""Settings of sentence encoders set by the task: how many texts the head reads, and which ids separate sentences."""


def encoder_config(head: HeadKind, outputs: int) -> dict[str, Any]:
    """What every task of an encoder decides of its config: `derived_config` of a head with so many outputs."""
    return {"vocabulary": 1, "padding_id": 0, "head": head, "outputs": outputs}


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
            "denoising": "regard.tasks.denoising:DENOISING",
            "classification": "regard.tasks.classification:CLASSIFICATION",
            "multi_label_classification": "regard.tasks.multi_label:MULTI_LABEL",
            "regression": "regard.tasks.regression:REGRESSION",
            "multi_output_regression": "regard.tasks.regression:MULTI_OUTPUT",
            "tagging": "regard.tasks.tagging:TAGGING",
            "question_answering": "regard.tasks.question_answering:QUESTION_ANSWERING",
            "multiple_choice": "regard.tasks.multiple_choice:MULTIPLE_CHOICE",
            "captioning": "regard.tasks.captioning:CAPTIONING",
            "copying": "regard.tasks.copying:COPYING",
            "few_shot": "regard.tasks.few_shot:FEW_SHOT",
            "image_classification": "regard.tasks.image_classification:IMAGE_CLASSIFICATION",
            "sentence_embedding": "regard.tasks.sentence_embedding:SENTENCE_EMBEDDING",  # last: it takes any encoder
        }
    ),
    lambda part: part.value,
)
"""By name: the package's, each imported when it is asked for, and after them those of the user's own (`regard.parts.task`)."""


OUTPUTS: Mapping[str, Callable[[int], bool]] = {
    "one": lambda count: count == 1,
    "several": lambda count: count > 1,
    "some": lambda count: count > 0,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelsOf:
    """Which models that other programs wrote are for a task, by their config.

    Arguments:
        families: by `model_type`; of any where empty.
        heads: what the head gives; of any where empty.
        outputs: how many numbers a head gives: `one`, `several`, or `some`, not none; any count where None.
        vectors: whether the model has to make text embeddings or of their tokens.
        problems: what `problem_type` has to be in config.json, None where it is absent; () for whatever it is.
    """

    families: tuple[str, ...] = ()
    heads: tuple[HeadKind, ...] = ()
    outputs: Literal["one", "several", "some"] | None = None
    vectors: bool = False
    problems: tuple[str | None, ...] = ()

    def fits(self, config: Any) -> bool:
        """Whether a model of this config is one of them."""
        if self.families and config.model_type not in self.families:
            return False
        if self.heads and getattr(config, "head", None) not in self.heads:
            return False
        if self.outputs is not None and not OUTPUTS[self.outputs](config.outputs):
            return False
        return not self.vectors or MODELS[config.model_type].serves("text_vectors")


MODELS_OF: Mapping[str, ModelsOf] = {
    "translation": ModelsOf(families=("transformer",)),
    "language_modelling": ModelsOf(families=("gpt", "gpt2", "gpt3", "gpt_neox", "llama", "reformer")),
    "masked_language_modelling": ModelsOf(heads=("masked", "pretraining")),
    "text_to_text": ModelsOf(families=("t5",)),
    "span_corruption": ModelsOf(families=("t5",)),
    "denoising": ModelsOf(families=("transformer",)),
    "classification": ModelsOf(heads=("sequence",), outputs="several", problems=("single_label_classification", None)),
    "multi_label_classification": ModelsOf(heads=("sequence",), problems=("multi_label_classification",)),
    "regression": ModelsOf(heads=("sequence",), outputs="one", problems=("regression", None)),
    "multi_output_regression": ModelsOf(heads=("sequence",), outputs="several", problems=("regression",)),
    "tagging": ModelsOf(heads=("tokens",)),
    "question_answering": ModelsOf(heads=("spans",)),
    "multiple_choice": ModelsOf(heads=("choice",)),
    "image_classification": ModelsOf(families=("vit",), outputs="some"),
    "sentence_embedding": ModelsOf(vectors=True),
}
"""Of the package's tasks, as far as other programs write models for them; asked in the order of `TASKS`."""


def models_of(name: str) -> ModelsOf | TaskSpec | None:
    """What tells, by `fits` and `problems`, which models of other programs are for a task; None where none is."""
    return MODELS_OF.get(name) if name in TASKS.packaged else TASKS[name]


def task_for(config: Any, where: str, problem: str | None = None) -> str:
    """The name of the task that a model which another program wrote is for.

    Arguments:
        where: what messages call its folder.
        problem: the `problem_type` of its config.json; None where there is none.

    Raises:
        InputError: where it is for none of them.
    """
    unfit = []
    for name in TASKS:
        models = models_of(name)
        if models is None or not models.fits(config) or (unfit and not models.problems):
            continue
        if not models.problems or problem in models.problems:
            return name
        unfit += [each for each in models.problems if each is not None]
    if unfit:
        raise InputError(
            f"{where}: config.json has the problem_type {problem!r}, and the model {config.outputs} outputs; "
            f"{nearest(str(problem), sorted(set(unfit)))}, or name a task to load it for"
        )
    raise InputError(f"{where}: a {config.model_type} without a head is for no task by itself; name one to load it for")


def spec_of(name: str, where: str = "task") -> TaskSpec:
    """The `TaskSpec` of a task by its name.

    Raises:
        InputError: where there is none of that name, with the nearest.
    """
    if name not in TASKS:
        raise InputError(f"{where} is {name!r}; {nearest(name, list(TASKS))}{own_hint('task')}")
    return TASKS[name]


def __getattr__(name: str) -> Any:
    if name != "Kind":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("regard.tasks.Kind is called regard.tasks.TaskSpec; use that name", DeprecationWarning, stacklevel=2)
    return TaskSpec
