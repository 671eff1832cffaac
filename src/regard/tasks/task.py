"""What a task is to training and to folders, whatever it is about."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.token_store import TokenStore
from regard.old_names import old_members
from regard.structure import renamed
from regard.tasks.card import write_with_card
from regard.text import Tokenizer


class Batch(Protocol):
    """What one step of training reads."""

    def to(self, device: torch.device) -> Self:
        """The same batch on another device."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TensorBatch:
    """A `Batch` whose fields are tensors, or hold some."""

    def to(self, device: torch.device) -> Self:
        """The same batch on another device."""
        values = {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}
        return dataclasses.replace(
            self, **{name: value.to(device) for name, value in values.items() if hasattr(value, "to")}
        )


@renamed(beside="auxiliary")
@dataclass(frozen=True, slots=True, eq=False)
class LossSum:
    """A loss summed over labels, so that sums of several batches add up before they are divided.

    Arguments:
        total: the sum, a scalar with a gradient.
        tokens: how many labels it is over.
        correct: how many of them had the highest logit, alone.
        auxiliary: further losses by name, each over labels of its own, as `Task.auxiliary_labels` counts them. What is learned
            from is the sum of the means.
    """

    total: Tensor
    tokens: int
    correct: Tensor
    auxiliary: Mapping[str, LossSum] = field(default_factory=dict)


@old_members(beside="auxiliary_labels", metrics_beside="auxiliary_metrics")
class Task(ABC):
    """Turns strings into a model's tensors, and its outputs into a loss.

    One object holds all that prediction needs besides the model, and is saved in its folder. The training loop and the folders
    know of a task only what stands here.
    """

    name: ClassVar[str]

    unit: ClassVar[str] = "tokens"
    """What `labels` counts, and with it a run's `tokens`: for texts with one prediction each it is `examples`."""

    @property
    def named(self) -> tuple[str, ...]:
        """Classes, labels or numbers that are judged one by one; none unless a task says so."""
        return ()

    def metric_words(self) -> dict[str, str]:
        """What to call metrics, where it is otherwise than usual; nothing unless a task says so."""
        return {}

    @property
    @abstractmethod
    def tokenizers(self) -> Mapping[str, Tokenizer]:
        """The tokenizers by what they read; one that is used twice once."""

    @abstractmethod
    def model_settings(self) -> dict[str, Any]:
        """What the task decides of a model's config, such as the sizes of its vocabularies."""

    def settings_of_some(self) -> dict[str, Any]:
        """What the task decides of the config of those models that have such a setting; nothing unless a task says so."""
        return {}

    @abstractmethod
    def lengths(self, data: TokenStore) -> np.ndarray:
        """The tokens that each example takes of a batch, (N, columns) int64: what examples are bucketed by."""

    @abstractmethod
    def labels(self, data: TokenStore) -> np.ndarray:
        """Over how many labels the loss of each example is summed, (N,) int64."""

    def auxiliary_labels(self, data: TokenStore) -> Mapping[str, np.ndarray]:
        """Over how many labels each further loss of an example is summed, (N,) int64 by its name; none unless a task says so."""
        del data
        return {}

    def epoch_rows(self, data: TokenStore) -> Callable[[int], np.ndarray] | None:
        """By the number of an epoch the rows that it learns from; None where that is all of them, as it is unless a task says so.

        The rows of an epoch are a function of its number, so that a run that is resumed takes the same.
        """
        del data
        return None

    @abstractmethod
    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> Any:
        """The examples of these rows as a `Batch`."""

    def training_batch(self, data: TokenStore, rows: Sequence[int], draw: int) -> Any:
        """The same to learn from: what `read_batch` gives, unless a task samples something again each time, such as masks.

        Arguments:
            draw: a number that differs from epoch to epoch. All that is sampled is a function of it and the row, so that a run
                that is resumed samples the same.
        """
        del draw
        return self.read_batch(data, rows)

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any, *, smoothing: float = 0.0) -> LossSum:
        """The loss of a batch, summed over its labels.

        Arguments:
            smoothing: epsilon of label smoothing.
        """

    @abstractmethod
    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Data and vocabularies in a few words, for the user."""

    @abstractmethod
    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse, before training starts, a model that cannot do what it will be asked for.

        Raises:
            InputError: such as for examples that are longer than the model has positions for.
        """

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """What a validation says, `loss` among it.

        Arguments:
            loss: the mean over labels.
            right: the share of labels that had the highest logit.
        """
        return {"loss": loss, "perplexity": math.exp(min(50.0, loss)), "token_accuracy": right}

    def auxiliary_metrics(self, name: str, loss: float, right: float) -> dict[str, float]:
        """What a validation says of a further loss; it has been added to `loss` already."""
        return {f"{name}_loss": loss, f"{name}_accuracy": right}

    def counts(self, data: TokenStore) -> dict[str, int]:
        """How many examples are of each of `named`; nothing unless a task says so."""
        del data
        return {}

    @property
    def group_names(self) -> tuple[str, ...]:
        """Of the groups of examples that validation distinguishes; none unless a task says so."""
        return ()

    def groups(self, data: TokenStore) -> Mapping[str, Sequence[int]]:
        """The rows of each group."""
        del data
        return {}

    @abstractmethod
    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizers into `folder`; return what regard.json has to hold of the task, `name` among it."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> Self:
        """The task that `save` wrote into `folder`, `values` being what it returned."""

    @property
    def use(self) -> Sequence[str]:
        """Lines of Python for the model card, which show what `model` does."""
        return ()

    def unsupported_reason(self, config: Any) -> str:
        """Why other programs cannot read the tokenizers, as half a sentence; empty where they can.

        Arguments:
            config: of the model.
        """
        del config
        return ""

    def hf_fields(self) -> dict[str, Any]:
        """What config.json says of the task to other programs, such as the names of classes; nothing unless a task says so."""
        return {}

    def hf_token_ids(self, config: Any) -> dict[str, int]:
        """Ids of the tokenizer that config.json repeats for other programs; none unless a task says so.

        Arguments:
            config: of the model.
        """
        del config
        return {}

    def write_for_others(self, folder: Path, config: Any, opens: bool) -> None:  # noqa: B027  # mostly nothing
        """Write further files of other programs, such as tokenizer_config.json; none unless a task says so.

        Arguments:
            opens: whether other programs open the folder's config and weights.
        """

    def write(
        self,
        folder: Path,
        config: Any,
        tensors: Mapping[str, Tensor],
        *,
        recipe: Mapping[str, Any],
        metrics: Mapping[str, float],
    ) -> None:
        """Write all files of a model into an existing folder: config, weights, tokenizers, regard.json, model card."""
        layout = write_with_card(
            folder,
            config,
            tensors,
            task=self.save(folder),
            recipe=recipe,
            metrics=metrics,
            use=self.use,
            obstacle=self.unsupported_reason(config),
            said=self.hf_fields() | self.hf_token_ids(config),
        )
        self.write_for_others(folder, config, "why" not in layout)
