"""The base class of tasks: what training and folders need of a task."""

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
    """A batch for one step of training."""

    def to(self, device: torch.device) -> Self:
        """The same batch on another device."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TensorBatch:
    """A `Batch` whose fields are tensors, or objects with a method `to`."""

    def to(self, device: torch.device) -> Self:
        """The same batch on another device."""
        values = {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}
        return dataclasses.replace(
            self, **{name: value.to(device) for name, value in values.items() if hasattr(value, "to")}
        )


@renamed(beside="auxiliary")
@dataclass(frozen=True, slots=True, eq=False)
class LossSum:
    """A loss summed over labels, so that sums of several batches can be added before they are divided.

    Arguments:
        total: the sum, a scalar with a gradient.
        tokens: the number of labels in the sum.
        correct: the number of labels whose logit was larger than every other.
        auxiliary: auxiliary losses by name, each with its own labels, which `Task.auxiliary_labels` counts. Training minimises
            the sum of the means of all losses.
    """

    total: Tensor
    tokens: int
    correct: Tensor
    auxiliary: Mapping[str, LossSum] = field(default_factory=dict)


@old_members(beside="auxiliary_labels", metrics_beside="auxiliary_metrics")
class Task(ABC):
    """Turns examples into a model's tensors, and its outputs into a loss.

    The object has all that prediction needs besides the model, and is saved in the model's folder. The training loop and the
    folders use only the methods of this class.
    """

    name: ClassVar[str]

    unit: ClassVar[str] = "tokens"
    """What `labels` and a run's `tokens` count, such as `tokens`, or `examples` for texts with one prediction each."""

    @property
    def named(self) -> tuple[str, ...]:
        """The classes, labels or outputs with metrics of their own; empty by default."""
        return ()

    def metric_words(self) -> dict[str, str]:
        """Names of metrics for reports that differ from the usual ones; empty by default."""
        return {}

    @property
    @abstractmethod
    def tokenizers(self) -> Mapping[str, Tokenizer]:
        """The tokenizers by what they read, such as `source`; a shared one appears once."""

    @abstractmethod
    def model_settings(self) -> dict[str, Any]:
        """The settings of a model's config that follow from the task, such as the sizes of its vocabularies."""

    def settings_of_some(self) -> dict[str, Any]:
        """The settings of a model's config that follow from the task and that only some models have; empty by default."""
        return {}

    @abstractmethod
    def lengths(self, data: TokenStore) -> np.ndarray:
        """The number of tokens of each example, (N, columns) int64, by which examples are grouped into batches."""

    @abstractmethod
    def labels(self, data: TokenStore) -> np.ndarray:
        """The number of labels in the loss of each example, (N,) int64."""

    def auxiliary_labels(self, data: TokenStore) -> Mapping[str, np.ndarray]:
        """The number of labels in each auxiliary loss of each example, (N,) int64 by name; empty by default."""
        del data
        return {}

    def epoch_rows(self, data: TokenStore) -> Callable[[int], np.ndarray] | None:
        """A function from the number of an epoch to its rows; None if every epoch has all rows, as by default.

        The rows of an epoch must be a function of its number, so that a resumed run uses the same ones.
        """
        del data
        return None

    @abstractmethod
    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> Any:
        """The examples of these rows as a `Batch`."""

    def training_batch(self, data: TokenStore, rows: Sequence[int], draw: int) -> Any:
        """The batch for training: that of `read_batch`, unless a task samples something in every epoch, such as masks.

        Arguments:
            draw: a number that differs from epoch to epoch. All samples must be a function of it and the row, so that a resumed
                run has the same ones.
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
        """The sizes of data and vocabularies as one line, for the user."""

    @abstractmethod
    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse, before training starts, a model that does not fit the data.

        Raises:
            InputError: such as for examples longer than the model's positions.
        """

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The metrics of a validation, including `loss`.

        Arguments:
            loss: the mean loss over labels.
            right: the share of labels that had the highest logit.
        """
        return {"loss": loss, "perplexity": math.exp(min(50.0, loss)), "token_accuracy": right}

    def auxiliary_metrics(self, name: str, loss: float, right: float) -> dict[str, float]:
        """The metrics of an auxiliary loss in a validation; the caller has added it to `loss` already."""
        return {f"{name}_loss": loss, f"{name}_accuracy": right}

    def counts(self, data: TokenStore) -> dict[str, int]:
        """The number of examples for each of `named`; empty by default."""
        del data
        return {}

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of the groups of examples that validation distinguishes; empty by default."""
        return ()

    def groups(self, data: TokenStore) -> Mapping[str, Sequence[int]]:
        """The rows of each group."""
        del data
        return {}

    @abstractmethod
    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizers into `folder`; return the task's values for regard.json, including `name`."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> Self:
        """The task that `save` wrote into `folder`; `values` are those that it returned."""

    @property
    def use(self) -> Sequence[str]:
        """Lines of Python for the model card, which show how to use `model`."""
        return ()

    def unsupported_reason(self, config: Any) -> str:
        """Why other programs would tokenize texts differently, as half a sentence; empty if they would not.

        Arguments:
            config: the config of the model.
        """
        del config
        return ""

    def hf_fields(self) -> dict[str, Any]:
        """The fields of config.json about the task for other programs, such as the names of classes; empty by default."""
        return {}

    def hf_token_ids(self, config: Any) -> dict[str, int]:
        """Ids of the tokenizer that config.json repeats for other programs; empty by default.

        Arguments:
            config: the config of the model.
        """
        del config
        return {}

    def write_for_others(self, folder: Path, config: Any, opens: bool) -> None:  # noqa: B027  # mostly nothing
        """Write further files for other programs, such as tokenizer_config.json; none by default.

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
