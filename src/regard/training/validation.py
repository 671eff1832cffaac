"""Losses on the validation set: of all of it, and of each group that the task tells apart."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
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


MOST_NAMED = 20
"""The most classes, labels or numbers of which each evaluation keeps figures."""


def names_of_each(metrics: Sequence[str], task: Task, best: str) -> list[str]:
    """The names of what `Predictor.judge` finds of each class, such as `f1.spam`; of many classes that of `best` alone.

    Arguments:
        metrics: the predictor's `judged_of_each`.
        best: `training.best`.

    Raises:
        InputError: where `best` names a class that there is not.
    """
    metric, _, name = best.partition(".")
    if metric in metrics and name and name not in task.named:
        raise InputError(f"training.best is {best!r}, and there is no {name!r}; {nearest(name, task.named)}")
    shown = task.named if len(task.named) <= MOST_NAMED else ()
    names = [f"{each}.{of}" for of in shown for each in metrics]
    return names if not name or best in names or metric not in metrics else [*names, best]


def judged_names(judged: tuple[str, ...], task: Task) -> list[str]:
    """The names of the metrics that `Predictor.judge` finds, in order: of all examples, then of each group."""
    groups = ["", *(f".{group}" for group in task.group_names)]
    return [f"{name}{group}" for group in groups for name in judged]
