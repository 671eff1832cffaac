"""Callbacks of a training run: the base class for your own, the progress bar, and experiment trackers.

The progress bar is a bar on a terminal and in a notebook, and lines in a pipe or a file. The trackers (TensorBoard, MLflow and
Weights & Biases) record the numbers of the log.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from torch import nn

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.tasks.predictor import Predictor
from regard.tasks.task import Task
from regard.training.checkpoint import Progress


class Callback:
    """Methods that are called during a run, on the first worker only. A subclass defines those it needs; the others do nothing.

    >>> class Answers(Callback):
    ...     def evaluated(self, predictor, metrics, progress):
    ...         print(progress.step, predictor.translate("9 May 2017").text)
    >>> Answers().stepped(Progress(), 0.0)  # regard.train("dates", output="runs/dates", callbacks=[Answers()])
    """

    def opened(self, folder: Path, validation: TokenStore) -> None:
        """Called before `prepared`, with the run's folder and the validation examples for the task's `read_batch`."""

    def prepared(self, task: Task) -> None:
        """Called before `started`, with the task: its classes, and the unit of `progress.tokens`."""

    def started(self, model: nn.Module, progress: Progress, total_steps: int | None) -> None:
        """Called before the first update after a start or a resume."""

    def stepped(self, progress: Progress, tokens_per_second: float) -> None:
        """Called after each update.

        Arguments:
            tokens_per_second: the training speed in the task's unit: target tokens, examples, words or images.
        """

    def evaluated(self, predictor: Predictor[Any], metrics: Mapping[str, float], progress: Progress) -> None:
        """Called after each evaluation, with the current model as a predictor; not for models sharded by FSDP.

        Arguments:
            predictor: the current model, as from `regard.load`. Training continues to change it: store its predictions, not
                itself.
            metrics: of the validation data.
        """

    def logged(self, event: Mapping[str, Any]) -> None:
        """Called with each line of the log."""

    def ended(self, progress: Progress) -> None:
        """Called after the last update, or when the run is interrupted."""


# How far a run is.


REFRESH = 0.1  # seconds between two images of the bar; a run may make hundreds of updates in one
EVERY = 60.0  # seconds between two lines where there is no bar


class ProgressBar(Callback):
    """Shows finished and total updates, the loss, the remaining time, and the speed in target tokens, examples, words or images.

    Validation results are printed above the bar. It writes to standard error. If that is neither a terminal nor a notebook, it
    writes a line for each evaluation, and one every minute. The loss and the speed are exponential moving averages over about the
    last 20 updates.

    Arguments:
        console: the console to write to; None = standard error.

    >>> bar = ProgressBar()  # regard.train(recipe, output="runs/dates", callbacks=[bar])
    >>> bar.started(nn.Linear(1, 1), Progress(), 100)  # no bar here, where no terminal is
    >>> bar.ended(Progress())
    """

    def __init__(self, console: Console | None = None) -> None:
        # Asked of the stream itself: rich takes a pipe for a terminal where FORCE_COLOR is set, as many build servers do.
        drawn = console.is_terminal if console is not None else _is_terminal(sys.stderr) or in_notebook()
        self._lines = None if drawn else console or Console(stderr=True, soft_wrap=True)
        self._console = (console or Console(stderr=True)) if drawn else None
        self._bar: Bar | None = None
        self._unit, self._called = "tokens", dict[str, str]()
        self._loss = _Average()
        self._speed = _Average()
        self._seen = (0.0, 0)
        self._drawn = 0.0
        self._total: int | None = None
        self._began = (0.0, 0)

    def prepared(self, task: Task) -> None:
        """Take the unit of the speed and the names of metrics from the task."""
        self._unit, self._called = task.unit, task.metric_words()

    def started(self, model: nn.Module, progress: Progress, total_steps: int | None) -> None:
        """Draw the bar, at the current update."""
        self._loss, self._speed = _Average(), _Average()
        self._seen = (progress.loss_sum, progress.loss_tokens)
        self._total = total_steps
        self._drawn = time.monotonic() if self._lines is not None else 0.0
        self._began = (time.monotonic(), progress.step)
        if self._console is None:
            return
        # Without a thread: the bar is drawn between updates, so it takes no time from them.
        self._bar = Bar(
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=self._console,
            auto_refresh=False,
            # Lines printed to the same terminal go above the bar; those for a file or a pipe go there.
            redirect_stdout=_is_terminal(sys.stdout),
            expand=True,
        )
        self._bar.add_task("training", total=total_steps, completed=progress.step, numbers="")
        self._bar.start()
        self._bar.refresh()

    def stepped(self, progress: Progress, tokens_per_second: float) -> None:
        """Update the bar."""
        self._speed.add(tokens_per_second)
        tokens = progress.loss_tokens - self._seen[1]
        if tokens > 0:
            self._loss.add((progress.loss_sum - self._seen[0]) / tokens)
        self._seen = (progress.loss_sum, progress.loss_tokens)
        now = time.monotonic()
        if now - self._drawn >= (REFRESH if self._lines is None else EVERY):
            self._drawn = now
            self._draw(progress)
            self._line(self._words(progress, now))

    def logged(self, event: Mapping[str, Any]) -> None:
        """Print the results of an evaluation above the bar, or on a line."""
        if event["event"] == "train":  # with this line the run's own sums begin again
            self._seen = (0.0, 0)
        elif event["event"] == "validation":
            line = validation_line(event, self._called)
            if self._bar is not None:
                self._bar.console.print(line, markup=False, highlight=False)
            self._line(line)

    def ended(self, progress: Progress) -> None:
        """Stop the bar."""
        if self._bar is None:
            return
        self._draw(progress)
        self._bar.stop()
        self._bar = None

    def _line(self, words: str) -> None:
        if self._lines is not None:
            self._lines.print(words, markup=False, highlight=False)

    def _words(self, progress: Progress, now: float) -> str:
        """The progress of the run as a line of text."""
        parts = [f"step {progress.step:,}" + (f" of {self._total:,}" if self._total else "")]
        if self._speed.value:
            parts.append(f"loss {self._loss.value:.4f}, {self._speed.value:,.0f} {self._unit}/s")
        began, first = self._began
        if self._total and progress.step > first:
            left = (self._total - progress.step) * (now - began) / (progress.step - first)
            parts.append(f"about {max(0.0, left) / 60:.0f} min left")
        return ": ".join(parts[:2]) + "".join(f", {part}" for part in parts[2:])

    def _draw(self, progress: Progress) -> None:
        if self._bar is None:
            return
        numbers = f"loss {self._loss.value:.4f}  {self._speed.value:,.0f} {self._unit}/s" if self._speed.value else ""
        self._bar.update(self._bar.task_ids[0], completed=progress.step, numbers=numbers)
        self._bar.refresh()


def validation_line(event: Mapping[str, Any], called: Mapping[str, str] | None = None) -> str:
    """The results of an evaluation as a line of text.

    Arguments:
        called: display names of metrics that have one.

    >>> validation_line({"event": "validation", "step": 300, "epoch": 1, "loss": 0.0123, "exact_match": 0.995})
    'step 300: validation loss 0.0123, exact match 99.5 %'
    """
    parts = []
    for name, value in event.items():
        metric = name.partition(".")[0]  # such as bleu.de, of one language among several
        words = (called or {}).get(name) or name.replace("_", " ").replace(".", " ").replace("bleu", "BLEU")
        if metric in ("exact_match", "token_accuracy"):
            parts.append(f"{words} {100 * value:.1f} %")
        elif metric == "bleu":
            parts.append(f"{words} {value:.1f}")
        elif isinstance(value, float):
            parts.append(f"{words} {value:.4g}")
    return f"step {event['step']:,}: validation " + ", ".join(parts)


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def in_notebook() -> bool:
    """Whether this runs in a Jupyter notebook."""
    return Console().is_jupyter


class _Average:
    """An exponential moving average: with each new value, earlier ones count a tenth less. The first averages are unbiased."""

    def __init__(self) -> None:
        self._sum = self._weight = 0.0

    def add(self, value: float) -> None:
        self._sum = 0.9 * self._sum + value
        self._weight = 0.9 * self._weight + 1.0

    @property
    def value(self) -> float:
        return self._sum / self._weight if self._weight else 0.0


# Trackers of experiments. All write into the run's folder by default.


PROJECT = "regard"
"""The name of the experiment (MLflow) or project (Weights & Biases), unless their environment variables name another."""


def tracker_of(name: str, folder: Path) -> Callback | None:
    """The tracker of a run in `folder`; None for `none`.

    Raises:
        InputError: if its package is not installed.
    """
    if name == "none":
        return None
    if name == "tensorboard":
        return TensorBoard(folder / "tensorboard")
    return (MLflow if name == "mlflow" else WeightsAndBiases)(folder)


def numbers_of(event: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a line of the log, with the event as a prefix.

    >>> numbers_of({"event": "train", "step": 3, "loss": 0.5, "note": "a"})
    {'train/loss': 0.5}
    """
    return {
        f"{event['event']}/{name}": float(value)
        for name, value in event.items()
        if name != "step" and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


class TensorBoard(Callback):
    """Writes the log's numbers as TensorBoard event files.

    Arguments:
        folder: where the event files go.

    Raises:
        InputError: if tensorboard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self._make = _package("tensorboard", "track", "torch.utils.tensorboard.writer").SummaryWriter
        self._folder = folder
        self._writer: Any = None

    def started(self, model: nn.Module, progress: Progress, total_steps: int | None) -> None:
        """Open the event file; steps of a killed process after the last checkpoint are hidden."""
        self._writer = self._make(str(self._folder), purge_step=progress.step + 1)

    def logged(self, event: Mapping[str, Any]) -> None:
        """Every number of the line, under its event's name."""
        for name, value in event.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and name != "step":
                self._writer.add_scalar(f"{event['event']}/{name}", value, event["step"])

    def ended(self, progress: Progress) -> None:
        """Close the event file."""
        self._writer.close()


class MLflow(Callback):
    """Writes the log's numbers as a run of MLflow, a new one for each start or resume.

    It is written to `mlflow.db` in the run's folder, or to MLFLOW_TRACKING_URI, as the experiment MLFLOW_EXPERIMENT_NAME.

    Arguments:
        folder: of the run.

    Raises:
        InputError: if mlflow is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self._client_of = _package("mlflow", "mlflow").MlflowClient
        self._folder = folder
        self._client: Any = None
        self._run = ""

    def started(self, model: nn.Module, progress: Progress, total_steps: int | None) -> None:
        """Open a run."""
        own = f"sqlite:///{(self._folder / 'mlflow.db').resolve()}"
        self._client = self._client_of(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or own)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        found = self._client.get_experiment_by_name(name)
        experiment = self._client.create_experiment(name) if found is None else found.experiment_id
        self._run = self._client.create_run(experiment, run_name=self._folder.name).info.run_id

    def logged(self, event: Mapping[str, Any]) -> None:
        """Every number of the line, under its event's name."""
        for name, value in numbers_of(event).items():
            self._client.log_metric(self._run, name, value, step=event["step"])

    def ended(self, progress: Progress) -> None:
        """Close the run."""
        self._client.set_terminated(self._run)


class WeightsAndBiases(Callback):
    """Writes the log's numbers as a run of Weights & Biases, a new one for each start or resume.

    It is written to the run's folder, and `wandb sync` uploads it; with WANDB_MODE=online it is uploaded during the run.

    Arguments:
        folder: of the run.

    Raises:
        InputError: if wandb is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self._init = _package("wandb", "wandb").init
        self._folder = folder
        self._run: Any = None

    def started(self, model: nn.Module, progress: Progress, total_steps: int | None) -> None:
        """Open a run."""
        self._run = self._init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            name=self._folder.name,
            dir=str(self._folder),
            mode=os.environ.get("WANDB_MODE") or "offline",
        )

    def logged(self, event: Mapping[str, Any]) -> None:
        """Every number of the line, under its event's name."""
        self._run.log(numbers_of(event), step=event["step"])

    def ended(self, progress: Progress) -> None:
        """Close the run."""
        self._run.finish()


def _package(tracker: str, extra: str, module: str | None = None) -> Any:
    """The module of a tracker; None = the module with the tracker's name."""
    try:
        return importlib.import_module(module or tracker)
    except ImportError as error:
        raise InputError(f"training.tracker={tracker} needs {tracker}: pip install 'regard[{extra}]'") from error
