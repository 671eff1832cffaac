"""Captioning, as a task."""

from __future__ import annotations

from regard.generation import GenerationSettings
from regard.tasks.captioning.captioner import Captioner
from regard.tasks.captioning.data import CaptionData
from regard.tasks.captioning.evaluation import evaluate
from regard.tasks.captioning.preparation import prepare
from regard.tasks.captioning.task import CaptioningTask
from regard.tasks.preparation import TokenizerSettings
from regard.tasks.spec import TaskSpec

CAPTIONING = TaskSpec(
    task=CaptioningTask,
    predictor=Captioner,
    interface="captioner",
    sections={"data": CaptionData, "tokenizer": TokenizerSettings, "generation": GenerationSettings},
    prepare=prepare,
    evaluate=evaluate,
    filled_in={
        "target_vocabulary": 1,
        "padding_id": 0,
        "start_id": 0,
        "end_id": 0,
        "picture_height": 1 << 12,  # halved as often as any model halves it, it is still a whole number
        "picture_width": 1 << 12,
        "picture_channels": 1,
        "frames": 1,
    },
)
