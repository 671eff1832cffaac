"""Numbers for texts and for pairs of texts, such as how alike two sentences are (Devlin et al. 2019, section 4.1, STS-B)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.tasks.classification.task import LABEL, LabelledTask, few, names_said
from regard.tasks.encoders import EncoderBatch, Joined, read_inputs
from regard.tasks.task import LossSum


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionTask(LabelledTask):
    """What turns rated texts into a model's tensors, and its outputs into a loss.

        value = w . pooled + b,   loss = (value - rating)^2,   both measured from the training data's mean in units of its spread

    Arguments:
        tokenizer, maximum_length, pairs, orders, sentences, auxiliary: as `LabelledTask`.
        mean, spread: of the ratings that the model was trained on; 0 and 1 for a model that gives them as they are.
    """

    name: ClassVar[str] = "regression"

    mean: float = 0.0
    spread: float = 1.0

    @property
    def use(self) -> tuple[str, ...]:
        """A line for the model card."""
        return (f"print(model.rate({self.asked}).value)",)

    @property
    def outputs(self) -> int:
        """One."""
        return 1

    def batch(self, inputs: Sequence[Joined], ratings: Sequence[float]) -> EncoderBatch:
        """Inputs and their ratings to a batch for training."""
        return self.encoded_batch(inputs, torch.tensor(ratings, dtype=torch.float32))

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> EncoderBatch:
        """The examples of these rows as a batch."""
        return self.batch(read_inputs(data, rows), [stored_rating(data, row) for row in rows])

    def loss(self, model: nn.Module, batch: EncoderBatch, *, smoothing: float = 0.0) -> LossSum:
        """The squared error, summed over examples; there is nothing to smooth."""
        del smoothing
        encoded, beside = self.read(model, batch.tokens, batch.segments)
        values = encoded.logits.squeeze(-1).float()  # type: ignore[union-attr]
        error = values - (batch.labels - self.mean) / self.spread
        none = torch.zeros((), dtype=torch.int64, device=values.device)
        return LossSum((error * error).sum(), len(values), none, beside)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Examples and vocabulary in a few words."""
        return (
            f"{len(train):,} examples to learn from, {len(validation):,} to validate on, rated {self.mean:.3g} on average; "
            f"a vocabulary of {self.tokenizer.size:,}"
        )

    def said(self) -> dict[str, Any]:
        """What other programs look for in config.json."""
        return {"id2label": {"0": "value"}, "label2id": {"value": 0}, "problem_type": "regression"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiOutputTask(LabelledTask):
    """What turns texts with several numbers each into a model's tensors, and its outputs into a loss.

        values = W pooled + b,   loss = mean over outputs of (value - rating)^2, each measured as in `RegressionTask`

    Arguments:
        tokenizer, maximum_length, pairs, orders, sentences, auxiliary: as `LabelledTask`.
        names: of the numbers, in the order of the model's outputs.
        means, spreads: of each in the training data; 0 and 1 for a model that gives them as they are.
    """

    name: ClassVar[str] = "multi_output_regression"

    names: tuple[str, ...]
    means: tuple[float, ...]
    spreads: tuple[float, ...]

    @property
    def use(self) -> tuple[str, ...]:
        """A line for the model card."""
        return (f"print(model.rate({self.asked}).values)",)

    @property
    def named(self) -> tuple[str, ...]:
        """The numbers."""
        return self.names

    @property
    def outputs(self) -> int:
        """One for each number."""
        return len(self.names)

    def numbers_of(self, values: Sequence[float], where: str) -> list[float]:
        """The numbers of an example, one for each output.

        Raises:
            InputError: for more or fewer.
        """
        if len(values) != len(self.names):
            raise InputError(
                f"{where}: has {len(values)} numbers where each text has {len(self.names)} ({few(self.names)}); mend the row"
            )
        return list(values)

    def batch(self, inputs: Sequence[Joined], ratings: Sequence[Sequence[float]]) -> EncoderBatch:
        """Inputs and the numbers of each to a batch for training."""
        return self.encoded_batch(inputs, torch.tensor(ratings, dtype=torch.float32))

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> EncoderBatch:
        """The examples of these rows as a batch."""
        return self.batch(read_inputs(data, rows), [stored_ratings(data, row) for row in rows])

    def loss(self, model: nn.Module, batch: EncoderBatch, *, smoothing: float = 0.0) -> LossSum:
        """The mean squared error of the outputs, summed over examples; there is nothing to smooth."""
        del smoothing
        encoded, beside = self.read(model, batch.tokens, batch.segments)
        values = encoded.logits.float()  # type: ignore[union-attr]
        error = values - (batch.labels - self.row(self.means, values)) / self.row(self.spreads, values)
        none = torch.zeros((), dtype=torch.int64, device=values.device)
        return LossSum((error * error).mean(dim=1).sum(), len(values), none, beside)

    def row(self, numbers: Sequence[float], like: Tensor) -> Tensor:
        """A number for each output, beside values (..., outputs)."""
        return torch.tensor(numbers, dtype=like.dtype, device=like.device)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Examples, numbers and vocabulary in a few words."""
        return (
            f"{len(train):,} examples to learn from, {len(validation):,} to validate on, with {len(self.names)} numbers each "
            f"({few(self.names)}); a vocabulary of {self.tokenizer.size:,}"
        )

    def said(self) -> dict[str, Any]:
        """What other programs look for in config.json."""
        return names_said(self.names, "regression")


def stored(rating: float) -> int:
    """A rating as a store of whole numbers holds it: the bits of a float32."""
    return int(np.float32(rating).view(np.uint32))


def stored_rating(data: TokenStore, row: int) -> float:
    """The rating of a row of a store."""
    return stored_ratings(data, row)[0]


def stored_ratings(data: TokenStore, row: int) -> list[float]:
    """All ratings of a row of a store."""
    return data.sequence(LABEL, row).astype(np.uint32).view(np.float32).tolist()
