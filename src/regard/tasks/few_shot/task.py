"""What learning from a few pictures is to a model: episodes to tensors, logits to a loss, and the files that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.characters import Episode, Episodes
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.structure import from_mapping
from regard.tasks.card import write_with_card
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.pictures import PictureSize
from regard.tasks.task import LossSum, Task
from regard.text import Tokenizer

PIXELS, CLASS = "pixels", "kind"
"""The columns of the token stores: the pixels of a picture, and the number of its class."""


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeBatch:
    """What one step of training reads.

    Arguments:
        pictures: (B, N K + Q, side, side) uint8, those with labels first.
        labels: (B, N K) int64, of these.
        asked: (B, Q) int64, the labels of the others, to be told.
    """

    pictures: Tensor
    labels: Tensor
    asked: Tensor

    def to(self, device: torch.device) -> EpisodeBatch:
        """The same batch on another device."""
        return EpisodeBatch(self.pictures.to(device), self.labels.to(device), self.asked.to(device))


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShotTask(Task):
    """What turns pictures into episodes, and a model's outputs into a loss.

    An example is a picture: the episode that asks about it is drawn anew each time it is learnt from, with other classes beside
    its own, other pictures of each, and other labels. So nothing of a class can be learnt but how to tell classes apart.

    Arguments:
        ways: N, classes of an episode.
        shots: K, labelled pictures of each.
        side: rows and columns of a picture, in pixels.
        turned: whether in training a character turned by quarters is four characters.
        asked: Q, pictures that an episode of training asks about; one of validation and evaluation asks about one.
    """

    name: ClassVar[str] = "few_shot"
    unit: ClassVar[str] = "pictures"

    ways: int
    shots: int
    side: int
    turned: bool = False
    asked: int = 1

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """None: there is no text."""
        return {}

    @property
    def size(self) -> PictureSize:
        """What every picture is made into."""
        return PictureSize(height=self.side, width=self.side, channels=1, fit="pad")

    def model_settings(self) -> dict[str, int]:
        """The sizes that the episodes decide."""
        return {"ways": self.ways, "shots": self.shots, "side": self.side}

    def episodes(self, data: TokenStore, *, training: bool = False) -> Episodes:
        """Draws episodes of the pictures of a store: as they are and about one, unless it is for training."""
        turned, asked = (self.turned, self.asked) if training else (False, 1)
        return Episodes(data.numbers(CLASS), ways=self.ways, shots=self.shots, turned=turned, asked=asked)

    def batch(self, data: TokenStore, episodes: Sequence[Episode]) -> EpisodeBatch:
        """Episodes of a store's pictures as tensors."""
        pictures = np.stack(
            [[self._picture(data, *each) for each in zip(e.pictures, e.turns, strict=True)] for e in episodes]
        )
        labels = torch.from_numpy(np.stack([episode.labels for episode in episodes]))
        shown = self.ways * self.shots
        return EpisodeBatch(torch.from_numpy(pictures), labels[:, :shown], labels[:, shown:])

    def lengths(self, data: TokenStore) -> np.ndarray:
        """Pictures of each episode of training, (N, 1)."""
        return np.full((len(data), 1), self.ways * self.shots + self.asked, dtype=np.int64)

    def labels(self, data: TokenStore) -> np.ndarray:
        """Pictures that each episode of training asks about, (N,)."""
        return np.full(len(data), self.asked, dtype=np.int64)

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> EpisodeBatch:
        """The episodes that ask about these pictures, always the same, nothing turned."""
        episodes = self.episodes(data)
        return self.batch(data, [episodes.about(row, 0) for row in rows])

    def training_batch(self, data: TokenStore, rows: Sequence[int], draw: int) -> EpisodeBatch:
        """Episodes that ask about these pictures, others each time."""
        episodes = self.episodes(data, training=True)
        return self.batch(data, [episodes.about(row, draw + 1) for row in rows])

    def loss(self, model: nn.Module, batch: EpisodeBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the classes that are asked about, summed over all of them."""
        logits = model(batch.pictures, batch.labels)
        total, correct = smoothed_cross_entropy(logits.flatten(0, 1), batch.asked.flatten(), smoothing=smoothing)
        return LossSum(total, batch.asked.numel(), correct)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The loss, and the share of pictures whose class was told."""
        return {"loss": loss, "accuracy": right}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Pictures, classes and episodes in a few words."""
        parts = [
            f"{len(data):,} pictures of {int(data.numbers(CLASS).max()) + 1:,} classes" for data in (train, validation)
        ]
        turned = ", each turned four ways," if self.turned else ""
        return (
            f"{parts[0]}{turned} to learn from, {parts[1]} to validate on; episodes of {self.ways} classes, "
            f"{self.shots} picture(s) of each; {self.asked} asked about"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse pictures of which no episode can be made.

        Raises:
            InputError: for too few classes, or too few pictures of one.
        """
        del model
        for name, data, training in (("training", train, True), ("validation", validation, False)):
            reason = self.episodes(data, training=training).too_few
            if reason:
                raise InputError(
                    f"the {name} pictures: {reason}; lower data.ways, data.shots or data.asked, or give more"
                )

    def save(self, folder: Path) -> dict[str, Any]:
        """What regard.json has to hold; there are no other files."""
        del folder
        return {"name": self.name, **self.model_settings(), "turned": self.turned, "asked": self.asked}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> FewShotTask:
        """The task that `save` told of."""
        settings = {key: value for key, value in values.items() if key != "name"}
        return from_mapping(cls, settings, f"{folder / 'regard.json'}: task")

    def write(
        self,
        folder: Path,
        config: Any,
        tensors: Mapping[str, Tensor],
        *,
        recipe: Mapping[str, Any],
        metrics: Mapping[str, float],
    ) -> None:
        """Write all files of a model into an existing folder."""
        use = [f"# {self.ways} classes, {self.shots} picture(s) of each: arrays of uint8, ink bright on black"]
        use.append('print(model.classify([(picture, "a"), (other, "b"), ...], asked).label)')
        write_with_card(folder, config, tensors, task=self.save(folder), recipe=recipe, metrics=metrics, use=use)

    def _picture(self, data: TokenStore, row: int, turns: int) -> np.ndarray:
        pixels = data.sequence(PIXELS, int(row)).astype(np.uint8).reshape(self.side, self.side)
        return np.rot90(pixels, int(turns))
