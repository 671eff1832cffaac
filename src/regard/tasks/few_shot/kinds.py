"""Learning from a few pictures, as a task."""

from __future__ import annotations

from regard.tasks.few_shot.data import FewShotData
from regard.tasks.few_shot.evaluation import evaluate_episodes, read_episodes
from regard.tasks.few_shot.few_shot_classifier import FewShotClassifier
from regard.tasks.few_shot.preparation import prepare
from regard.tasks.few_shot.task import FewShotTask
from regard.tasks.spec import TaskSpec

FEW_SHOT = TaskSpec(
    task=FewShotTask,
    predictor=FewShotClassifier,
    interface="few_shot",
    sections={"data": FewShotData},
    prepare=prepare,
    evaluate=evaluate_episodes,
    read=read_episodes,
    filled_in={"ways": 2, "shots": 1, "side": 256},
)
