"""`TaskSpec`, what recipes, training, folders and the command line need of a task; and `TASKS`, which names every task.

A task is imported when it is looked up by its name. Finding the task of a model that another program wrote imports none:
`MODELS_OF` defines which models are for which task.
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

    It is at the end of the task's own file, and `TASKS` has its name.

    Arguments:
        task: the class of tokenizers and settings.
        predictor: the class of a trained model that is ready to use.
        interface: the interface that the task needs of a model; every family with it can be used.
        sections: the sections of a recipe besides model and training, as dataclasses by name.
        prepare: makes token ids in a folder; takes these sections by name, `folder`, `seed`, and examples in memory instead of
            files as `given` and `given_validation`.
        evaluate: evaluates a predictor on examples; its result has `metrics`, `count` and, for tasks of encoders, `predictions`.
        derived_config: the fields of a model's config that follow from the task and not from the recipe, each with a value that
            is always valid.
        derived_if_present: further such fields, which only some models have, by name.
        examples: the source of its examples: rows in memory, or the files of its `data` section.
        read: reads the examples that `train` of a `data` section names, for evaluation; by default with `examples`. If both are
            None, the command line reads them in its own way.
        record: makes a mapping from (the task, an example, its prediction) with the input, the correct answer and the predicted
            one; None = the fields of the prediction.
        fits: for your own task, returns whether a config is of a model for it, for folders that another program wrote. For the
            package's tasks this is in `MODELS_OF`.
        problems: for your own task, the accepted values of `problem_type` in config.json of such a folder, None = absent; () for
            any value.
        from_hf: makes the task of such a folder from the folder and the model's config; None if no other program writes any.
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
        """The names of the metrics of predictions: those of the predictor, and the user's own for the task."""
        own = own_metrics(self.task.name) if self.predictor.takes_own_metrics else ()
        return (*self.predictor.metric_names, *own)


OF_SENTENCE_ENCODERS = ("texts", "boundary_ids")
"""Settings of sentence encoders that follow from the task: the number of texts that the head reads, and the separator ids."""


def encoder_config(head: HeadKind, outputs: int) -> dict[str, Any]:
    """The `derived_config` of a task of encoders, with a head of this kind and number of outputs."""
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
"""The tasks by name: those of the package, each imported when it is looked up, then the user's own (`regard.parts.task`)."""


OUTPUTS: Mapping[str, Callable[[int], bool]] = {
    "one": lambda count: count == 1,
    "several": lambda count: count > 1,
    "some": lambda count: count > 0,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelsOf:
    """The models of other programs that are for a task, by their config.

    Arguments:
        families: the accepted values of `model_type`; empty for any.
        heads: the accepted heads; empty for any.
        outputs: the accepted number of outputs: `one`, `several` (above 1) or `some` (above 0); None for any.
        vectors: whether the model must compute vectors of texts or of tokens.
        problems: the accepted values of `problem_type` in config.json, None = absent; () for any.
    """

    families: tuple[str, ...] = ()
    heads: tuple[HeadKind, ...] = ()
    outputs: Literal["one", "several", "some"] | None = None
    vectors: bool = False
    problems: tuple[str | None, ...] = ()

    def fits(self, config: Any) -> bool:
        """Whether a model with this config is for the task."""
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
"""The models of other programs for the package's tasks, as far as there are any; tried in the order of `TASKS`."""


def models_of(name: str) -> ModelsOf | TaskSpec | None:
    """The object whose `fits` and `problems` define which models of other programs are for a task; None if there are none."""
    return MODELS_OF.get(name) if name in TASKS.packaged else TASKS[name]


def task_for(config: Any, where: str, problem: str | None = None) -> str:
    """The name of the task of a model that another program wrote.

    Arguments:
        where: the name of its folder in messages.
        problem: the `problem_type` of its config.json; None if it has none.

    Raises:
        InputError: if it is for no task.
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
            f"{where}: config.json has the problem_type {problem!r}, and the model has {config.outputs} outputs; "
            f"{nearest(str(problem), sorted(set(unfit)))}, or name a task to load it for"
        )
    raise InputError(f"{where}: a {config.model_type} without a head is for no task by itself; name one to load it for")


def spec_of(name: str, where: str = "task") -> TaskSpec:
    """The `TaskSpec` of a task by its name.

    Raises:
        InputError: for an unknown name, with the nearest one.
    """
    if name not in TASKS:
        raise InputError(f"{where} is {name!r}; {nearest(name, list(TASKS))}{own_hint('task')}")
    return TASKS[name]


def __getattr__(name: str) -> Any:
    if name != "Kind":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("regard.tasks.Kind is called regard.tasks.TaskSpec; use that name", DeprecationWarning, stacklevel=2)
    return TaskSpec
