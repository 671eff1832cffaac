"""What every model that is ready to use has in common, and who is told what it predicts."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import torch

from regard.checkpoints import parameters_of, push_folder, record_files, shard_weights
from regard.checkpoints.adapters import ADAPTER
from regard.checkpoints.tensors import SHARD
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.files import new_folder
from regard.generation import Hypothesis, SearchObserver
from regard.layers import Source, Tokens
from regard.machine import device_named
from regard.old_names import old_members
from regard.parts import FOLDER
from regard.tasks.task import Task

T = TypeVar("T", bound=Task)

MODEL_FILES = frozenset(
    {
        "config.json",
        "model.safetensors",
        "model.safetensors.index.json",
        "regard.json",
        "README.md",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
        "words.txt",
        "generation_config.json",
        "preprocessor_config.json",
        "source",
        "target",
        "modules.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
        "1_Pooling",
        FOLDER,
        ADAPTER,
        *(f"{number}_{kind}" for number in range(2, 10) for kind in ("Dense", "Normalize")),
    }
)
"""All that a model's folder may hold."""


@old_members(
    judge="validate",
    judged="metric_names",
    judged_of_each="metrics_of_each",
    judged_by_own="takes_own_metrics",
    judged_always="validates_all",
)
class Predictor(Generic[T]):
    """A model ready to use: strings in, typed results out.

    Arguments:
        model: of the family that the task takes.
        task: tokenizers and settings.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ()
    """The metrics that `validate` finds; none where a model's own answers are not evaluated."""

    metrics_of_each: ClassVar[tuple[str, ...]] = ()
    """What `validate` finds besides of each of the task's `named`, as `f1.spam`."""

    takes_own_metrics: ClassVar[bool] = False
    """Whether `validate` computes metrics of the user's own too."""

    validates_all: ClassVar[bool] = False
    """Whether all validation examples are predicted at each evaluation, because that costs no more than their loss."""

    def __init__(
        self,
        model: Any,
        task: T,
        *,
        recipe: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        self.model = model.eval()
        self.task = task
        self.recipe: dict[str, Any] = dict(recipe or {})
        self.metrics: dict[str, float] = dict(metrics or {})
        self._observers: list[tuple[int, PredictionObserver]] = []

    @property
    def device(self) -> torch.device:
        """Where the model's parameters are."""
        return next(self.model.parameters()).device

    def to(self, target: torch.device | torch.dtype | str) -> Self:
        """Move the model to another device or dtype, in place; returns itself.

        Raises:
            InputError: for a device that is not there.
        """
        self.model.to(target if isinstance(target, torch.dtype) else device_named(target, "device"))
        return self

    def save(self, folder: str | Path, *, max_shard_size: int | str | None = None) -> None:
        """Write the whole folder anew: config, weights, tokenizers, regard.json, model card.

        Where another program's layout can tell the model, the folder has that one, and opens there too.

        Arguments:
            folder: a new one, or that of a model, which is replaced.
            max_shard_size: how large a file of weights may be, such as `5GB` or a number of bytes: larger weights are put in
                several, with an index, as transformers does; one tensor is never divided. One file where None.

        Raises:
            InputError: for a full disk or a place that cannot be written to (an earlier folder there is intact), and for a
                folder that holds other things than a model, which would be lost.
        """
        check_replaceable(Path(folder))
        with new_folder(folder) as partial:
            self.write_files(partial, max_shard_size=max_shard_size)

    def write_files(self, folder: Path, *, max_shard_size: int | str | None = None) -> None:
        """Write all files of the model into an existing folder; `save` makes one that is whole or absent."""
        self.task.write(folder, self.model.config, parameters_of(self.model), recipe=self.recipe, metrics=self.metrics)
        if max_shard_size is not None:
            shard_weights(folder, max_shard_size)
        record_files(folder)

    def push_to_hub(
        self,
        place: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        message: str = "",
        max_shard_size: int | str | None = "5GB",
    ) -> str:
        """Upload the model's folder, as `save` writes it, to a repository of the Hugging Face hub.

        Everybody who may read the repository then has the model, its vocabulary and what its card tells of the recipe.

        Arguments:
            place: the repository, `owner/name`; it is made where there is none. `hub:owner/name` is what `load` takes then.
            private: whether a new repository is private; None for what your settings there say.
            token: that may write; None for that of `hf auth login`, or of the variable HF_TOKEN.
            message: of the commit.
            max_shard_size: as for `save`.

        Returns:
            The address of the commit.

        Raises:
            InputError: without a token, the right to write or a connection, and for a name that is no repository's.
        """
        with tempfile.TemporaryDirectory() as place_here:
            folder = Path(place_here) / "model"
            self.save(folder, max_shard_size=max_shard_size)
            return push_folder(folder, place, private=private, token=token, message=message)

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """The metrics `judged` of the model's own answers to about `count` examples, for validation in training.

        Where the task tells groups of examples apart, those of each too, as `bleu.de`.
        """
        del data, count
        return {}

    def remarks(self, data: TokenStore) -> list[str]:
        """What the user ought to know of the trained model's answers to the validation examples, in lines; mostly nothing."""
        del data
        return []

    @contextlib.contextmanager
    def observing(self, observer: PredictionObserver) -> Iterator[None]:
        """Inside the block, tell `observer` of every prediction that this thread makes."""
        entry = (threading.get_ident(), observer)
        self._observers.append(entry)
        try:
            yield
        finally:
            self._observers.remove(entry)

    def _watchers(self) -> Sequence[PredictionObserver]:
        """Who is to be told of this thread's predictions."""
        return [watcher for thread, watcher in self._observers if thread == threading.get_ident()]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What an evaluation found; each task adds what else is to be known.

    Arguments:
        metrics: figures by name.
        count: examples.
        predictions: one for each of them, in their order; none where a task makes none.
    """

    metrics: dict[str, float]
    count: int
    predictions: tuple[Any, ...] = field(repr=False, default=())


def is_model_file(name: str) -> bool:
    """Whether a name at the top of a folder is one of `MODEL_FILES`, or a shard of the weights."""
    return name in MODEL_FILES or SHARD.fullmatch(name) is not None


def check_replaceable(folder: Path) -> None:
    """Refuse to write a model in place of a folder that is more than a model: a run, or somebody's home."""
    if not folder.is_dir():
        return
    others = sorted(name for path in folder.iterdir() if not is_model_file(name := path.name))
    if others:
        raise InputError(f"{folder}: holds {others[0]}, which is no part of a model; choose a new folder")


class PredictionObserver(SearchObserver, Protocol):
    """A search observer that is also told what the hypotheses became."""

    def read(self, tokens: Tokens | None) -> None:
        """Called when a language model has read texts in parts: all that it read, a text in each row; None where rows moved."""
        ...

    def predicted(self, predictions: Sequence[Any], hypotheses: list[list[Hypothesis]]) -> None:
        """Called after each search: one prediction per source row, beside the hypotheses it was made of."""
        ...


class Observers:
    """Passes what a search tells to several observers.

    Arguments:
        observers: who wants to know.
    """

    def __init__(self, observers: Sequence[PredictionObserver]) -> None:
        self._observers = observers

    def search_started(self, source: Source) -> None:
        """Tell them all."""
        for observer in self._observers:
            observer.search_started(source)

    def search_finished(self, hypotheses: list[list[Hypothesis]]) -> None:
        """Tell them all."""
        for observer in self._observers:
            observer.search_finished(hypotheses)
