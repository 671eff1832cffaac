"""Regression: numbers for texts and pairs of texts, such as the similarity of two sentences (Devlin et al. 2019, 4.1, STS-B)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from regard.data.labelled import LabelledText
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.metrics.regression import pearson, regression_scores, spearman
from regard.models.config import check
from regard.old_names import old_attributes
from regard.parts import own_scores
from regard.tasks.encoders import EncoderBatch, bits_of, stored_numbers
from regard.tasks.examples import Splits
from regard.tasks.labelled import (
    LABEL,
    LABELLED,
    Decided,
    LabelledData,
    LabelledPredictor,
    LabelledTask,
    Text,
    content_of,
    few,
    hf_label_fields,
    labelled,
    names_of,
    prepare_labelled,
    rating_of,
    ratings_of,
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
class MultiOutputData(LabelledData):
    """The `data` section of a recipe for texts with several numbers each: that of regression, with the columns of the numbers.

    Arguments:
        train, validation, validation_share, validation_size: as for classification.
        format, text, pair, maximum_length, orders, auxiliary: as for classification.
        values: the columns or keys of the numbers; null if one key, `label`, has a list of them.
        label: the key of a list of numbers.
        labels: the names of the numbers, in order; null = the names of `values`, or value_0 and so on.
        class_weights: must be `none`.
        positive, threshold: must be null.
    """

    values: tuple[int | str, ...] | None = None

    def __post_init__(self) -> None:
        LabelledData.__post_init__(self)
        values = self.values
        several = values is None or (len(values) >= 2 and len(set(values)) == len(values))
        check(several, "data.values", values, "two different columns or more", "for one number choose task regression")
        if values is not None and self.label is not None:
            raise InputError("data.label and data.values are both given; leave one of the two out")
        if values is not None and self.labels is not None and len(values) != len(self.labels):
            raise InputError(
                f"data.labels names {len(self.labels)} numbers, and data.values {len(values)}; name as many"
            )
        refuse_classes(self, "class_weights", "positive", "threshold", task="multi_output_regression", has="numbers")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionTask(LabelledTask):
    """Turns rated texts into a model's tensors, and its outputs into a loss.

        value = w . pooled + b,   loss = (value - rating)^2,   both minus the training data's mean and divided by its spread

    Arguments:
        tokenizer, maximum_length, pairs, orders, sentences, auxiliary: as for `LabelledTask`.
        mean, spread: mean and standard deviation of the training ratings; 0 and 1 for a model whose outputs are not standardised.
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
        """The number of the model's outputs: 1."""
        return 1

    def targets(self, labels: Sequence[float]) -> Tensor:
        """The ratings, (B,) float32."""
        return torch.tensor(labels, dtype=torch.float32)

    def stored(self, data: TokenStore, row: int) -> float:
        """The rating of a row of a store."""
        return stored_numbers(data, LABEL, row)[0]

    def loss(self, model: nn.Module, batch: EncoderBatch, *, smoothing: float = 0.0) -> LossSum:
        """The squared error, summed over examples; label smoothing does not apply."""
        del smoothing
        encoded, auxiliary = self.read(model, batch.tokens, batch.segments)
        values = encoded.logits.squeeze(-1).float()  # type: ignore[union-attr]
        error = values - (batch.labels - self.mean) / self.spread
        none = torch.zeros((), dtype=torch.int64, device=values.device)
        return LossSum((error * error).sum(), len(values), none, auxiliary)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of examples, the mean rating and the size of the vocabulary, as one line."""
        return self.described(train, validation, f", rated {self.mean:.3g} on average")

    def hf_fields(self) -> dict[str, Any]:
        """The fields of config.json for other programs."""
        return {"id2label": {"0": "value"}, "label2id": {"value": 0}, "problem_type": "regression"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiOutputTask(LabelledTask):
    """Turns texts with several numbers each into a model's tensors, and its outputs into a loss.

        values = W pooled + b,   loss = mean over outputs of (value - rating)^2, each standardised as in `RegressionTask`

    Arguments:
        tokenizer, maximum_length, pairs, orders, sentences, auxiliary: as for `LabelledTask`.
        names: names of the numbers, in the order of the model's outputs.
        means, spreads: mean and standard deviation of each number in the training data; 0 and 1 for a model whose outputs are not
            standardised.
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
        """The names of the numbers."""
        return self.names

    @property
    def outputs(self) -> int:
        """The number of the model's outputs: one for each number."""
        return len(self.names)

    def numbers_of(self, values: Sequence[float], where: str) -> list[float]:
        """The numbers of an example, one for each output.

        Raises:
            InputError: for more or fewer.
        """
        if len(values) != len(self.names):
            raise InputError(
                f"{where}: has {len(values)} numbers instead of {len(self.names)} ({few(self.names)}); correct the row"
            )
        return list(values)

    def targets(self, labels: Sequence[Sequence[float]]) -> Tensor:
        """The numbers of each example, (B, outputs)."""
        return torch.tensor(labels, dtype=torch.float32)

    def stored(self, data: TokenStore, row: int) -> list[float]:
        """The numbers of a row of a store."""
        return stored_numbers(data, LABEL, row)

    def loss(self, model: nn.Module, batch: EncoderBatch, *, smoothing: float = 0.0) -> LossSum:
        """The mean squared error of the outputs, summed over examples; label smoothing does not apply."""
        del smoothing
        encoded, auxiliary = self.read(model, batch.tokens, batch.segments)
        values = encoded.logits.float()  # type: ignore[union-attr]
        error = values - (batch.labels - self.row(self.means, values)) / self.row(self.spreads, values)
        none = torch.zeros((), dtype=torch.int64, device=values.device)
        return LossSum((error * error).mean(dim=1).sum(), len(values), none, auxiliary)

    def row(self, numbers: Sequence[float], like: Tensor) -> Tensor:
        """A number for each output as a tensor (outputs,) that broadcasts with `like` (..., outputs)."""
        return torch.tensor(numbers, dtype=like.dtype, device=like.device)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of examples and of outputs and the size of the vocabulary, as one line."""
        return self.described(train, validation, f", with {len(self.names)} numbers each ({few(self.names)})")

    def hf_fields(self) -> dict[str, Any]:
        """The fields of config.json for other programs."""
        return hf_label_fields(self.names, "regression")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rating:
    """The number that a model predicts for a text.

    Arguments:
        text: the text; two texts if the model reads pairs.
        value: the number, in the units of the training data.
    """

    text: Text
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratings:
    """The numbers that a model predicts for a text.

    Arguments:
        text: the text; two texts if the model reads pairs.
        values: the numbers by name, in the model's order and in the units of the training data.
    """

    text: Text
    values: dict[str, float]


class Regressor(LabelledPredictor[RegressionTask]):
    """A model that predicts a number for a text or a pair of texts, such as their similarity: texts in, `Rating`s out.

    Arguments:
        model: a `TextEncoder` with one output.
        task: the tokenizer, and mean and standard deviation of the ratings.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("pearson", "spearman")

    def rate(self, text: Text) -> Rating:
        """The number of one text, or of a pair of texts.

        Raises:
            InputError: for an empty text, a pair instead of a text, or a text instead of a pair.
        """
        return self.rate_batch([text])[0]

    def rate_batch(self, texts: Sequence[Text]) -> list[Rating]:
        """The numbers of many texts, in the order of the texts.

        Raises:
            InputError: as `rate`.
        """
        return self.answers(texts, lambda text, values: Rating(text=text, value=values[0]))

    def from_logits(self, logits: Tensor) -> Tensor:
        """The predicted numbers in the units of the data."""
        return logits.cpu() * self.task.spread + self.task.mean

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """Pearson's and Spearman's correlation with the ratings; left out if undefined, as for a single rating."""
        right = self.stored_labels(data, count)
        predicted = self.values(self.stored(data, count)).squeeze(-1).tolist()
        found = own_scores(self.task.name, predicted, right)
        if len(right) > 1:
            found |= {"pearson": pearson(right, predicted), "spearman": spearman(right, predicted)}
        return {name: value for name, value in found.items() if math.isfinite(value)}


class MultiOutputRegressor(LabelledPredictor[MultiOutputTask]):
    """A model that predicts several numbers for each text: texts in, `Ratings` out.

    Arguments:
        model: a `TextEncoder` with one output for each number.
        task: the tokenizer, and names, means and standard deviations of the numbers.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("pearson", "spearman")
    metrics_of_each: ClassVar[tuple[str, ...]] = ("pearson", "spearman")

    def rate(self, text: Text) -> Ratings:
        """The numbers of one text, or of a pair of texts.

        Raises:
            InputError: for an empty text, a pair instead of a text, or a text instead of a pair.
        """
        return self.rate_batch([text])[0]

    def rate_batch(self, texts: Sequence[Text]) -> list[Ratings]:
        """The numbers of many texts, in the order of the texts.

        Raises:
            InputError: as `rate`.
        """
        names = self.task.names
        return self.answers(
            texts, lambda text, values: Ratings(text=text, values=dict(zip(names, values, strict=True)))
        )

    def from_logits(self, logits: Tensor) -> Tensor:
        """The predicted numbers in the units of the data."""
        values = logits.cpu()
        return values * self.task.row(self.task.spreads, values) + self.task.row(self.task.means, values)

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """Pearson's and Spearman's correlations: the means over the outputs, then those of each output."""
        predicted = self.values(self.stored(data, count)).tolist()
        return number_metrics(self.task, self.stored_labels(data, count), predicted)


def number_metrics(
    task: MultiOutputTask, right: Sequence[Sequence[float]], predicted: Sequence[Sequence[float]]
) -> dict[str, float]:
    """The metrics of several numbers for each text; an undefined correlation is left out, also from the mean."""
    found: dict[str, list[float]] = {"pearson": [], "spearman": []}
    each: dict[str, float] = {}
    for number, name in enumerate(task.names):
        gold, said = ([row[number] for row in rows] for rows in (right, predicted))
        for metric, of in (("pearson", pearson), ("spearman", spearman)):
            value = of(gold, said) if len(gold) > 1 else math.nan
            if math.isfinite(value):
                found[metric].append(value)
                each[f"{metric}.{name}"] = value
    means = {metric: math.fsum(values) / len(values) for metric, values in found.items() if values}
    return own_scores(task.name, [tuple(row) for row in predicted], [tuple(row) for row in right]) | means | each


def prepare_ratings(
    data: LabelledData, tokenizer: EncoderTokenizerSettings, folder: Path, *, seed: int, **given: Any
) -> Prepared[RegressionTask]:
    """As `prepare_labelled`, for one number of each text.

    Raises:
        InputError: for data that cannot be read, too little data, or a label that is not a number.
    """
    if data.labels is not None:
        raise InputError("data.labels names classes, and task regression has numbers; leave it out")
    refuse_classes(data, "class_weights", "positive", "threshold", task="regression", has="numbers")

    def decide(splits: Splits[LabelledText], shared: dict[str, Any]) -> Decided[RegressionTask]:
        mean, spread = _moments([rating_of(text) for text in splits.train()])
        return RegressionTask(**shared, mean=mean, spread=spread), lambda text: [bits_of(rating_of(text))], ()

    return prepare_labelled(
        RegressionTask, data, tokenizer, folder, seed=seed, decide=decide, number=True, least=2, **given
    )


def prepare_numbers(
    data: MultiOutputData, tokenizer: EncoderTokenizerSettings, folder: Path, *, seed: int, **given: Any
) -> Prepared[MultiOutputTask]:
    """As `prepare_labelled`, for several numbers of each text.

    Raises:
        InputError: for data that cannot be read, too little data, or an example with another count of numbers.
    """

    def decide(splits: Splits[LabelledText], shared: dict[str, Any]) -> Decided[MultiOutputTask]:
        names = _names(data, next(splits.everything()))
        blank = MultiOutputTask(tokenizer=shared["tokenizer"], names=names, means=(), spreads=())

        def numbers(text: LabelledText) -> list[float]:
            return blank.numbers_of(ratings_of(text), where_of(text))

        columns = zip(*(numbers(text) for text in splits.train()), strict=True)
        means, spreads = zip(*(_moments(column) for column in columns), strict=True)
        task = MultiOutputTask(**shared, names=names, means=means, spreads=spreads)
        return task, lambda text: [bits_of(number) for number in numbers(text)], ()

    return prepare_labelled(
        MultiOutputTask,
        data,
        tokenizer,
        folder,
        seed=seed,
        decide=decide,
        number=True,
        several=True,
        least=2,
        **given,
    )


def _names(data: MultiOutputData, first: LabelledText) -> tuple[str, ...]:
    """The names of the numbers of an example.

    Raises:
        InputError: if the first example has only one number, or not as many as there are names.
    """
    count = len(ratings_of(first))
    if count < 2:
        raise InputError(
            f"{where_of(first)}: has one number; name the columns of all as data.values, give lists, or choose task regression"
        )
    columns = data.values or ()
    named = tuple(str(column) for column in columns) if any(isinstance(column, str) for column in columns) else None
    names = data.labels or named or tuple(f"value_{number}" for number in range(count))
    if len(names) != count:
        raise InputError(f"{where_of(first)}: has {count} numbers, and data.labels names {len(names)}; name as many")
    return names


def _moments(ratings: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(ratings) / len(ratings)
    spread = math.sqrt(math.fsum((rating - mean) ** 2 for rating in ratings) / len(ratings))
    return mean, spread or 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RegressionEvaluation(Evaluation):
    """The results of an evaluation: `pearson` and `spearman`, in [-1, 1]; `predictions` are `Rating`s."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiOutputEvaluation(Evaluation):
    """The results of an evaluation: `pearson` and `spearman`, the means over the outputs, then those of each as `pearson.NAME`.

    `predictions` are `Ratings`.
    """


def evaluate_ratings(model: Regressor, examples: Any) -> RegressionEvaluation:
    """Compare the numbers of examples with the predictions of a model.

    Arguments:
        examples: `LabelledText`s, or (text, number), where text may be a pair.

    Raises:
        InputError: for an empty list, or a label that is not a number.
    """
    texts = LABELLED.to_measure(examples)
    right = [rating_of(text) for text in texts]
    predictions = model.rate_batch([content_of(text) for text in texts])
    values = [prediction.value for prediction in predictions]
    scores = regression_scores(right, values)
    return RegressionEvaluation(
        metrics=own_scores(model.task.name, values, right) | {"pearson": scores.pearson, "spearman": scores.spearman},
        count=len(texts),
        predictions=tuple(predictions),
    )


def evaluate_numbers(model: MultiOutputRegressor, examples: Any) -> MultiOutputEvaluation:
    """Compare the numbers of examples with the predictions of a model.

    Arguments:
        examples: `LabelledText`s, or (text, numbers), where text may be a pair.

    Raises:
        InputError: for an empty list, or an example with another count of numbers.
    """
    texts = LABELLED.to_measure(examples)
    right = [model.task.numbers_of(ratings_of(text), where_of(text)) for text in texts]
    predictions = model.rate_batch([content_of(text) for text in texts])
    predicted = [list(prediction.values.values()) for prediction in predictions]
    return MultiOutputEvaluation(
        metrics=number_metrics(model.task, right, predicted), count=len(texts), predictions=tuple(predictions)
    )


def number_record(task: RegressionTask, example: LabelledText, said: Rating) -> dict[str, Any]:
    """An example, its number and the predicted one, by name."""
    del task
    return record_of(example, {"label": rating_of(example), "predicted": said.value})


def numbers_record(task: MultiOutputTask, example: LabelledText, said: Ratings) -> dict[str, Any]:
    """An example, its numbers and the predicted ones, by name."""
    right = dict(zip(task.names, ratings_of(example), strict=True))
    return record_of(example, {"label": right, "predicted": said.values})


def rater_from_hf(folder: Path, config: Any) -> RegressionTask:
    """The task of a folder with a regression model; whether it reads texts or pairs is not recorded there, so both are accepted.

    Raises:
        InputError: if there is no tokenizer.
    """
    return RegressionTask(**settings_from_hf(folder, config))


def multi_output_from_hf(folder: Path, config: Any) -> MultiOutputTask:
    """The task of a folder with a regression model of several outputs, with their names from its config.json.

    Raises:
        InputError: as `classifier_from_hf`.
    """
    names = names_of(folder, config.outputs)
    return MultiOutputTask(
        **settings_from_hf(folder, config), names=names, means=(0.0,) * len(names), spreads=(1.0,) * len(names)
    )


REGRESSION = TaskSpec(
    task=RegressionTask,
    predictor=Regressor,
    interface="whole_text",
    sections={"data": LabelledData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_ratings,
    examples=LABELLED,
    evaluate=evaluate_ratings,
    read=labelled(number=True, rest=True).named,
    record=number_record,
    derived_config=encoder_config("sequence", 1),
    derived_if_present=OF_SENTENCE_ENCODERS,
    from_hf=rater_from_hf,
)


MULTI_OUTPUT = TaskSpec(
    task=MultiOutputTask,
    predictor=MultiOutputRegressor,
    interface="whole_text",
    sections={"data": MultiOutputData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_numbers,
    examples=LABELLED,
    evaluate=evaluate_numbers,
    read=labelled(number=True, several=True, rest=True).named,
    record=numbers_record,
    derived_config=encoder_config("sequence", 2),
    derived_if_present=OF_SENTENCE_ENCODERS,
    from_hf=multi_output_from_hf,
)

if not TYPE_CHECKING:
    __getattr__ = old_attributes(__name__, {"Rater": "Regressor", "MultiRater": "MultiOutputRegressor"})
