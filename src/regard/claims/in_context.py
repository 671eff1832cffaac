"""How well a language model learns a map from the pairs that stand before: accuracy by their number."""

from __future__ import annotations

from regard.claims.measure import Measure
from regard.data.maps import Maps
from regard.errors import InputError
from regard.tasks.language_modelling.language_model import LanguageModel
from regard.tasks.language_modelling.task import LanguageModellingTask
from regard.training.recipe import Recipe


def check_in_context(measure: Measure, recipe: Recipe, where: str) -> None:
    """Refuse a measure that a recipe's data cannot answer.

    Raises:
        InputError: where it is not about maps, or there are fewer pairs than are to stand before.
    """
    maps = recipe.data.maps if recipe.task == LanguageModellingTask.name else None
    if maps is None:
        raise InputError(f"{where}: in_context reads data.maps, and the recipe has none; choose another kind")
    if measure.shots >= maps.pairs:
        raise InputError(
            f"{where}: {measure.shots} shots and the one that is asked are more than the {maps.pairs} pairs of data.maps.pairs"
        )


def accuracy_by_shots(model: LanguageModel, texts: Maps) -> list[float]:
    """The share of images that were the most probable token, by the pairs before: place k of the list is after k pairs.

    Each text is read once; what the model says at each x, given the pairs before it, is an answer with so many examples shown.

    Arguments:
        model: reads each symbol as one token.
        texts: of a split that the model has not seen.
    """
    scores = model.score_batch(list(texts), batch_size=64)
    right = [score.right[1 : 2 * texts.pairs : 2] for score in scores]  # x, image, x, image, ..., end
    return [sum(column) / len(right) for column in zip(*right, strict=True)]
