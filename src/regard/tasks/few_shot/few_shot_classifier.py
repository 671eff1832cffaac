"""A few-shot learner ready to use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch

from regard.data.characters import with_bright_ink
from regard.errors import InputError
from regard.layers.output import check_finite
from regard.tasks.few_shot.task import EpisodeBatch, FewShotTask
from regard.tasks.pictures import Picture, PictureClassification, frames_of
from regard.tasks.predictor import Predictor

TOGETHER = 64
"""Pictures asked about at once."""


class FewShotClassifier(Predictor[FewShotTask]):
    """A few-shot learner ready to use: a few labelled pictures and one more in, a `PictureClassification` out.

    Arguments:
        model: a `FewShotLearner`.
        task: what an episode is.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    def classify(self, shown: Sequence[tuple[Picture, str]], asked: Picture) -> PictureClassification:
        """The label of a picture, learnt from those shown.

        Arguments:
            shown: pictures with labels, so many labels and so many pictures of each as the model was trained with. A picture is a
                file, or an array (Y, X) or (Y, X, C) of uint8; it is made grey, fitted into the model's square, and turned into
                its negative where its edge is bright, as in training.
            asked: the picture whose label is to be told.

        Raises:
            InputError: for another number of labels or of pictures of one, or what is no picture.
        """
        return self.classify_batch(shown, [asked])[0]

    def classify_batch(
        self, shown: Sequence[tuple[Picture, str]], asked: Sequence[Picture]
    ) -> list[PictureClassification]:
        """The labels of many pictures, each told from those shown as if it were the only one.

        Arguments:
            shown, asked: as in `classify`; the answers come in the order of `asked`.

        Raises:
            InputError: as `classify`.
        """
        names = self._labels([label for _, label in shown])
        examples = [self._read(picture) for picture, _ in shown]
        labels = torch.tensor([[names.index(label) for _, label in shown]])
        found: list[PictureClassification] = []
        for start in range(0, len(asked), TOGETHER):
            further = [self._read(picture) for picture in asked[start : start + TOGETHER]]
            pictures = torch.from_numpy(np.stack([*examples, *further]))[None]
            unknown = torch.zeros(1, len(further), dtype=torch.int64)
            batch = EpisodeBatch(pictures, labels, unknown).to(self.device)
            with torch.no_grad():
                logits = check_finite(self.model(batch.pictures, batch.labels).float(), "these pictures")
                shares = logits.softmax(dim=-1)[0]
            found += [PictureClassification.of(names, row) for row in shares.tolist()]
        return found

    def _labels(self, given: Sequence[str]) -> list[str]:
        """The labels of the pictures shown, each once.

        Raises:
            InputError: there are not as many as the model was trained with, or not as many pictures of each.
        """
        counts = Counter(given)
        if len(counts) != self.task.ways or set(counts.values()) != {self.task.shots}:
            have = ", ".join(f"{label} ({count})" for label, count in sorted(counts.items())[:20]) or "none"
            raise InputError(
                f"the pictures shown are of {len(counts)} classes: {have}; this model learns from {self.task.ways} classes with "
                f"{self.task.shots} picture(s) of each, show as many"
            )
        return sorted(counts)

    def _read(self, picture: Picture) -> np.ndarray:
        """A picture as in training: (side, side) uint8, ink bright on black."""
        return with_bright_ink(frames_of(picture, self.task.size)[0, ..., 0])
