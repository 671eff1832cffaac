"""Classification of texts and of pairs of texts (Devlin et al. 2019, section 4.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.layers import HeadKind
from regard.metrics.classification import f1_in_words, judged_class
from regard.tasks.encoders import EncoderBatch, EncoderTask, Joined, WholeTextTask, padded, read_inputs
from regard.tasks.losses import smoothed_cross_entropy, stands_out
from regard.tasks.task import LossSum

Orders = Literal["one", "both"]
"""In which the texts of a pair are read."""

LABEL = "label"
"""The column of a store that holds the number of each example's class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTask(WholeTextTask):
    """What tasks that tell something of one text, or of a pair, have in common.

    Arguments:
        tokenizer: for all texts.
        maximum_length: the most tokens of one input, special ones included; what is longer is cut.
        pairs: whether an example is two texts; None where that is not known, and both are taken.
        orders: in which a pair is read.
        sentences: whether a token stands between the sentences of a text, for models that tell them apart.
        auxiliary: as `WholeTextTask`.
    """

    head: ClassVar[HeadKind] = "sequence"

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
    def asked(self) -> str:
        """A text, or a pair, as Python for the model card."""
        return '("...", "...")' if self.pairs else '"..."'

    def encoded_batch(self, inputs: Sequence[Joined], labels: Tensor) -> EncoderBatch:
        """Inputs and what is told of them, (B, ...), to a batch for training."""
        tokens, segments = padded(inputs, padding_id=self.tokenizer.padding_id, readings=self.readings)
        return EncoderBatch(tokens, segments, labels)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The loss; what the model is judged by is computed of its answers."""
        del right
        return {"loss": loss}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationTask(LabelledTask):
    """What turns labelled texts into a model's tensors, and its outputs into a loss.

        p(class | text) = softmax(W pooled + b)

    Arguments:
        tokenizer, maximum_length, pairs, orders, sentences, auxiliary: as `LabelledTask`.
        classes: by name, in the order of the model's outputs.
        class_weights: what the loss of an example of each class counts, in the order of the classes; None where all count 1.
        positive: the class that F1 speaks of and the threshold decides on; None for the last of two classes, and none of more.
        threshold: the least probability at which the positive class is predicted; None where the most probable class is.
    """

    name: ClassVar[str] = "classification"

    classes: tuple[str, ...]
    class_weights: tuple[float, ...] | None = None
    positive: str | None = None
    threshold: float | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """The classes."""
        return self.classes

    def counts(self, data: TokenStore) -> dict[str, int]:
        """How many examples are of each class, or have each label."""
        found = Counter(number for row in range(len(data)) for number in stored_labels(data, row))
        return {name: found[number] for number, name in enumerate(self.classes)}

    def metric_words(self) -> dict[str, str]:
        """F1 with the class that it is of."""
        return {"f1": f1_in_words(self.classes, self.positive)}

    def positive_class(self, positive: str | None = None, threshold: float | None = None) -> str | None:
        """The class that F1 speaks of and a threshold decides on; None where F1 is the mean over classes.

        Arguments:
            positive, threshold: asked for instead of the task's own.

        Raises:
            InputError: for a class that there is not, or a threshold that is not between 0 and 1 or has no class to decide on.
        """
        if positive is not None and positive not in self.classes:
            raise InputError(f"positive is {positive!r}, which is no class; {nearest(positive, self.classes)}")
        if threshold is not None and not 0 < threshold < 1:
            raise InputError(f"threshold is {threshold}; it must be above 0 and below 1, 0.5 is usual")
        found = judged_class(self.classes, positive if positive is not None else self.positive)
        if found is None and threshold is not None:
            raise InputError(
                f"threshold is {threshold}, and of {len(self.classes)} classes it is not said which it decides on; name one as "
                f"positive ({few(self.classes)})"
            )
        return found

    def told(self, probabilities: Sequence[float], positive: str | None, threshold: float | None) -> int:
        """The number of the class that is told: the positive one from the threshold on, else the most probable of the others.

        Arguments:
            probabilities: of each class.
            positive: from `positive_class`.
            threshold: the least probability of it; the most probable class is told where this is None.
        """
        places = list(range(len(probabilities)))
        if threshold is not None and positive is not None:
            decided = self.classes.index(positive)
            if probabilities[decided] >= threshold:
                return decided
            places.remove(decided)
        return max(places, key=probabilities.__getitem__)

    @property
    def use(self) -> tuple[str, ...]:
        """A line for the model card."""
        return (f"print(model.classify({self.asked}).label)",)

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
        return self.encoded_batch(inputs, torch.tensor(labels, dtype=torch.int64))

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

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Examples, classes and vocabulary in a few words."""
        return (
            f"{len(train):,} examples to learn from, {len(validation):,} to validate on; {len(self.classes)} classes "
            f"({few(self.classes)}); a vocabulary of {self.tokenizer.size:,}"
        )

    def said(self) -> dict[str, Any]:
        """The names of the classes, as other programs look for them in config.json."""
        return names_said(self.classes, "single_label_classification")

    def settings(self) -> dict[str, Any]:
        """As of every encoder's task; what came later only where there is some, for readers of before."""
        later = ("class_weights", "positive", "threshold")
        settings = EncoderTask.settings(self)
        return {name: value for name, value in settings.items() if name not in later or value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiLabelTask(ClassificationTask):
    """What turns texts with any number of labels into a model's tensors, and its outputs into a loss.

        p(label | text) = sigmoid(W pooled + b),   loss = mean over labels of - y log p - (1 - y) log (1 - p)

    Arguments:
        tokenizer, maximum_length, pairs, orders, sentences, auxiliary: as `LabelledTask`.
        classes: the labels there are, in the order of the model's outputs.
        class_weights: what the loss of a label counts in texts that have it; None where all count 1.
        threshold: the least probability at which a label is predicted.
        separator: what stands between labels that are given as one text.
    """

    name: ClassVar[str] = "multi_label_classification"

    threshold: float | None = 0.5
    separator: str = ","

    def metric_words(self) -> dict[str, str]:
        """As usual."""
        return {}

    @property
    def use(self) -> tuple[str, ...]:
        """A line for the model card."""
        return (f"print(model.classify({self.asked}).labels)",)

    @property
    def least(self) -> float:
        """The threshold; 0.5 where none is said."""
        return 0.5 if self.threshold is None else self.threshold

    def batch(self, inputs: Sequence[Joined], labels: Sequence[Sequence[int]]) -> EncoderBatch:  # type: ignore[override]
        """Inputs and the numbers of the labels of each to a batch for training, whose labels are 0 and 1, (B, labels)."""
        told = torch.zeros(len(labels), len(self.classes))
        for row, numbers in enumerate(labels):
            told[row, list(numbers)] = 1.0
        return self.encoded_batch(inputs, told)

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> EncoderBatch:
        """The examples of these rows as a batch."""
        return self.batch(read_inputs(data, rows), [stored_labels(data, row) for row in rows])

    def loss(self, model: nn.Module, batch: EncoderBatch, *, smoothing: float = 0.0) -> LossSum:
        """Binary cross-entropy, the mean over labels, summed over examples; smoothing moves both answers towards one half."""
        encoded, beside = self.read(model, batch.tokens, batch.segments)
        logits, told = encoded.logits.float(), batch.labels  # type: ignore[union-attr]
        weights = None if self.class_weights is None else torch.tensor(self.class_weights, device=logits.device)
        losses = nn.functional.binary_cross_entropy_with_logits(
            logits, told * (1 - smoothing) + smoothing / 2, pos_weight=weights, reduction="none"
        )
        right = ((logits.sigmoid() >= self.least) == (told > 0.5)).all(dim=1).sum()
        return LossSum(losses.mean(dim=1).sum(), len(told), right, beside)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Examples, labels and vocabulary in a few words."""
        return (
            f"{len(train):,} examples to learn from, {len(validation):,} to validate on; any of {len(self.classes)} labels each "
            f"({few(self.classes)}); a vocabulary of {self.tokenizer.size:,}"
        )

    def said(self) -> dict[str, Any]:
        """The names of the labels, as other programs look for them in config.json."""
        return names_said(self.classes, self.name)


def stored_labels(data: TokenStore, row: int) -> list[int]:
    """The numbers of the labels of a row of a store."""
    return [int(number) for number in data.sequence(LABEL, row)]


def names_said(names: Sequence[str], problem: str) -> dict[str, Any]:
    """Names of outputs, and what they are, as other programs look for them in config.json."""
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
        "problem_type": problem,
    }


def few(names: Sequence[str]) -> str:
    """The first of many names."""
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
