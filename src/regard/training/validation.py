"""Losses on the validation set: of all of it, and of each group that the task tells apart."""

from __future__ import annotations

from regard.data.token_store import TokenStore
from regard.tasks.task import Task
from regard.training.loop import Loop, evaluation_loss


def losses_by_group(loop: Loop, task: Task, store: TokenStore) -> dict[str, float]:
    """What `evaluation_loss` finds on each group of examples, as `loss.de`; every worker calls it.

    Empty where the task tells none apart.
    """
    metrics: dict[str, float] = {}
    for group, rows in task.groups(store).items():
        metrics |= {f"{name}.{group}": value for name, value in evaluation_loss(loop, store, rows).items()}
    return metrics


def judged_names(judged: tuple[str, ...], task: Task) -> list[str]:
    """The names of the metrics that `Predictor.judge` finds, in order: of all examples, then of each group."""
    groups = ["", *(f".{group}" for group in task.group_names)]
    return [f"{name}{group}" for group in groups for name in judged]
