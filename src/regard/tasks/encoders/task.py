"""What a task that reads whole texts is to training and to folders."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers import FIXED_OUTPUTS, HeadKind
from regard.structure import from_mapping
from regard.tasks.card import write_with_card
from regard.tasks.encoders.inputs import TEXT
from regard.tasks.encoders.open_folder import obstacle, write_tokenizer_config
from regard.tasks.task import Task
from regard.text import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderTask(Task):
    """What turns one or two texts into an encoder's tensors, and its outputs into a loss.

    Arguments:
        tokenizer: for all texts.
        maximum_length: the most tokens of one input, special ones included; what is longer is cut, or read in windows.
    """

    unit: ClassVar[str] = "examples"
    head: ClassVar[HeadKind]
    """What the model tells of a text."""

    tokenizer: Tokenizer
    maximum_length: int = 128

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The one there is."""
        return {"text": self.tokenizer}

    @property
    def outputs(self) -> int:
        """How many numbers the head gives."""
        return FIXED_OUTPUTS[self.head]

    def model_settings(self) -> dict[str, Any]:
        """What the task decides of a model's config."""
        return {
            "vocabulary": self.tokenizer.size,
            "padding_id": self.tokenizer.padding_id,
            "head": self.head,
            "outputs": self.outputs,
        }

    @property
    def texts(self) -> int:
        """How many texts one input is."""
        return 1

    def settings_of_some(self) -> dict[str, Any]:
        """Of models that make a vector of each text: how many an input is, and which tokens stand around and between texts."""
        tokenizer = self.tokenizer
        around = {tokenizer.start_id, tokenizer.separator_id, tokenizer.end_id}
        return {"texts": self.texts, "boundary_ids": tuple(sorted(around))}

    @property
    def readings(self) -> int:
        """How often an input is read: 2 for pairs in both orders."""
        return 1

    def lengths(self, data: TokenStore) -> np.ndarray:
        """Tokens of each input, (N, 1), in all of its readings."""
        return self.readings * data.lengths(TEXT)[:, None]

    def labels(self, data: TokenStore) -> np.ndarray:
        """One label for each input, (N,)."""
        return np.ones(len(data), dtype=np.int64)

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse inputs that are longer than the model has positions for.

        Raises:
            InputError: naming the settings.
        """
        del train, validation
        limit = model.maximum_length
        if self.maximum_length > limit:
            raise InputError(
                f"data.maximum_length is {self.maximum_length} where the model has {limit} positions; lower it, or raise "
                f"{model.length_setting}"
            )

    def settings(self) -> dict[str, Any]:
        """All that prediction needs beside the tokenizer, as regard.json has it: the fields, unless a task says otherwise."""
        return {part.name: getattr(self, part.name) for part in fields(self) if part.name != "tokenizer"}

    @property
    @abstractmethod
    def use(self) -> tuple[str, ...]:
        """Lines of Python that show what a model of this task does, for the model card."""

    def said(self) -> dict[str, Any]:
        """What config.json has to hold for other programs beside the model's own config, such as the names of labels."""
        return {}

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizer into `folder`; return what else regard.json has to hold."""
        self.tokenizer.save(folder)
        return {"name": self.name, **self.settings()}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> Self:
        """The task that `save` wrote into `folder`."""
        settings = {key: value for key, value in values.items() if key != "name"}
        return from_mapping(cls, {"tokenizer": Tokenizer.load(folder), **settings}, f"{folder / 'regard.json'}: task")

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
        write_with_card(
            folder,
            config,
            tensors,
            task=self.save(folder),
            recipe=recipe,
            metrics=metrics,
            use=self.use,
            obstacle=obstacle(self.tokenizer),
            said=self.said(),
        )
        write_tokenizer_config(folder, self.tokenizer, maximum=config.maximum_positions)
