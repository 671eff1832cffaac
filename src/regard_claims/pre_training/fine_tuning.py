"""What pre-training and an auxiliary loss are worth to a decoder that learns a task from some labels."""

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
"""How the files of each split are called, as one of the parts between dots."""

SAMPLE = 0x5A3D
"""Sets the draw of labels apart from others of the same seed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FineTuning:
    """A decoder fine-tuned to classify texts, as it was pre-trained or from weights drawn anew (Radford et al. 2018, table 5).

    The labels to learn from are drawn by the seed. Measured is the accuracy on the validation file at the end of the training.

    Arguments:
        path: a folder with files of labelled texts for training and validation, such as `train.tsv` and `dev.tsv`, perhaps gzip,
            and the model.
        format: of the files, as in `data.format`.
        model: the folder of the language model, in that folder or by itself; `{seed}` stands for the seed.
        pretrained: whether its weights are taken; where not, its sizes and its tokenizer are.
        labels: how many examples are learnt from; all where null.
        auxiliary: lambda, the weight of the language model's loss.
        epochs: passes over these examples.
        learning_rate: the peak, which falls to 0.
        warmup: updates in which it rises to that.
        batch_tokens: of one update, padding included.
        maximum_length: the most tokens of one text; longer ones are cut.

    Raises:
        InputError: for sizes that are none.
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
        """One, in per cent."""
        return ("accuracy",)

    def run(self, seed: int) -> dict[str, float]:
        """Fine-tune the model, and measure it.

        Raises:
            InputError: for a folder that lacks a file or the model, too few examples, or what cannot be read.
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
    """The `model` section that gives a model of the sizes of the one in a folder, with weights of its own."""
    config = read_config(folder)
    filled = {*spec_of(TASK).derived_config, "end_id"}
    values = {part.name: getattr(config, part.name) for part in dataclasses.fields(config) if part.name not in filled}
    return {"name": config.model_type, **values}
