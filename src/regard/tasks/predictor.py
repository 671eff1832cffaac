"""What every model that is ready to use has in common, what is done with empty texts, and observers of predictions.

`export` writes the model of a run by itself, to be given away.
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
"""Numbers of empty texts that a message tells."""


def is_empty(text: Any) -> bool:
    """Whether there is nothing to read: white space at most, no words, or a pair of which one text is empty.

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
    """Answers to texts of which some may be empty: None for each of those, so that every answer keeps its place.

    Arguments:
        answer: a method that answers many texts, such as `model.classify_batch`, and refuses empty ones.
        empty: tells those.

    >>> with_gaps(lambda texts: [text.upper() for text in texts], ["a", "", "b"])
    ['A', None, 'B']
    """
    gaps = [empty(text) for text in texts]
    there = [text for text, gap in zip(texts, gaps, strict=True) if not gap]
    found = iter(answer(there) if there else ())
    return [None if gap else next(found) for gap in gaps]


def refuse_empty(texts: Sequence[Any], what: str = "text", why: str = "there is nothing to read") -> None:
    """Refuse a string where a list is wanted, what is no string, and texts in which there is nothing.

    Raises:
        InputError: naming the first that is no string, or all that are empty by their numbers from 1.
    """
    if isinstance(texts, str):
        raise InputError(f"one string given where a list of {what}s is wanted; put it in a list")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise InputError(f"{what} {number} is {text!r:.80}; give strings")
    refuse_gaps(texts, what, why)


def refuse_gaps(texts: Sequence[Any], what: str = "text", why: str = "there is nothing to read") -> None:
    """Refuse texts, or pairs of them, in which there is nothing.

    Raises:
        InputError: naming all of them by their numbers from 1.

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
    told = [str(number) for number in numbers[:NAMED]]
    last = told.pop() if len(numbers) <= NAMED else f"{len(numbers) - NAMED:,} more"
    raise InputError(f"{what}s {', '.join(told)} and {last} are empty; {why}, leave them out{hint}")


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
        """Write the whole folder again: config, weights, tokenizers, regard.json, model card.

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
        """Called after each search: one prediction per source row, next to the hypotheses it was made of."""
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

    def search_stepped(self, step: SearchStep) -> None:
        """Tell those that want to know of steps."""
        for observer in self._observers:
            if (stepped := getattr(observer, "search_stepped", None)) is not None:
                stepped(step)

    def search_paused(self) -> None:
        """Tell those that want to know of pauses."""
        for observer in self._observers:
            if (paused := getattr(observer, "search_paused", None)) is not None:
                paused()

    def search_finished(self, hypotheses: list[list[Hypothesis]]) -> None:
        """Tell them all."""
        for observer in self._observers:
            observer.search_finished(hypotheses)


BEST = "best"
FORMATS = ("safetensors", "onnx")
"""That `export` writes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """A model's folder that was written.

    Arguments:
        folder: where it is.
        source: the folder it was read from: the run's own, or that of a checkpoint.
        task: what the model is for.
        files: the bytes of every file, by its place in the folder.
        notes: what is to be known before the folder is given away, in sentences.
    """

    folder: Path
    source: Path
    task: str
    files: dict[str, int]
    notes: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, str]]:
        """Names and values as people read them; what `print` and notebooks show."""
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
    """Write what predicting needs, and nothing else, into a folder to be given away.

    No examples, no state of the optimiser, no log, and of paths outside of the folder where training was started the file's name
    alone. The weights are those of the run, bit for bit; adapters are merged into them. What a vocabulary holds (words and
    parts of words of the training texts, names of classes) is part of the model and stays.

    Arguments:
        folder: of a run or model; or a file of llama.cpp (`.gguf`), whose weights of 8 or 4 bits are written in float32.
        target: a new folder, or that of a model, which is replaced; whole, or not at all.
        checkpoint: of a run: `best`, which is what `load` takes, `last`, or the name of a folder under checkpoints/.
        code: your own Python file, or files, with the parts that the model was made with. Copies of these go with the model.
        max_shard_size: how large a file of weights may be, such as `5GB`; see `Predictor.save`.
        format: `safetensors`, or `onnx`: then the folder has besides `model.onnx`, for encoders of texts, which onnxruntime
            has computed as the model does; see `regard.checkpoints.onnx`.

    Raises:
        InputError: for a folder that holds no model, or is damaged; for a format that there is not, or not for this model; for
            a target that holds something else, or lies in the run.

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
    """The folder of the model that was asked for."""
    return model_folder(folder) if checkpoint == BEST else checkpoint_of(folder, checkpoint)


def _check_target(target: Path, folder: Path, place: Path) -> None:
    """Refuse a place where something would be lost, or where the model would be back in the workshop."""
    real, sources = target.resolve(), (folder.resolve(), place.resolve())
    if any(real == source or real.is_relative_to(source) or source.is_relative_to(real) for source in sources):
        raise InputError(f"{target}: and {folder} lie in one another; choose a folder of its own")
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: is a file; choose a new folder")
    if target.is_dir() and any(target.iterdir()) and not (target / "config.json").is_file():
        raise InputError(f"{target}: is there already and holds no model; choose a new folder")
    check_replaceable(target)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _notes(files: dict[str, int]) -> list[str]:
    own = [name for name in files if name.startswith(f"{FOLDER}/")]
    if not own:
        return []
    return [f"{', '.join(own)}: your own code as it is; look for names and paths in it before you give it away."]
