"""A classifier of pictures, ready to use: pictures in, `PictureClassification`s out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers import Pictures
from regard.layers.output import check_finite
from regard.metrics.classification import OF_EACH_CLASS, by_class, classification_scores
from regard.tasks.picture_classification.store import LABEL, PictureStore
from regard.tasks.picture_classification.task import PictureClassificationTask, batch_of
from regard.tasks.pictures import Picture, PictureClassification, frames_of
from regard.tasks.predictor import Predictor

TOGETHER = 256
"""Pictures read at once."""


class PictureClassifierPredictor(Predictor[PictureClassificationTask]):
    """A classifier of pictures, ready to use.

    Arguments:
        model: a `regard.layers.PictureClassifier`.
        task: size of pictures, and classes.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("accuracy", "f1")
    judged_of_each: ClassVar[tuple[str, ...]] = OF_EACH_CLASS
    judged_always: ClassVar[bool] = True

    def classify(self, picture: Picture) -> PictureClassification:
        """The class of one picture.

        Arguments:
            picture: a file, or an array (Y, X, C) or (Y, X) uint8; one of another size is made to fit.

        Raises:
            InputError: for a picture that cannot be read.
        """
        return self.classify_batch([picture])[0]

    def classify_batch(self, pictures: Sequence[Picture]) -> list[PictureClassification]:
        """The classes of many pictures; the answers come in the order of the pictures.

        Raises:
            InputError: as `classify`, and for an array of one picture in place of a list of them.
        """
        if not isinstance(pictures, list | tuple):
            raise InputError(
                f"pictures are a {type(pictures).__name__}; give a list with one for each, or use classify"
            )
        made: list[PictureClassification] = []
        for start in range(0, len(pictures), TOGETHER):
            shares = self.probabilities(self.read(pictures[start : start + TOGETHER]))
            found = [PictureClassification.of(self.task.classes, row) for row in shares.tolist()]
            for watcher in self._watchers():
                watcher.predicted(found, [])
            made += found
        return made

    def read(self, pictures: Sequence[Picture]) -> Pictures:
        """Pictures as the model reads them, on its device.

        Raises:
            InputError: as `classify`.
        """
        return batch_of(np.concatenate([frames_of(picture, self.task.size) for picture in pictures])).to(self.device)

    def probabilities(self, pictures: Pictures) -> Tensor:
        """Of every class, (B, classes) float32."""
        with torch.no_grad():
            return check_finite(self.model(pictures).float(), "these pictures").softmax(dim=-1).cpu()

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """Accuracy, F1 as the mean over classes, and figures of each class."""
        pixels = cast(PictureStore, data).pictures[:count]
        right = data.numbers(LABEL)[:count].tolist()
        names = self.task.classes
        predicted = list(self._predicted(pixels))
        scores = classification_scores([names[i] for i in right], [names[i] for i in predicted], names)
        return accuracy_and_f1(right, predicted, len(names)) | by_class(scores.classes)

    def _predicted(self, pixels: np.ndarray) -> Iterator[int]:
        for start in range(0, len(pixels), TOGETHER):
            yield from self.probabilities(batch_of(pixels[start : start + TOGETHER]).to(self.device)).argmax(1).tolist()


def accuracy_and_f1(right: Sequence[int], predicted: Sequence[int], classes: int) -> dict[str, float]:
    """The metrics of predictions, both as numbers of classes."""
    scores = classification_scores(right, predicted, range(classes))
    return {"accuracy": scores.accuracy, "f1": scores.macro_f1}
