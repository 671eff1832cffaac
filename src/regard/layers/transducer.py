"""What a model is asked that turns a sequence of vectors into another, step for step."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class TransducerConfig(Protocol):
    """What the task needs to know of a model's sizes."""

    @property
    def inputs(self) -> int:
        """I, the numbers read at each step."""
        ...

    @property
    def outputs(self) -> int:
        """O, the numbers given at each step."""
        ...


class Transducer(Protocol):
    """A model that reads vectors one after another and gives one at each step, from what it has read so far alone."""

    @property
    def config(self) -> TransducerConfig:
        """Its sizes."""
        ...

    def __call__(self, x: Tensor) -> Tensor:
        """X (B, T, I) to logits (B, T, O). Padding may only follow what is read: no step depends on those after it."""
        ...
