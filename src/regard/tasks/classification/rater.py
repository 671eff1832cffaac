"""A model that gives texts numbers, ready to use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from regard.data.token_store import TokenStore
from regard.metrics.regression import pearson, spearman
from regard.parts import own_scores
from regard.tasks.classification.inputs import Text, joined
from regard.tasks.classification.regression import MultiOutputTask, RegressionTask, stored_rating, stored_ratings
from regard.tasks.encoders import EncoderPredictor, Joined


@dataclass(frozen=True, kw_only=True, slots=True)
class Rating:
    """The number that a model gives a text.

    Arguments:
        text: what was read; two texts where the model reads pairs.
        value: in the units of the data it was trained on.
    """

    text: Text
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratings:
    """The numbers that a model gives a text.

    Arguments:
        text: what was read; two texts where the model reads pairs.
        values: by name, in the model's order and in the units of the data it was trained on.
    """

    text: Text
    values: dict[str, float]


class Rater(EncoderPredictor[RegressionTask]):
    """A model that rates texts, or pairs of texts, such as by how alike they are: texts in, `Rating`s out.

    Arguments:
        model: a `TextEncoder` with one output.
        task: tokenizer, and mean and spread of the ratings.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("pearson", "spearman")
    judged_by_own: ClassVar[bool] = True

    def rate(self, text: Text) -> Rating:
        """The number of one text, or of a pair of texts.

        Raises:
            InputError: for an empty text, or a pair where the model takes one text, or the other way round.
        """
        return self.rate_batch([text])[0]

    def rate_batch(self, texts: Sequence[Text]) -> list[Rating]:
        """The numbers of many texts; the answers come in the order of the texts.

        Raises:
            InputError: as `rate`.
        """
        inputs = joined(self.task, texts, pairs=self.task.pairs, maximum=self.maximum_length)
        values = self.values(inputs).tolist()
        made = [Rating(text=text, value=value) for text, value in zip(texts, values, strict=True)]
        self.tell(made)
        return made

    def values(self, inputs: Sequence[Joined]) -> Tensor:
        """(N,) float32, for inputs that are tokens already."""
        values = torch.zeros(len(inputs))
        for rows, _, encoded in self.encoded(inputs):
            if encoded.logits is not None:
                values[rows] = encoded.logits.float().squeeze(-1).cpu()
        return values * self.task.spread + self.task.mean

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """Pearson's and Spearman's correlation with the ratings; left out where undefined, as of one rating."""
        inputs = self.stored(data, count)
        right = [stored_rating(data, row) for row in range(len(inputs))]
        predicted = self.values(inputs).tolist()
        found = own_scores(self.task.name, predicted, right)
        if len(right) > 1:
            found |= {"pearson": pearson(right, predicted), "spearman": spearman(right, predicted)}
        return {name: value for name, value in found.items() if math.isfinite(value)}


class MultiRater(EncoderPredictor[MultiOutputTask]):
    """A model that gives each text several numbers: texts in, `Ratings` out.

    Arguments:
        model: a `TextEncoder` with one output for each number.
        task: tokenizer, and names, means and spreads of the numbers.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("pearson", "spearman")
    judged_of_each: ClassVar[tuple[str, ...]] = ("pearson", "spearman")
    judged_by_own: ClassVar[bool] = True

    def rate(self, text: Text) -> Ratings:
        """The numbers of one text, or of a pair of texts.

        Raises:
            InputError: for an empty text, or a pair where the model takes one text, or the other way round.
        """
        return self.rate_batch([text])[0]

    def rate_batch(self, texts: Sequence[Text]) -> list[Ratings]:
        """The numbers of many texts; the answers come in the order of the texts.

        Raises:
            InputError: as `rate`.
        """
        inputs = joined(self.task, texts, pairs=self.task.pairs, maximum=self.maximum_length)
        made = [
            Ratings(text=text, values=dict(zip(self.task.names, row, strict=True)))
            for text, row in zip(texts, self.values(inputs).tolist(), strict=True)
        ]
        self.tell(made)
        return made

    def values(self, inputs: Sequence[Joined]) -> Tensor:
        """(N, outputs) float32, for inputs that are tokens already."""
        values = torch.zeros(len(inputs), len(self.task.names))
        for rows, _, encoded in self.encoded(inputs):
            if encoded.logits is not None:
                values[rows] = encoded.logits.float().cpu()
        return values * self.task.row(self.task.spreads, values) + self.task.row(self.task.means, values)

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """The means over the numbers of Pearson's and Spearman's correlations, then those of each."""
        inputs = self.stored(data, count)
        right = [stored_ratings(data, row) for row in range(len(inputs))]
        return judged_numbers(self.task, right, self.values(inputs).tolist())


def judged_numbers(
    task: MultiOutputTask, right: Sequence[Sequence[float]], predicted: Sequence[Sequence[float]]
) -> dict[str, float]:
    """The metrics of several numbers for each text; a correlation that is undefined is left out, and of the mean too."""
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
