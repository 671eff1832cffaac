"""Multi-label classification: any number of labels for each text or pair of texts, each with its own probability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.data.labelled import LabelledText
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.metrics.classification import OF_EACH_CLASS, ClassScore, by_class, multi_label_scores
from regard.models.config import check
from regard.parts import own_scores
from regard.tasks.classification import MANY, ClassificationTask, remarks_of, too_few_notes, weights_of
from regard.tasks.encoders import EncoderBatch, Joined
from regard.tasks.examples import Splits
from regard.tasks.labelled import (
    LABEL,
    LABELLED,
    Decided,
    LabelledData,
    LabelledPredictor,
    Text,
    content_of,
    few,
    hf_label_fields,
    labelled,
    labels_of,
    names_of,
    prepare_labelled,
    record_of,
    refuse_classes,
    settings_from_hf,
    where_of,
)
from regard.tasks.predictor import Evaluation
from regard.tasks.preparation import EncoderTokenizerSettings, Prepared
from regard.tasks.spec import OF_SENTENCE_ENCODERS, TaskSpec, encoder_config
from regard.tasks.task import LossSum


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiLabelData(LabelledData):
    """The `data` section of a recipe for texts with any number of labels: that of classification, with two more settings.

    Arguments:
        train, validation, validation_share, validation_size: as for classification.
        format, text, pair, label, maximum_length, orders, auxiliary: as for classification.
        labels: the labels in their order; null to find them in the training data.
        class_weights: the weight of a label in the loss of texts with this label: `none`, 1; `balanced`, the number of texts
            without it divided by the number with it; or weights by name, such as {urgent: 5}, where other labels have 1.
        positive: must be null, because every label has its own F1; `training.best=f1.urgent` selects the checkpoint by one label.
        separator: the separator between labels in one cell; not needed for lists in JSONL, a dataset or memory. An empty cell or
            list is a text without labels.
        threshold: the minimum probability for predicting a label.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiLabelTask(ClassificationTask):
    """Turns texts with any number of labels into a model's tensors, and its outputs into a loss.

        p(label | text) = sigmoid(W pooled + b),   loss = mean over labels of - y log p - (1 - y) log (1 - p)

    Arguments:
        tokenizer, maximum_length, pairs, orders, sentences, auxiliary: as for `LabelledTask`.
        classes: the labels, in the order of the model's outputs.
        class_weights: the weight of each label in the loss of texts with this label; None = 1 for all.
        threshold: the minimum probability for predicting a label.
        separator: the separator between labels that are given as one string.
    """

    name: ClassVar[str] = "multi_label_classification"

    threshold: float | None = 0.5
    separator: str = ","

    def metric_words(self) -> dict[str, str]:
        """No special names."""
        return {}

    @property
    def use(self) -> tuple[str, ...]:
        """A line for the model card."""
        return (f"print(model.classify({self.asked}).labels)",)

    @property
    def least(self) -> float:
        """The threshold; 0.5 if none is set."""
        return 0.5 if self.threshold is None else self.threshold

    def targets(self, labels: Sequence[Any]) -> Tensor:
        """The labels of examples, given as lists of their numbers, as zeros and ones (B, labels) float32."""
        targets = torch.zeros(len(labels), len(self.classes))
        for row, numbers in enumerate(labels):
            targets[row, list(numbers)] = 1.0
        return targets

    def stored(self, data: TokenStore, row: int) -> list[int]:
        """The numbers of the labels of a row of a store."""
        return data.sequence(LABEL, row).tolist()

    def loss(self, model: nn.Module, batch: EncoderBatch, *, smoothing: float = 0.0) -> LossSum:
        """Binary cross-entropy, the mean over labels, summed over examples; smoothing moves the targets 0 and 1 towards 0.5."""
        encoded, auxiliary = self.read(model, batch.tokens, batch.segments)
        logits, targets = encoded.logits.float(), batch.labels  # type: ignore[union-attr]
        weights = None if self.class_weights is None else torch.tensor(self.class_weights, device=logits.device)
        losses = nn.functional.binary_cross_entropy_with_logits(
            logits, targets * (1 - smoothing) + smoothing / 2, pos_weight=weights, reduction="none"
        )
        right = ((logits.sigmoid() >= self.least) == (targets > 0.5)).all(dim=1).sum()
        return LossSum(losses.mean(dim=1).sum(), len(targets), right, auxiliary)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of examples, the labels and the size of the vocabulary, as one line."""
        return self.described(train, validation, f"; any of {len(self.classes)} labels each ({few(self.classes)})")

    def hf_fields(self) -> dict[str, Any]:
        """The names of the labels, as other programs look for them in config.json."""
        return hf_label_fields(self.classes, self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Labelling:
    """The predicted labels of a text.

    Arguments:
        text: the text; two texts if the model reads pairs.
        labels: the labels with at least the threshold's probability, in the model's order; may be empty.
        probabilities: the probability of every label, in the model's order; they are independent and do not sum to 1.
    """

    text: Text
    labels: tuple[str, ...]
    probabilities: dict[str, float]


class MultiLabelClassifier(LabelledPredictor[MultiLabelTask]):
    """A model that predicts any number of labels of a text, ready to use: texts in, `Labelling`s out.

    Arguments:
        model: a `TextEncoder` with one output for each label.
        task: tokenizer, labels and threshold.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("micro_f1", "macro_f1", "exact_match")
    metrics_of_each: ClassVar[tuple[str, ...]] = OF_EACH_CLASS

    def classify(self, text: Text, *, threshold: float | None = None) -> Labelling:
        """The labels of one text, or of a pair of texts.

        Arguments:
            threshold: the minimum probability for predicting a label; None = the task's.

        Raises:
            InputError: for an empty text, a pair instead of a text or a text instead of a pair, and a threshold that is not
                between 0 and 1.
        """
        return self.classify_batch([text], threshold=threshold)[0]

    def classify_batch(self, texts: Sequence[Text], *, threshold: float | None = None) -> list[Labelling]:
        """The labels of many texts, in the order of the texts.

        Raises:
            InputError: as `classify`.
        """
        if threshold is not None and not 0 < threshold < 1:
            raise InputError(f"threshold is {threshold}; it must be above 0 and below 1, 0.5 is usual")
        names = self.task.classes

        def said(text: Text, probabilities: list[float]) -> Labelling:
            predicted = tuple(names[number] for number in self._labels(probabilities, threshold))
            return Labelling(text=text, labels=predicted, probabilities=dict(zip(names, probabilities, strict=True)))

        return self.answers(texts, said)

    def from_logits(self, logits: Tensor) -> Tensor:
        """The probability of every label."""
        return logits.sigmoid()

    def probabilities(self, inputs: Sequence[Joined]) -> Tensor:
        """The probability of every label, (N, labels) float32, for tokenized inputs."""
        return self.values(inputs)

    def _labels(self, probabilities: Sequence[float], threshold: float | None = None) -> list[int]:
        """The numbers of the predicted labels."""
        least = self.task.least if threshold is None else threshold
        return [number for number, probability in enumerate(probabilities) if probability >= least]

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """Micro F1, macro F1, the share of texts whose labels are all correct, and metrics of each label."""
        predicted = [self._labels(row) for row in self.values(self.stored(data, count)).tolist()]
        return label_metrics(self.task, self.stored_labels(data, count), predicted, each=True)

    def remarks(self, data: TokenStore) -> list[str]:
        """A warning for labels that are never predicted; with many labels also the scores of the largest."""
        predicted = [self._labels(row) for row in self.values(self.stored(data, len(data))).tolist()]
        right = self.stored_labels(data, len(data))
        scores = multi_label_scores(right, predicted, range(len(self.task.classes))).classes
        return remarks_of(dict(zip(self.task.classes, scores.values(), strict=True)), "label")


def label_metrics(
    task: MultiLabelTask, right: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]], *, each: bool = False
) -> dict[str, float]:
    """The metrics of predicted labels; labels and predictions are lists of numbers.

    Arguments:
        each: whether to include the metrics of each label.
    """
    scores = multi_label_scores(right, predicted, range(len(task.classes)))
    said, gold = ([tuple(task.classes[each] for each in row) for row in rows] for rows in (predicted, right))
    found = own_scores(task.name, said, gold) | {
        "micro_f1": scores.micro_f1,
        "macro_f1": scores.macro_f1,
        "exact_match": scores.exact_match,
    }
    return found | (by_class(dict(zip(task.classes, scores.classes.values(), strict=True))) if each else {})


def prepare_labels(
    data: MultiLabelData, tokenizer: EncoderTokenizerSettings, folder: Path, *, seed: int, **given: Any
) -> Prepared[MultiLabelTask]:
    """As `prepare_labelled`, for any number of labels of each text.

    Raises:
        InputError: for data that cannot be read, too little data, or a label that is not in the training data.
    """

    def decide(splits: Splits[LabelledText], shared: dict[str, Any]) -> Decided[MultiLabelTask]:
        classes = data.labels or _labels(data, splits)
        counts, total = Counter[str](), 0
        for text in splits.train():
            counts.update(labels_of(text, data.separator))
            total += 1
        task = MultiLabelTask(
            **shared,
            classes=classes,
            class_weights=_label_weights(data, classes, counts, total),
            threshold=data.threshold,
            separator=data.separator,
        )

        def numbers(text: LabelledText) -> list[int]:
            return [task.number_of(label, where_of(text)) for label in labels_of(text, data.separator)]

        return task, numbers, too_few_notes(classes, counts, "label")

    return prepare_labelled(
        MultiLabelTask, data, tokenizer, folder, seed=seed, decide=decide, number=False, several=True, **given
    )


def _labels(data: MultiLabelData, splits: Splits[LabelledText]) -> tuple[str, ...]:
    """The labels of the training data in alphabetical order."""
    found = {label for text in splits.everything() for label in labels_of(text, data.separator)}
    if len(found) > MANY:
        raise InputError(
            f"the training data has {len(found):,} different labels, such as {sorted(found)[0]!r}; name the right column "
            "with data.label, and the separator of labels with data.separator"
        )
    if not found:
        raise InputError("no training example has a label; give some with labels")
    return tuple(sorted(found))


def _label_weights(
    data: LabelledData, classes: tuple[str, ...], counts: Mapping[str, int], total: int
) -> tuple[float, ...] | None:
    """The weight of each label in the loss of texts with this label; None if all are 1."""
    if data.class_weights == "balanced":
        return tuple((total - counts[name]) / counts[name] if 0 < counts[name] < total else 1.0 for name in classes)
    return weights_of(data, classes, counts)


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiLabelEvaluation(Evaluation):
    """The results of an evaluation: `predictions` are `Labelling`s.

    Its metrics are `micro_f1`, over all labels together; `macro_f1`, the mean of the labels' F1; `exact_match`, the share of
    texts whose labels are all correct.

    Arguments:
        classes: precision, recall and F1 of each label by name.
        threshold: the minimum probability for predicting a label.
    """

    classes: dict[str, ClassScore]
    threshold: float = 0.5


def evaluate_labels(
    model: MultiLabelClassifier, examples: Any, *, threshold: float | None = None
) -> MultiLabelEvaluation:
    """Compare the labels of examples with the predictions of a model.

    Arguments:
        examples: `LabelledText`s, or (text, labels), where text may be a pair, and labels are a list or one string.
        threshold: the minimum probability for predicting a label; None = the task's.

    Raises:
        InputError: for an empty list, a label that the model does not have, or a threshold that is not between 0 and 1.
    """
    texts, task = LABELLED.to_measure(examples), model.task
    right = [[task.number_of(label, where_of(text)) for label in labels_of(text, task.separator)] for text in texts]
    predictions = model.classify_batch([content_of(text) for text in texts], threshold=threshold)
    predicted = [[task.classes.index(label) for label in prediction.labels] for prediction in predictions]
    scores = multi_label_scores(right, predicted, range(len(task.classes)))
    return MultiLabelEvaluation(
        metrics=label_metrics(task, right, predicted),
        count=len(texts),
        classes=dict(zip(task.classes, scores.classes.values(), strict=True)),
        threshold=task.least if threshold is None else threshold,
        predictions=tuple(predictions),
    )


def labels_record(task: MultiLabelTask, example: LabelledText, said: Labelling) -> dict[str, Any]:
    """An example, its labels and the predicted ones, by name."""
    right = list(labels_of(example, task.separator))
    return record_of(example, {"label": right, "predicted": list(said.labels), "probabilities": said.probabilities})


def multi_label_from_hf(folder: Path, config: Any) -> MultiLabelTask:
    """As `classifier_from_hf`, for a folder whose model predicts any number of labels; the threshold is 0.5.

    Raises:
        InputError: as `classifier_from_hf`.
    """
    return MultiLabelTask(**settings_from_hf(folder, config), classes=names_of(folder, config.outputs))


MULTI_LABEL = TaskSpec(
    task=MultiLabelTask,
    predictor=MultiLabelClassifier,
    interface="whole_text",
    sections={"data": MultiLabelData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_labels,
    examples=LABELLED,
    evaluate=evaluate_labels,
    read=labelled(number=False, several=True, rest=True).named,
    record=labels_record,
    derived_config=encoder_config("sequence", 2),
    derived_if_present=OF_SENTENCE_ENCODERS,
    from_hf=multi_label_from_hf,
)
