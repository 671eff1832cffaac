"""A few-shot learner ready to use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.data.pictures import fitted
from regard.errors import InputError
from regard.tasks.few_shot.task import EpisodeBatch, FewShotTask
from regard.tasks.predictor import Predictor

Picture = np.ndarray
"""(Y, X) uint8, ink bright on black; of another size than the model's, it is shrunk or stretched."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FewShotClassification:
    """What a model says of a picture after a few labelled ones.

    Arguments:
        label: the most probable one.
        probability: of it.
        probabilities: of every label.
    """

    label: str
    probability: float
    probabilities: dict[str, float]


class FewShotClassifier(Predictor[FewShotTask]):
    """A few-shot learner ready to use: a few labelled pictures and one more in, a `FewShotClassification` out.

    Arguments:
        model: a `FewShotLearner`.
        task: what an episode is.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    def classify(self, shown: Sequence[tuple[Picture, str]], asked: Picture) -> FewShotClassification:
        """The label of a picture, learnt from those shown.

        Arguments:
            shown: pictures with labels, so many labels and so many pictures of each as the model was trained with.
            asked: the picture whose label is to be told.

        Raises:
            InputError: for another number of labels or of pictures of one, or what is no picture.
        """
        task = self.task
        names = sorted({label for _, label in shown})
        counts = {name: sum(label == name for _, label in shown) for name in names}
        if len(names) != task.ways or set(counts.values()) != {task.shots}:
            raise InputError(
                f"the pictures shown have {len(names)} labels, {counts}; this model wants {task.ways} labels with "
                f"{task.shots} picture(s) each"
            )
        pictures = np.stack([self._fitted(picture) for picture in (*(each for each, _ in shown), asked)])
        labels = torch.tensor([names.index(label) for _, label in shown])
        batch = EpisodeBatch(torch.from_numpy(pictures)[None], labels[None], torch.zeros(1, 1, dtype=torch.int64))
        batch = batch.to(self.device)
        with torch.no_grad():
            shares = self.model(batch.pictures, batch.labels).float().softmax(dim=-1)[0, 0].tolist()
        best = max(range(len(names)), key=shares.__getitem__)
        return FewShotClassification(
            label=names[best], probability=shares[best], probabilities=dict(zip(names, shares, strict=True))
        )

    def _fitted(self, picture: Picture) -> np.ndarray:
        if not isinstance(picture, np.ndarray) or picture.ndim != 2 or picture.dtype != np.uint8 or not picture.size:
            raise InputError("a picture is an array (Y, X) of uint8, ink bright on black; give such")
        return fitted(picture[..., None], self.task.side, self.task.side, "pad")[..., 0]
