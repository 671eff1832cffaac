"""Learning classes from a few labelled pictures, episode by episode."""

from regard.tasks.few_shot.data import FewShotData
from regard.tasks.few_shot.evaluation import EpisodeEvaluation
from regard.tasks.few_shot.few_shot_classifier import FewShotClassifier
from regard.tasks.few_shot.task import EpisodeBatch, FewShotTask

__all__ = [
    "EpisodeBatch",
    "EpisodeEvaluation",
    "FewShotClassifier",
    "FewShotData",
    "FewShotTask",
]
