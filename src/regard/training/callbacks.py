"""Who may watch a run: progress bars, trackers, recorders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from regard.tasks.predictor import Predictor
from regard.tasks.task import Task
from regard.training.progress import Progress


class Callback:
    """Told of what happens in a run, on the first worker only; a subclass has the methods it needs, the others do nothing.

    >>> class Answers(Callback):
    ...     def evaluated(self, predictor, metrics, progress):
    ...         print(progress.step, predictor.translate("9 May 2017").text)
    >>> Answers().stepped(Progress(), 0.0)  # regard.train("dates", output="runs/dates", callbacks=[Answers()])
    """

    def prepared(self, task: Task) -> None:
        """Before `started`, with what is learnt: its classes, and the unit of which `progress.tokens` counts."""

    def started(self, model: nn.Module, progress: Progress, total_steps: int | None) -> None:
        """Before the first update of this sitting."""

    def stepped(self, progress: Progress, tokens_per_second: float) -> None:
        """After each update.

        Arguments:
            tokens_per_second: what was learnt from, in the task's unit: target tokens, or examples, words or pictures.
        """

    def evaluated(self, predictor: Predictor[Any], metrics: Mapping[str, float], progress: Progress) -> None:
        """After each evaluation, with the model as it is then, ready to predict; not of models sharded by FSDP.

        Arguments:
            predictor: what `regard.load` would make of the model now. It is trained on afterwards: keep its answers, not itself.
            metrics: of the validation data.
        """

    def logged(self, event: Mapping[str, Any]) -> None:
        """With each line of the log."""

    def ended(self, progress: Progress) -> None:
        """After the last update, or when the run is interrupted."""


class TensorBoard(Callback):
    """Writes the log's numbers as TensorBoard event files.

    Arguments:
        folder: where the event files go.

    Raises:
        InputError: where tensorboard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        from regard.errors import InputError

        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError as error:
            raise InputError("training.tracker=tensorboard needs tensorboard: pip install 'regard[track]'") from error
        self._make = SummaryWriter
        self._folder = folder
        self._writer: Any = None

    def started(self, model: nn.Module, progress: Progress, total_steps: int | None) -> None:
        """Open the event file; steps after the checkpoint that a killed process wrote are hidden."""
        self._writer = self._make(str(self._folder), purge_step=progress.step + 1)

    def stepped(self, progress: Progress, tokens_per_second: float) -> None:
        """Nothing: numbers come with the log's lines."""

    def logged(self, event: Mapping[str, Any]) -> None:
        """Every number of the line, under its event's name."""
        for name, value in event.items():
            if isinstance(value, int | float) and name != "step":
                self._writer.add_scalar(f"{event['event']}/{name}", value, event["step"])

    def ended(self, progress: Progress) -> None:
        """Close the event file."""
        self._writer.close()
