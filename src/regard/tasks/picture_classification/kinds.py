"""Picture classification, as a task."""

from __future__ import annotations

import math

from regard.tasks.picture_classification.classifier import PictureClassifierPredictor
from regard.tasks.picture_classification.data import PictureData
from regard.tasks.picture_classification.evaluation import evaluate_pictures, picture_beside, read_pictures
from regard.tasks.picture_classification.foreign import classifies_pictures, foreign_picture_classifier
from regard.tasks.picture_classification.preparation import prepare
from regard.tasks.picture_classification.task import PictureClassificationTask
from regard.tasks.spec import TaskSpec


class AnySize(int):
    """A size that is not known yet, told from one that a user gives, which has a bound."""


ANY_SIDE = AnySize(math.lcm(*range(1, 65)) << 8)
"""A side in pixels that divides by every usual patch, and can be halved as often as any model halves it."""

PICTURE_CLASSIFICATION = TaskSpec(
    task=PictureClassificationTask,
    predictor=PictureClassifierPredictor,
    interface="picture_classifier",
    sections={"data": PictureData},
    prepare=prepare,
    evaluate=evaluate_pictures,
    read=read_pictures,
    beside=picture_beside,
    filled_in={"picture_height": ANY_SIDE, "picture_width": ANY_SIDE, "picture_channels": 1, "outputs": 2},
    fits=classifies_pictures,
    foreign=foreign_picture_classifier,
)
