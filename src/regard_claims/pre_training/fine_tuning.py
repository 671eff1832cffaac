"""The effects of pre-training and of an auxiliary loss on a decoder that is fine-tuned on labelled texts."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.checkpoints import read_config
from regard.data.labelled import LabelledText, read_labelled
from regard.errors import InputError
from regard.models.config import check
from regard.tasks.spec import spec_of
from regard.training.recipe import folder_of
from regard.training.run import train
from regard_claims.shared import NEVER, file_of, split_file

TASK = "classification"
PARTS = {"train": ("train",), "validation": ("dev", "val", "valid", "validation", "test")}
"""The names of each split, one of which is between the dots of its file's name."""

SAMPLE = 0x5A3D
"""Separates the random numbers that sample the labels from others of the same seed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FineTuning:
    """A decoder fine-tuned to classify texts, from pre-trained weights or from random ones (Radford et al. 2018, table 5).

    The seed samples the training examples. Measured is the accuracy on the validation file at the end of training, in per cent.

    Arguments:
        path: a folder with labelled texts for training and validation, such as `train.tsv` and `dev.tsv`, plain or gzip, and with
            the model.
        format: the format of the files, as in `data.format`.
        model: the folder of the language model, in `path` or as a path of its own; `{seed}` is replaced by the seed.
        pretrained: whether to start from the model's weights. If not, only its sizes and its tokenizer are used.
        labels: the number of training examples. None: all.
        auxiliary: lambda, the weight of the language modelling loss.
        epochs: the number of passes over the training examples.
        learning_rate: the peak learning rate; it decreases linearly to 0.
        warmup: the number of updates in which the learning rate increases to its peak.
        batch_tokens: the number of tokens in an update, padding included.
        maximum_length: the largest number of tokens in a text; longer texts are truncated.

    Raises:
        InputError: for a size below its minimum.
    """

    precision: ClassVar[str] = "auto"
    path: str | None = None
    format: str = "auto"
    model: str = "gpt"
    pretrained: bool = True
    labels: int | None = None
    auxiliary: float = 0.5
    epochs: float = 3
    learning_rate: float = 1e-3
    warmup: int = 10
    batch_tokens: int = 1024
    maximum_length: int = 64

    def __post_init__(self) -> None:
        for name in ("labels", "epochs", "batch_tokens"):
            value = getattr(self, name)
            check(value is None or value >= 1, f"experiment.{name}", value, "at least 1", "raise it")

    @property
    def measures(self) -> tuple[str, ...]:
        """The accuracy in per cent."""
        return ("accuracy",)

    def run(self, seed: int) -> dict[str, float]:
        """Fine-tune the model, and measure its accuracy.

        Raises:
            InputError: for a missing or unreadable file or model, or fewer than `labels` training examples.
        """
        if self.path is None:
            raise InputError(
                "experiment.path is missing; name a folder with files of labelled texts for training and validation, and a model"
            )
        train_texts, held_out = self._read("train"), self._read("validation")
        if self.labels is not None and self.labels > len(train_texts):
            raise InputError(
                f"experiment.labels is {self.labels:,}, and there are {len(train_texts):,} training examples; lower it"
            )
        generator = np.random.Generator(np.random.Philox(key=[seed, SAMPLE]))
        chosen = [train_texts[row] for row in generator.permutation(len(train_texts))[: self.labels].tolist()]
        with tempfile.TemporaryDirectory(prefix="regard-") as place:
            run = train(self._recipe(seed), output=Path(place) / "run", data=chosen, validation=held_out)
        return {"accuracy": 100 * run.metrics["accuracy"]}

    def _recipe(self, seed: int) -> dict[str, Any]:
        folder = str(folder_of(str(file_of(self.path, self.model.replace("{seed}", str(seed))))))
        return {
            "task": TASK,
            "seed": seed,
            "model": {"pretrained": folder} if self.pretrained else sizes_of(folder),
            "data": {"auxiliary": self.auxiliary, "maximum_length": self.maximum_length},
            "tokenizer": {"path": folder},
            "training": {
                "epochs": self.epochs,
                "batch_tokens": self.batch_tokens,
                "learning_rate": self.learning_rate,
                "betas": [0.9, 0.999],
                "epsilon": 1e-8,
                "weight_decay": 0.01,
                "schedule": "linear",
                "precision": self.precision,
                "warmup": self.warmup,
                "evaluate_every": NEVER,
                "save_every": NEVER,
                "best": "accuracy",
            },
        }

    def _read(self, split: str) -> Sequence[LabelledText]:
        file = split_file(Path(self.path or ""), PARTS[split], f"labelled texts for {split}", "tsv")
        return list(read_labelled(file, format=self.format))


def sizes_of(folder: str) -> dict[str, Any]:
    """The `model` section for a randomly initialized model with the sizes of the model in a folder."""
    config = read_config(folder)
    filled = {*spec_of(TASK).derived_config, "end_id"}
    values = {part.name: getattr(config, part.name) for part in dataclasses.fields(config) if part.name not in filled}
    return {"name": config.model_type, **values}
