"""How well a language model tells stretches of another length than it was trained on."""

from __future__ import annotations

import torch

from regard.claims.measure import Measure
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.tasks.language_modelling.language_model import LanguageModel
from regard.tasks.language_modelling.task import COLUMN, LanguageModellingTask
from regard.training.recipe import Recipe

TOKENS_AT_ONCE = 16_384


def check_at_length(measure: Measure, recipe: Recipe, where: str) -> None:
    """Refuse a measure that a recipe's task cannot answer.

    Raises:
        InputError: for another task than language modelling.
    """
    if recipe.task != LanguageModellingTask.name:
        raise InputError(
            f"{where}: at_length is for language models, and the task is {recipe.task}; choose another kind"
        )


def loss_at_length(model: LanguageModel, store: TokenStore, *, length: int, size: int) -> float:
    """The mean of -log p over the tokens of stretches of `length`, each read from its own beginning.

    Arguments:
        store: of a run: one stream of tokens, cut into stretches of the length that was trained on. It is cut anew.
        size: the most stretches.

    Raises:
        InputError: for a stream that is shorter than one stretch, or a model without so many positions.
    """
    limit = model.model.maximum_length
    if limit is not None and length > limit:
        raise InputError(
            f"stretches of {length} tokens do not fit in {limit} positions; raise {model.model.length_setting}"
        )
    stretches = recut(store, length, size)
    if not stretches:
        raise InputError(f"the validation texts have fewer than {length} tokens; give more, or a smaller length")
    at_once = max(1, TOKENS_AT_ONCE // length)
    total, tokens = 0.0, 0
    with torch.no_grad():
        for start in range(0, len(stretches), at_once):
            batch = model.task.batch(stretches[start : start + at_once]).to(model.device)
            found = model.task.loss(model.model, batch)
            total += float(found.total)
            tokens += found.tokens
    return total / tokens


def recut(store: TokenStore, length: int, size: int) -> list[list[int]]:
    """Up to `size` stretches of `length` tokens to tell and the one read before them, from a stream cut into others."""
    found: list[list[int]] = []
    stream: list[int] = []
    for row in range(len(store)):
        # Neighbours share a token: the last one told is the first one read.
        stream += store.sequence(COLUMN, row).tolist()[1 if stream else 0 :]
        while len(stream) > length:
            found.append(stream[: length + 1])
            stream = stream[length:]
            if len(found) == size:
                return found
    return found
