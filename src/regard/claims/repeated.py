"""How well a language model says again what it has read, with its attention changed after training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.claims.measure import Measure
from regard.data.repeats import Repeats
from regard.errors import InputError
from regard.models.config import config_from_json, config_to_json
from regard.tasks.language_modelling.language_model import LanguageModel
from regard.tasks.language_modelling.task import LanguageModellingTask
from regard.training.recipe import Recipe


def check_repeated(measure: Measure, recipe: Recipe, where: str) -> None:
    """Refuse a measure that a recipe's data or its model cannot answer.

    Raises:
        InputError: where it is not about repeats, or the model has no setting of such a name.
    """
    repeats = recipe.data.repeats if recipe.task == LanguageModellingTask.name else None
    if repeats is None:
        raise InputError(f"{where}: repeated reads data.repeats, and the recipe has none; choose another kind")


def changed(model: LanguageModel, settings: Mapping[str, Any]) -> LanguageModel:
    """The same weights in a model whose config differs in some settings.

    Arguments:
        settings: by name; those that say how large the weights are cannot be changed.

    Raises:
        InputError: naming a setting that there is not, or that the weights do not fit.
    """
    if not settings:
        return model
    old = model.model
    config = config_from_json(type(old.config), {**config_to_json(old.config), **settings}, "measure: model")
    new = type(old)(config).to(model.device)
    sizes = {name: tensor.shape for name, tensor in old.state_dict().items()}
    if {name: tensor.shape for name, tensor in new.state_dict().items()} != sizes:
        raise InputError(f"measure: model: {', '.join(settings)} changes the weights; change what does not")
    new.load_state_dict(old.state_dict())
    return LanguageModel(new.eval(), model.task, recipe=model.recipe, metrics=model.metrics)


def accuracy_of_repeats(model: LanguageModel, texts: Repeats) -> float:
    """The share of tokens of the second w that were the most probable ones.

    Arguments:
        model: reads each symbol as one token.
        texts: of a split that the model has not seen.
    """
    scores = model.score_batch(list(texts), batch_size=64)
    again = [score.right[texts.length + 2 : 2 * texts.length + 2] for score in scores]  # 0 w 0 w, end
    return sum(sum(part) for part in again) / sum(len(part) for part in again)
