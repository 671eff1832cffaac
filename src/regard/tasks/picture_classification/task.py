"""What telling the class of a picture is to a model: pictures to tensors, logits to a loss, and the files that say so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.checkpoints.pictures import PREPROCESSOR, preprocessor_to_hf
from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.layers import Pictures
from regard.structure import from_mapping
from regard.tasks.card import write_with_card
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.picture_classification.moving import moved
from regard.tasks.picture_classification.store import LABEL, PictureStore
from regard.tasks.pictures import PictureSize
from regard.tasks.task import LossSum, Task
from regard.text import Tokenizer


@dataclass(frozen=True, slots=True, eq=False)
class PictureBatch:
    """What one step of training reads.

    Arguments:
        pictures: B of them.
        labels: (B,) int64, the number of each one's class.
    """

    pictures: Pictures
    labels: Tensor

    def to(self, device: torch.device) -> PictureBatch:
        """The same batch on another device."""
        return PictureBatch(self.pictures.to(device), self.labels.to(device))


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureClassificationTask(Task):
    """What turns pictures with classes into a model's tensors, and its outputs into a loss.

        p(class | picture) = softmax(logits)

    Arguments:
        size: of pictures.
        classes: by name, in the order of the model's outputs.
        shift, flip: what is done to pictures in training.
    """

    name: ClassVar[str] = "picture_classification"
    unit: ClassVar[str] = "pictures"

    size: PictureSize
    classes: tuple[str, ...]
    shift: int = 0
    flip: bool = False

    @property
    def named(self) -> tuple[str, ...]:
        """The classes."""
        return self.classes

    def counts(self, data: TokenStore) -> dict[str, int]:
        """How many pictures are of each class."""
        found = np.bincount(data.numbers(LABEL), minlength=len(self.classes)).tolist()
        return dict(zip(self.classes, found, strict=True))

    def metric_words(self) -> dict[str, str]:
        """F1 with what it is of: always the mean over classes."""
        return {"f1": f"F1 (mean of {len(self.classes)} classes)"}

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """None: there is no text."""
        return {}

    def number_of(self, label: str, where: str) -> int:
        """The number of a class.

        Raises:
            InputError: for a label that is none of the classes.
        """
        if label not in self.classes:
            raise InputError(f"{where}: the class {label!r} is none of the model's; {nearest(label, self.classes)}")
        return self.classes.index(label)

    def model_settings(self) -> dict[str, Any]:
        """The sizes of pictures, and how many classes there are."""
        return {
            "picture_height": self.size.height,
            "picture_width": self.size.width,
            "picture_channels": self.size.channels,
            "outputs": len(self.classes),
        }

    def lengths(self, data: TokenStore) -> np.ndarray:
        """One for each picture, (N, 1): a batch of so many tokens is one of so many pictures."""
        return np.ones((len(data), 1), dtype=np.int64)

    def labels(self, data: TokenStore) -> np.ndarray:
        """One for each picture, (N,)."""
        return np.ones(len(data), dtype=np.int64)

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> PictureBatch:
        """The pictures of these rows as a batch."""
        return self._batch(data, rows, self._pixels(data, rows))

    def training_batch(self, data: TokenStore, rows: Sequence[int], draw: int) -> PictureBatch:
        """The same to learn from: moved and mirrored anew each time where that is asked for."""
        pixels = self._pixels(data, rows)
        if self.shift or self.flip:
            pixels = moved(pixels, rows, draw, shift=self.shift, flip=self.flip)
        return self._batch(data, rows, pixels)

    def _pixels(self, data: TokenStore, rows: Sequence[int]) -> np.ndarray:
        return cast(PictureStore, data).pictures[np.asarray(rows, dtype=np.int64)]

    def _batch(self, data: TokenStore, rows: Sequence[int], pixels: np.ndarray) -> PictureBatch:
        labels = [int(data.sequence(LABEL, int(row))[0]) for row in rows]
        return PictureBatch(batch_of(pixels), torch.tensor(labels, dtype=torch.int64))

    def loss(self, model: nn.Module, batch: PictureBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the classes, summed over pictures."""
        total, correct = smoothed_cross_entropy(model(batch.pictures), batch.labels, smoothing=smoothing)
        return LossSum(total, len(batch.labels), correct)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The loss; how many are right is among what the model is judged by."""
        del right
        return {"loss": loss}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Pictures and classes in a few words."""
        size, names = self.size, self.classes
        few = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        return (
            f"{len(train):,} pictures to learn from, {len(validation):,} to validate on, of {size.height} x {size.width} pixels"
            f"{' in colour' if size.channels == 3 else ''}; {len(names)} classes ({few})"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Nothing keeps a model of this task's sizes from reading its pictures."""
        del model, train, validation

    def save(self, folder: Path) -> dict[str, Any]:
        """What regard.json has to hold; there are no other files."""
        del folder
        return {
            "name": self.name,
            "size": self.size.settings(),
            "classes": list(self.classes),
            "shift": self.shift,
            "flip": self.flip,
        }

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> PictureClassificationTask:
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
        """Write all files of a model into an existing folder; beside one of Hugging Face's how it wants its pictures."""
        use = ['print(model.classify("picture.png").label)']
        said = {
            "id2label": {str(number): name for number, name in enumerate(self.classes)},
            "label2id": {name: number for number, name in enumerate(self.classes)},
        }
        layout = write_with_card(
            folder, config, tensors, task=self.save(folder), recipe=recipe, metrics=metrics, use=use, said=said
        )
        if "why" not in layout:
            told = preprocessor_to_hf(config, self.size.as_steps())
            (folder / PREPROCESSOR).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def batch_of(pixels: np.ndarray) -> Pictures:
    """Pictures (B, Y, X, C) uint8 as a model reads them, each by itself."""
    copied = np.array(pixels)  # what is mapped cannot be written to
    frames = torch.from_numpy(copied).permute(0, 3, 1, 2).unsqueeze(1)
    return Pictures(frames, torch.ones(len(pixels), 1, dtype=torch.bool))
