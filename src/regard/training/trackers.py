"""Trackers of experiments beside the log: TensorBoard, MLflow, Weights & Biases. All write into the run's folder by default."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from regard.errors import InputError
from regard.training.callbacks import Callback, TensorBoard
from regard.training.progress import Progress

PROJECT = "regard"
"""What the experiment (MLflow) or project (Weights & Biases) is called, unless their own variables of the environment say."""


def tracker_of(name: str, folder: Path) -> Callback | None:
    """The tracker of a run in `folder`; None for `none`.

    Raises:
        InputError: where its package is not installed.
    """
    if name == "none":
        return None
    if name == "tensorboard":
        return TensorBoard(folder / "tensorboard")
    return (MLflow if name == "mlflow" else WeightsAndBiases)(folder)


def numbers_of(event: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a line of the log, under its event's name.

    >>> numbers_of({"event": "train", "step": 3, "loss": 0.5, "note": "a"})
    {'train/loss': 0.5}
    """
    return {
        f"{event['event']}/{name}": float(value)
        for name, value in event.items()
        if name != "step" and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


class MLflow(Callback):
    """Writes the log's numbers as a run of MLflow, a new one for each sitting.

    It goes to `mlflow.db` in the run's folder, or where MLFLOW_TRACKING_URI says, as the experiment MLFLOW_EXPERIMENT_NAME.

    Arguments:
        folder: of the run.

    Raises:
        InputError: where mlflow is not installed.
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

    def stepped(self, progress: Progress, tokens_per_second: float) -> None:
        """Nothing: numbers come with the log's lines."""

    def logged(self, event: Mapping[str, Any]) -> None:
        """Every number of the line, under its event's name."""
        for name, value in numbers_of(event).items():
            self._client.log_metric(self._run, name, value, step=event["step"])

    def ended(self, progress: Progress) -> None:
        """Close the run."""
        self._client.set_terminated(self._run)


class WeightsAndBiases(Callback):
    """Writes the log's numbers as a run of Weights & Biases, a new one for each sitting.

    It is written to the run's folder and stays there (`wandb sync` sends it) unless WANDB_MODE=online asks for the network.

    Arguments:
        folder: of the run.

    Raises:
        InputError: where wandb is not installed.
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

    def stepped(self, progress: Progress, tokens_per_second: float) -> None:
        """Nothing: numbers come with the log's lines."""

    def logged(self, event: Mapping[str, Any]) -> None:
        """Every number of the line, under its event's name."""
        self._run.log(numbers_of(event), step=event["step"])

    def ended(self, progress: Progress) -> None:
        """Close the run."""
        self._run.finish()


def _package(tracker: str, extra: str) -> Any:
    try:
        return importlib.import_module(tracker)
    except ImportError as error:
        raise InputError(f"training.tracker={tracker} needs {tracker}: pip install 'regard[{extra}]'") from error
