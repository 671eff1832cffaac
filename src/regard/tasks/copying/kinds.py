"""Copying, as a task."""

from __future__ import annotations

from regard.tasks.copying.copier import Copier
from regard.tasks.copying.data import CopyingData
from regard.tasks.copying.evaluation import evaluate_copies, read_copies
from regard.tasks.copying.preparation import prepare
from regard.tasks.copying.task import CopyingTask
from regard.tasks.spec import TaskSpec

COPYING = TaskSpec(
    task=CopyingTask,
    predictor=Copier,
    interface="transducer",
    sections={"data": CopyingData},
    prepare=prepare,
    evaluate=evaluate_copies,
    read=read_copies,
    filled_in={"inputs": 9, "outputs": 8},
)
