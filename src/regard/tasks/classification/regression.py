"""Numbers for texts and for pairs of texts, such as how alike two sentences are (Devlin et al. 2019, section 4.1, STS-B)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from regard.data.token_store import TokenStore
from regard.layers import HeadKind
from regard.tasks.classification.task import LABEL, Orders
from regard.tasks.encoders import EncoderBatch, Joined, WholeTextTask, padded
from regard.tasks.encoders.inputs import read_inputs
from regard.tasks.task import LossSum


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionTask(WholeTextTask):
    """What turns rated texts into a model's tensors, and its outputs into a loss.

        value = w . pooled + b,   loss = (value - rating)^2,   both measured from the training data's mean in units of its spread

    Arguments:
        tokenizer: for all texts.
        maximum_length: the most tokens of one input, special ones included; what is longer is cut.
        mean, spread: of the ratings that the model was trained on; 0 and 1 for a model that gives them as they are.
        pairs: whether an example is two texts; None where that is not known, and both are taken.
        orders: in which a pair is read.
        sentences: whether a token stands between the sentences of a text, for models that tell them apart.
        auxiliary: as `WholeTextTask`.
    """

    name: ClassVar[str] = "regression"
    head: ClassVar[HeadKind] = "sequence"

    mean: float = 0.0
    spread: float = 1.0
    pairs: bool | None = False
    orders: Orders = "one"
    sentences: bool = False

    @property
    def texts(self) -> int:
        """Two where an example is a pair."""
        return 2 if self.pairs else 1

    @property
    def readings(self) -> int:
        """One for each order."""
        return 2 if self.orders == "both" else 1

    @property
    def use(self) -> tuple[str, ...]:
        """A line for the model card."""
        return ('print(model.rate(("...", "...")).value)' if self.pairs else 'print(model.rate("...").value)',)

    @property
    def outputs(self) -> int:
        """One."""
        return 1

    def batch(self, inputs: Sequence[Joined], ratings: Sequence[float]) -> EncoderBatch:
        """Inputs and their ratings to a batch for training."""
        tokens, segments = padded(inputs, padding_id=self.tokenizer.padding_id, readings=self.readings)
        return EncoderBatch(tokens, segments, torch.tensor(ratings, dtype=torch.float32))

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

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The mean squared error, in units of the training data's variance."""
        del right
        return {"loss": loss}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Examples and vocabulary in a few words."""
        return (
            f"{len(train):,} examples to learn from, {len(validation):,} to validate on, rated {self.mean:.3g} on average; "
            f"a vocabulary of {self.tokenizer.size:,}"
        )

    def said(self) -> dict[str, Any]:
        """What other programs look for in config.json."""
        return {"id2label": {"0": "value"}, "label2id": {"value": 0}, "problem_type": "regression"}


def stored(rating: float) -> int:
    """A rating as a store of whole numbers holds it: the bits of a float32."""
    return int(np.float32(rating).view(np.uint32))


def stored_rating(data: TokenStore, row: int) -> float:
    """The rating of a row of a store."""
    return float(np.uint32(data.sequence(LABEL, row)[0]).view(np.float32))
