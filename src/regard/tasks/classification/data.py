"""What a classifier, or a model that rates texts, learns from, as data: the `data` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.file_format import FORMATS
from regard.data.labelled_formats import LABELLED_FORMATS
from regard.errors import InputError, nearest
from regard.models.config import check
from regard.parts import own_hint, own_names
from regard.tasks.classification.task import Orders

Place = str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledData:
    """The `data` section of a recipe.

    Arguments:
        train: the examples to learn from: a TSV, CSV, JSONL or Parquet file, or several; gzip is recognised.
        validation: those to validate on, likewise; held out from the training data where null.
        validation_share: how much of the training data is held out, of each class the same share, chosen by the seed.
        format: `auto` goes by the file's name; or that of a public set whose columns are known, such as `sst2`, `mrpc`, `stsb` or
            `sms-spam`; or a reader of your own.
        text, pair, label: the column of the text, of the second text where there are two, and of the label: its name in the first
            line, its number from 0, or a JSON key; where null those of the format, or found by their usual names.
        labels: the classes in their order; found in the training data where null.
        class_weights: what the loss of an example of each class counts: `none`, all alike; `balanced`, N / (C n_c) for a class
            with n_c of N examples of C classes, so that rare classes count as much as frequent ones; or by name, such as
            {spam: 5}, where what is not named counts 1.
        positive: the class that F1 speaks of and `threshold` decides on; null is the last of two classes, and of more none: F1 is
            then the mean over classes.
        threshold: the least probability at which the positive class is predicted, else the most probable other class; null
            predicts the most probable class.
        maximum_length: the most tokens of an input, special ones included; longer texts are cut.
        orders: of pairs: `one`, the first text before the second, or `both`: the model reads a pair twice, and what it makes of
            the two is added; for pairs in which neither text comes first, such as those of `mrpc` and `stsb`.
        auxiliary: the weight of a language model's loss on the texts beside the task's own, for decoders such as `gpt2`; 0.5 as
            published, 0 for none.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.1
    format: str = "auto"
    text: int | str | None = None
    pair: int | str | None = None
    label: int | str | None = None
    labels: tuple[str, ...] | None = None
    class_weights: Literal["none", "balanced"] | dict[str, float] = "none"
    positive: str | None = None
    threshold: float | None = None
    maximum_length: int = 128
    orders: Orders = "one"
    auxiliary: float = 0.0

    def __post_init__(self) -> None:
        names = (*FORMATS, *LABELLED_FORMATS, *own_names("reader"))
        if self.format not in names:
            raise InputError(f"data.format is {self.format!r}; {nearest(self.format, names)}{own_hint('reader')}")
        share = self.validation_share
        check(0 < share < 1, "data.validation_share", share, "above 0 and below 1", "0.1 is usual")
        check(self.maximum_length >= 5, "data.maximum_length", self.maximum_length, "at least 5", "128 is usual")
        check(self.auxiliary >= 0, "data.auxiliary", self.auxiliary, "0 or more", "0.5 is usual, 0 turns it off")
        weights = self.class_weights
        check(
            isinstance(weights, str) or all(weight > 0 for weight in weights.values()),
            "data.class_weights",
            weights,
            "numbers above 0",
            "balanced is usual where classes are of different sizes",
        )
        labels = self.labels
        check(
            labels is None or (len(labels) >= 2 and len(set(labels)) == len(labels)),
            "data.labels",
            labels,
            "two different names or more",
            "leave it out to find them in the data",
        )
        positive, threshold = self.positive, self.threshold
        check(
            positive is None or labels is None or positive in labels,
            "data.positive",
            positive,
            f"one of data.labels ({', '.join(labels or ())})",
            "name one of these",
        )
        check(
            threshold is None or 0 < threshold < 1, "data.threshold", threshold, "above 0 and below 1", "0.5 is usual"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiLabelData(LabelledData):
    """The `data` section of a recipe for texts with any number of labels: that of classification, and two settings more.

    Arguments:
        train, validation, validation_share, format, text, pair, label, maximum_length, orders, auxiliary: as for classification.
        labels: the labels there are, in their order; found in the training data where null.
        class_weights: what the loss of a label counts in texts that have it: `none`, 1; `balanced`, texts without it over texts
            with it; or by name, such as {urgent: 5}, where what is not named counts 1.
        positive: stays null; every label has its own F1, and `training.best=f1.urgent` chooses by that of one.
        separator: what stands between labels in one cell; a list in JSONL, a dataset or memory needs none. An empty cell or list
            is a text without labels.
        threshold: the least probability at which a label is predicted.
    """

    separator: str = ","
    threshold: float | None = 0.5

    def __post_init__(self) -> None:
        LabelledData.__post_init__(self)
        check(
            bool(self.separator.strip()), "data.separator", self.separator, "a text that is not blank", "',' is usual"
        )
        check(self.threshold is not None, "data.threshold", self.threshold, "above 0 and below 1", "0.5 is usual")
        refuse_classes(self, "positive", task="multi_label_classification", has="labels, each with an F1 of its own")


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiOutputData(LabelledData):
    """The `data` section of a recipe for texts with several numbers each: that of regression, and where the numbers are.

    Arguments:
        train, validation, validation_share, format, text, pair, maximum_length, orders, auxiliary: as for classification.
        values: the columns or keys of the numbers; null where one key, `label`, holds a list of them.
        label: such a key.
        labels: what the numbers are called, in their order; null for the names of `values`, or value_0 and so on.
        class_weights: stays `none`.
        positive, threshold: stay null.
    """

    values: tuple[int | str, ...] | None = None

    def __post_init__(self) -> None:
        LabelledData.__post_init__(self)
        values = self.values
        several = values is None or (len(values) >= 2 and len(set(values)) == len(values))
        check(several, "data.values", values, "two different columns or more", "for one number choose task regression")
        if values is not None and self.label is not None:
            raise InputError("data.label is given beside data.values; leave one of the two out")
        if values is not None and self.labels is not None and len(values) != len(self.labels):
            raise InputError(
                f"data.labels names {len(self.labels)} numbers, and data.values {len(values)}; name as many"
            )
        refuse_classes(self, "class_weights", "positive", "threshold", task="multi_output_regression", has="numbers")


def refuse_classes(data: LabelledData, *names: str, task: str, has: str) -> None:
    """Refuse settings of classes for a task that has none.

    Raises:
        InputError: for the first that is set.
    """
    for name in names:
        if getattr(data, name) not in (None, "none"):
            raise InputError(f"data.{name} is for classes, and task {task} has {has}; leave it out")
