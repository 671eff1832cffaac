"""Classification of texts and of pairs of texts (Devlin et al. 2019, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.layers import HeadKind
from regard.tasks.encoders import EncoderBatch, Joined, WholeTextTask, padded
from regard.tasks.encoders.inputs import read_inputs
from regard.tasks.encoders.task import EncoderTask
from regard.tasks.losses import smoothed_cross_entropy, stands_out
from regard.tasks.task import LossSum

Orders = Literal["one", "both"]
"""In which the texts of a pair are read."""

LABEL = "label"
"""The column of a store that holds the number of each example's class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationTask(WholeTextTask):
    """What turns labelled texts into a model's tensors, and its outputs into a loss.

        p(class | text) = softmax(W pooled + b)

    Arguments:
        tokenizer: for all texts.
        maximum_length: the most tokens of one input, special ones included; what is longer is cut.
        classes: by name, in the order of the model's outputs.
        pairs: whether an example is two texts; None where that is not known, and both are taken.
        orders: in which a pair is read.
        sentences: whether a token stands between the sentences of a text, for models that tell them apart.
        auxiliary: as `WholeTextTask`.
        class_weights: what the loss of an example of each class counts, in the order of the classes; None where all count 1.
    """

    name: ClassVar[str] = "classification"
    head: ClassVar[HeadKind] = "sequence"

    classes: tuple[str, ...]
    pairs: bool | None = False
    orders: Orders = "one"
    sentences: bool = False
    class_weights: tuple[float, ...] | None = None

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
        return (f"print(model.classify({_call(self.pairs)}).label)",)

    @property
    def outputs(self) -> int:
        """One for each class."""
        return len(self.classes)

    def number_of(self, label: str, where: str) -> int:
        """The number of a class.

        Raises:
            InputError: for a label that is none of the classes.
        """
        if label not in self.classes:
            raise InputError(f"{where}: the label {label!r} is none of the model's; {nearest(label, self.classes)}")
        return self.classes.index(label)

    def batch(self, inputs: Sequence[Joined], labels: Sequence[int]) -> EncoderBatch:
        """Inputs and the numbers of their classes to a batch for training."""
        tokens, segments = padded(inputs, padding_id=self.tokenizer.padding_id, readings=self.readings)
        return EncoderBatch(tokens, segments, torch.tensor(labels, dtype=torch.int64))

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> EncoderBatch:
        """The examples of these rows as a batch."""
        return self.batch(read_inputs(data, rows), [int(data.sequence(LABEL, row)[0]) for row in rows])

    def loss(self, model: nn.Module, batch: EncoderBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the classes, summed over examples, each times the weight of its class."""
        encoded, beside = self.read(model, batch.tokens, batch.segments)
        if self.class_weights is not None and encoded.logits is not None:
            logits = encoded.logits.float()
            weights = torch.tensor(self.class_weights, device=logits.device)
            total = nn.functional.cross_entropy(
                logits, batch.labels, weight=weights, reduction="sum", label_smoothing=smoothing
            )
            return LossSum(total, len(batch.labels), stands_out(logits, batch.labels).sum(), beside)
        total, correct = smoothed_cross_entropy(encoded.logits, batch.labels, smoothing=smoothing)  # type: ignore[arg-type]
        return LossSum(total, len(batch.labels), correct, beside)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The loss; how many are right is among what the model is judged by."""
        del right
        return {"loss": loss}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Examples, classes and vocabulary in a few words."""
        return (
            f"{len(train):,} examples to learn from, {len(validation):,} to validate on; {len(self.classes)} classes "
            f"({_few(self.classes)}); a vocabulary of {self.tokenizer.size:,}"
        )

    def said(self) -> dict[str, Any]:
        """The names of the classes, as other programs look for them in config.json."""
        return {
            "id2label": {str(number): name for number, name in enumerate(self.classes)},
            "label2id": {name: number for number, name in enumerate(self.classes)},
            "problem_type": "single_label_classification",
        }

    def settings(self) -> dict[str, Any]:
        """As of every encoder's task; class weights only where there are some, for readers of before."""
        settings = EncoderTask.settings(self)
        if self.class_weights is None:
            del settings["class_weights"]
        return settings


def _call(pairs: bool | None) -> str:
    return '("...", "...")' if pairs else '"..."'


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
