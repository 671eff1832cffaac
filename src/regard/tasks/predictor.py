"""The base class of predictors, the handling of empty texts, and observers of predictions.

`export` writes the model of a run without its training state, to share it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import torch

from regard.checkpoints import parameters_of, push_folder, record_files, shard_weights
from regard.checkpoints.adapters import ADAPTER
from regard.checkpoints.folder import is_gguf
from regard.checkpoints.onnx import FILE as ONNX
from regard.checkpoints.onnx import write_onnx
from regard.checkpoints.tensors import SHARD
from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.files import new_folder
from regard.generation import Hypothesis, SearchObserver, SearchStep
from regard.layers import Source, Tokens
from regard.machine import device_named
from regard.old_names import old_members
from regard.parts import FOLDER, Code, load_code
from regard.rendering import text_table
from regard.tasks.loading import checkpoint_of, load, model_folder
from regard.tasks.task import Task

X = TypeVar("X")
A = TypeVar("A")

NAMED = 5
"""The number of empty texts that a message lists."""


def is_empty(text: Any) -> bool:
    """Whether a text is empty or white space, a list has no words, or a pair has an empty text.

    >>> is_empty(" "), is_empty(("a", "")), is_empty([]), is_empty("a")
    (True, True, True, False)
    """
    if isinstance(text, str):
        return not text.strip()
    if isinstance(text, tuple):
        return any(isinstance(part, str) and not part.strip() for part in text)
    return isinstance(text, list) and not text


def with_gaps(
    answer: Callable[[list[X]], Sequence[A]], texts: Sequence[X], *, empty: Callable[[X], bool] = is_empty
) -> list[A | None]:
    """Predictions for texts of which some may be empty: None for each empty one, so that the order is kept.

    Arguments:
        answer: a method that predicts for a list of texts, such as `model.classify_batch`, and refuses empty ones.
        empty: decides whether a text is empty.

    >>> with_gaps(lambda texts: [text.upper() for text in texts], ["a", "", "b"])
    ['A', None, 'B']
    """
    gaps = [empty(text) for text in texts]
    there = [text for text, gap in zip(texts, gaps, strict=True) if not gap]
    found = iter(answer(there) if there else ())
    return [None if gap else next(found) for gap in gaps]


def refuse_empty(texts: Sequence[Any], what: str = "text", why: str = "there is nothing to read") -> None:
    """Refuse a string instead of a list, values that are not strings, and empty texts.

    Raises:
        InputError: naming the first value that is not a string, or the numbers of all empty texts, from 1.
    """
    if isinstance(texts, str):
        raise InputError(f"a single string was given instead of a list of {what}s; put it in a list")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise InputError(f"{what} {number} is {text!r:.80}; give strings")
    refuse_gaps(texts, what, why)


def refuse_gaps(texts: Sequence[Any], what: str = "text", why: str = "there is nothing to read") -> None:
    """Refuse empty texts, and pairs with an empty text.

    Raises:
        InputError: naming their numbers, from 1.

    >>> refuse_gaps(["a", "", " "])
    Traceback (most recent call last):
        ...
    regard.errors.InputError: texts 2 and 3 are empty; there is nothing to read, leave them out, or call regard.tasks.with_gaps
    """
    numbers = [number for number, text in enumerate(texts, start=1) if is_empty(text)]
    if not numbers:
        return
    hint = ", or call regard.tasks.with_gaps" if len(texts) > 1 else ""
    if len(numbers) == 1:
        raise InputError(f"{what} {numbers[0]} is empty; {why}, leave it out{hint}")
    named = [str(number) for number in numbers[:NAMED]]
    last = named.pop() if len(numbers) <= NAMED else f"{len(numbers) - NAMED:,} more"
    raise InputError(f"{what}s {', '.join(named)} and {last} are empty; {why}, leave them out{hint}")


T = TypeVar("T", bound=Task)

MODEL_FILES = frozenset(
    {
        "config.json",
        "model.safetensors",
        "model.safetensors.index.json",
        ONNX,
        f"{ONNX}.data",
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
"""The files that the folder of a model can have."""


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
        model: a model of a family that fits the task.
        task: tokenizers and settings.
        recipe: the values of the recipe with which it was trained; empty if unknown.
        metrics: the metrics of its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ()
    """The names of the metrics that `validate` computes; empty if predictions are not evaluated."""

    metrics_of_each: ClassVar[tuple[str, ...]] = ()
    """The names of the metrics that `validate` also computes for each of the task's `named`, such as `f1.spam`."""

    takes_own_metrics: ClassVar[bool] = False
    """Whether `validate` also computes the user's own metrics."""

    validates_all: ClassVar[bool] = False
    """Whether each evaluation predicts all validation examples, because that takes no longer than computing their loss."""

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
        """The device of the model's parameters."""
        return next(self.model.parameters()).device

    def to(self, target: torch.device | torch.dtype | str) -> Self:
        """Move the model to another device or dtype, in place; returns itself.

        Raises:
            InputError: for a device that does not exist.
        """
        self.model.to(target if isinstance(target, torch.dtype) else device_named(target, "device"))
        return self

    def save(self, folder: str | Path, *, max_shard_size: int | str | None = None) -> None:
        """Write the model to a folder: config, weights, tokenizers, regard.json and a model card.

        The folder has the layout of Hugging Face's libraries, if that can represent the model, so that it opens there too.

        Arguments:
            folder: a new folder, or the folder of a model, which is replaced.
            max_shard_size: the largest size of a weight file, such as `5GB` or a number of bytes. Larger weights are written to
                several files with an index, as in transformers; a tensor is never divided. None = one file.

        Raises:
            InputError: for a full disk or a path that cannot be written (an earlier folder there is kept), and for a folder that
                has other files than those of a model, which would be lost.
        """
        check_replaceable(Path(folder))
        with new_folder(folder) as partial:
            self.write_files(partial, max_shard_size=max_shard_size)

    def write_files(self, folder: Path, *, max_shard_size: int | str | None = None) -> None:
        """Write all files of the model into an existing folder. `save` does this atomically."""
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

        Everyone who can read the repository can then read the model, its vocabulary and the recipe in its card.

        Arguments:
            place: the repository, `owner/name`; it is created if it does not exist. `load` then takes `hub:owner/name`.
            private: whether a new repository is private; None = the default of your account.
            token: a token with permission to write; None = that of `hf auth login`, or of the variable HF_TOKEN.
            message: the message of the commit.
            max_shard_size: as for `save`.

        Returns:
            The URL of the commit.

        Raises:
            InputError: without a token, the permission to write or a connection, and for an invalid name of a repository.
        """
        with tempfile.TemporaryDirectory() as place_here:
            folder = Path(place_here) / "model"
            self.save(folder, max_shard_size=max_shard_size)
            return push_folder(folder, place, private=private, token=token, message=message)

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """The metrics `metric_names` of the model's predictions for about `count` examples, for validation in training.

        If the task has groups of examples, it also returns the metrics of each group, such as `bleu.de`.
        """
        del data, count
        return {}

    def remarks(self, data: TokenStore) -> list[str]:
        """Messages for the user about the trained model's predictions for the validation examples; usually none."""
        del data
        return []

    @contextlib.contextmanager
    def observing(self, observer: PredictionObserver) -> Iterator[None]:
        """A context in which `observer` is called for every prediction of this thread."""
        entry = (threading.get_ident(), observer)
        self._observers.append(entry)
        try:
            yield
        finally:
            self._observers.remove(entry)

    def _watchers(self) -> Sequence[PredictionObserver]:
        """The observers of this thread's predictions."""
        return [watcher for thread, watcher in self._observers if thread == threading.get_ident()]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """The result of an evaluation; each task adds further fields.

    Arguments:
        metrics: the metrics by name.
        count: the number of examples.
        predictions: one for each example, in order; empty if the task makes none.
    """

    metrics: dict[str, float]
    count: int
    predictions: tuple[Any, ...] = field(repr=False, default=())


def is_model_file(name: str) -> bool:
    """Whether the name of a file is one of `MODEL_FILES`, or a shard of the weights."""
    return name in MODEL_FILES or SHARD.fullmatch(name) is not None


def check_replaceable(folder: Path) -> None:
    """Refuse to replace a folder that is more than a model, such as a run or a home folder."""
    if not folder.is_dir():
        return
    others = sorted(name for path in folder.iterdir() if not is_model_file(name := path.name))
    if others:
        raise InputError(f"{folder}: contains {others[0]}, which is not part of a model; choose a new folder")


class PredictionObserver(SearchObserver, Protocol):
    """A search observer that is also called with the predictions of a search."""

    def read(self, tokens: Tokens | None) -> None:
        """Called after a language model has read texts in parts, with the texts, one in each row; None if rows were reordered."""
        ...

    def predicted(self, predictions: Sequence[Any], hypotheses: list[list[Hypothesis]]) -> None:
        """Called after each search, with one prediction per source row, and its hypotheses."""
        ...


class Observers:
    """Passes the calls of a search to several observers.

    Arguments:
        observers: the observers.
    """

    def __init__(self, observers: Sequence[PredictionObserver]) -> None:
        self._observers = observers

    def search_started(self, source: Source) -> None:
        """Tell them all."""
        for observer in self._observers:
            observer.search_started(source)

    def search_stepped(self, step: SearchStep) -> None:
        """Call the step observers."""
        for observer in self._observers:
            if (stepped := getattr(observer, "search_stepped", None)) is not None:
                stepped(step)

    def search_paused(self) -> None:
        """Call the pause observers."""
        for observer in self._observers:
            if (paused := getattr(observer, "search_paused", None)) is not None:
                paused()

    def search_finished(self, hypotheses: list[list[Hypothesis]]) -> None:
        """Tell them all."""
        for observer in self._observers:
            observer.search_finished(hypotheses)


BEST = "best"
FORMATS = ("safetensors", "onnx")
"""The formats that `export` writes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """An exported model.

    Arguments:
        folder: the new folder.
        source: the folder from which it was read: that of the run, or of a checkpoint.
        task: the task of the model.
        files: the size of every file in bytes, by its path in the folder.
        notes: messages to read before sharing the folder.
    """

    folder: Path
    source: Path
    task: str
    files: dict[str, int]
    notes: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, str]]:
        """Names and values for display, by `print` and in notebooks."""
        return [
            ("model", str(self.folder)),
            ("from", str(self.source)),
            ("task", self.task.replace("_", " ")),
            *((name, f"{size:,} bytes") for name, size in self.files.items()),
        ]

    def __str__(self) -> str:
        return text_table(self.rows())

    def _repr_html_(self) -> str:
        from regard.web import html_table

        return html_table(self.rows())


def export(
    folder: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    checkpoint: str = BEST,
    code: Code | None = None,
    max_shard_size: int | str | None = None,
    format: str = "safetensors",
) -> Exported:
    """Write the files that prediction needs, and no others, to a folder that can be shared.

    It has no examples, no optimiser state and no log, and only the file names of paths outside the folder where training was
    started. The weights are those of the run, bit for bit, with adapters merged. The vocabulary (words and word pieces of the
    training texts, names of classes) is part of the model, and included.

    Arguments:
        folder: the folder of a run or model; or a file of llama.cpp (`.gguf`), whose weights of 8 or 4 bits are written in
            float32.
        target: a new folder, or the folder of a model, which is replaced atomically.
        checkpoint: the checkpoint of a run: `best`, as for `load`, `last`, or the name of a folder in checkpoints/.
        code: your own Python file, or files, with the parts of the model. Copies of them are included.
        max_shard_size: the largest size of a weight file, such as `5GB`; see `Predictor.save`.
        format: `safetensors`, or `onnx`: then the folder also has `model.onnx`, for encoders of texts, checked against the model
            with onnxruntime; see `regard.checkpoints.onnx`.

    Raises:
        InputError: for a folder without a model, or a damaged one; for a format that is unknown or not possible for this model;
            for a target with other files, or inside the run.

    >>> regard.export("runs/mails", "mails")  # doctest: +SKIP
    """
    if format not in FORMATS:
        raise InputError(f"format is {format!r}; {nearest(format, FORMATS)}")
    load_code(code)
    place = Path(folder) if is_gguf(folder) else _source(Path(folder), checkpoint)
    target = Path(target)
    _check_target(target, Path(folder), place)
    predictor: Any = load(place)
    notes: list[str] = []
    with new_folder(target) as partial:
        predictor.write_files(partial, max_shard_size=max_shard_size)
        if format == "onnx":
            apart = write_onnx(predictor.model, partial / ONNX)
            record_files(partial)
            notes.append(
                f"{ONNX}: onnxruntime computes the same as the model, within {apart:.1e}, on texts of 1 token and more"
            )
    files = {path.relative_to(target).as_posix(): path.stat().st_size for path in _files(target)}
    return Exported(folder=target, source=place, task=predictor.task.name, files=files, notes=(*notes, *_notes(files)))


def _source(folder: Path, checkpoint: str) -> Path:
    """The folder of the requested model."""
    return model_folder(folder) if checkpoint == BEST else checkpoint_of(folder, checkpoint)


def _check_target(target: Path, folder: Path, place: Path) -> None:
    """Refuse a target whose files would be lost, or that is inside the run."""
    real, sources = target.resolve(), (folder.resolve(), place.resolve())
    if any(real == source or real.is_relative_to(source) or source.is_relative_to(real) for source in sources):
        raise InputError(
            f"{target} and {folder} are the same folder, or one is inside the other; choose another folder"
        )
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: is a file; choose a new folder")
    if target.is_dir() and any(target.iterdir()) and not (target / "config.json").is_file():
        raise InputError(f"{target}: exists and is not a model's folder; choose a new folder")
    check_replaceable(target)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _notes(files: dict[str, int]) -> list[str]:
    own = [name for name in files if name.startswith(f"{FOLDER}/")]
    if not own:
        return []
    return [f"{', '.join(own)}: a copy of your own code; check it for private names and paths before you share it."]
