"""What a model is asked that learns classes from a few labelled pictures, and tells that of one more."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class FewShotConfig(Protocol):
    """What the task needs to know of a model's sizes."""

    @property
    def ways(self) -> int:
        """N, the classes of an episode."""
        ...

    @property
    def shots(self) -> int:
        """K, the labelled pictures of each class."""
        ...

    @property
    def side(self) -> int:
        """Rows and columns of a picture, in pixels."""
        ...


class FewShotLearner(Protocol):
    """A model that learns within a sequence: what it knows of the classes is what it has just been shown."""

    @property
    def config(self) -> FewShotConfig:
        """Its sizes."""
        ...

    def __call__(self, pictures: Tensor, labels: Tensor) -> Tensor:
        """The class of the last picture of each episode.

        Arguments:
            pictures: (B, T, Y, X) uint8, T - 1 labelled ones and the one that is asked about.
            labels: (B, T - 1) int64, in [0, N).

        Returns:
            (B, N) logits.
        """
        ...
