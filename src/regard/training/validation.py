"""What a run's model is worth on the validation set: losses, of all of it and of each group, and what the metrics are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.data.batching import Batches
from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.tasks.task import Task
from regard.training.checkpoint import Progress, Tally

if TYPE_CHECKING:
    from regard.training.loop import Loop


def means(tally: Tally) -> tuple[float, float]:
    """Mean loss, and share of right labels."""
    total, labels, right = tally
    return total / max(1, labels), right / max(1, labels)


def evaluation_loss(loop: Loop, data: TokenStore, rows: Sequence[int] | None = None) -> dict[str, float]:
    """Loss and accuracy by teacher forcing, without label smoothing, each worker taking its share of the batches.

    Arguments:
        rows: those to take; all where None.
    """
    taken = np.arange(len(data)) if rows is None else np.asarray(rows, dtype=np.int64)
    lengths = loop.task.lengths(data)[taken]
    batches = Batches(lengths, maximum_tokens=4 * loop.settings.batch_tokens).in_order()
    found, names = Progress(), list[str]()
    workers = loop.workers
    for start in range(0, len(batches), workers.count):
        place = start + workers.rank
        chosen = taken[batches[place if place < len(batches) else start]]
        batch = loop.task.read_batch(data, chosen.tolist()).to(workers.device)
        with torch.autocast(workers.device.type, dtype=loop.dtype, enabled=loop.dtype != torch.float32):
            loss = loop.task.loss(loop.wrapped, batch)
        names = list(loss.auxiliary)
        if place < len(batches):
            found.count(loss)
    own, *others = workers.added(found.tallies(names))
    metrics = loop.task.metrics_of(*means(own))
    for name, tally in zip(names, others, strict=True):
        mean, right = means(tally)
        metrics["loss"] += mean
        metrics |= loop.task.auxiliary_metrics(name, mean, right)
    return metrics


def losses_by_group(loop: Loop, task: Task, store: TokenStore) -> dict[str, float]:
    """What `evaluation_loss` finds on each group of examples, as `loss.de`; every worker calls it.

    Empty where the task distinguishes none.
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
        metrics: the predictor's `metrics_of_each`.
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
