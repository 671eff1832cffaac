"""What a trained model scores, for each kind of measure that runs it: on pairs, on examples of its task, on texts it reads.

| kind | |
|---|---|
| `teacher_forced`, `decoded` | `judged`: all metrics at once, over all pairs and by length of the source |
| `evaluated` | `evaluated`: what `regard evaluate` finds, on examples of other data than the run learnt from |
| `in_context` | `accuracy_by_shots`: how well a language model learns a map from the pairs that stand before |
| `repeated` | `accuracy_of_repeats`: how well it says again what it has read, with its attention `changed` after training |
| `at_length` | `loss_at_length`: how well it tells stretches of another length than it was trained on |
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from regard.claims.measure import Measure
from regard.data.malformed import MalformedRows
from regard.data.sequences import Maps, Repeats
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.models.config import config_from_json, config_to_json
from regard.structure import from_mapping
from regard.tasks.language_modelling import LanguageModel
from regard.tasks.language_task import COLUMN, LanguageModellingTask
from regard.tasks.spec import spec_of
from regard.tasks.translation import Translator, evaluate, teacher_forced
from regard.training.recipe import Recipe

Pairs = Sequence[tuple[str, str]]

TOKENS_AT_ONCE = 16_384
"""The most tokens of stretches that are read together."""


def check_scored(measure: Measure, recipe: Recipe, where: str) -> None:
    """Refuse now a measure of examples or of a language model that the runs of a recipe cannot answer.

    Raises:
        InputError: for `evaluated`, a task without such an evaluation, or data that it cannot have; for `in_context`, a recipe
            that is not about maps, or fewer pairs than are to stand before; for `repeated`, one that is not about repeats; for
            `at_length`, another task than language modelling.
    """
    modelling = recipe.task == LanguageModellingTask.name
    if measure.kind == "evaluated":
        _section_of(measure, recipe, where)
    elif measure.kind == "in_context":
        maps = recipe.data.maps if modelling else None
        if maps is None:
            raise InputError(f"{where}: in_context reads data.maps, and the recipe has none; choose another kind")
        if measure.shots >= maps.pairs:
            raise InputError(
                f"{where}: {measure.shots} shots and the one that is asked are more than the {maps.pairs} pairs of "
                "data.maps.pairs"
            )
    elif measure.kind == "repeated" and (not modelling or recipe.data.repeats is None):
        raise InputError(f"{where}: repeated reads data.repeats, and the recipe has none; choose another kind")
    elif measure.kind == "at_length" and not modelling:
        raise InputError(
            f"{where}: at_length is for language models, and the task is {recipe.task}; choose another kind"
        )


def judged(translator: Translator, pairs: Pairs, measure: Measure, generation: GenerationSettings) -> dict[str, Any]:
    """All metrics of a measure's kind as JSON values: `metrics`, the same in `bins` where asked for, `count` and a `note`.

    Raises:
        InputError: for an empty list, or texts that the model cannot read.
    """
    if measure.kind == "decoded":
        found = evaluate(translator, pairs, generation, to=measure.to, bins=measure.bins)
        bins = [dataclasses.asdict(part) for part in found.bins]
        return {"metrics": found.metrics, "bins": bins, "note": found.note, "count": found.count}
    metrics = dataclasses.asdict(teacher_forced(translator, pairs, to=measure.to))
    bins = []
    for shortest, longest in bounds(measure.bins) if measure.bins else ():
        inside = [pair for pair in pairs if shortest <= len(pair[0].split()) <= (longest or math.inf)]
        part = dataclasses.asdict(teacher_forced(translator, inside, to=measure.to)) if inside else {}
        bins.append({"shortest": shortest, "longest": longest, "count": len(inside), "metrics": part})
    return {"metrics": metrics, "bins": bins, "note": "", "count": len(pairs)}


def bounds(bins: Sequence[int]) -> list[tuple[int, int | None]]:
    """The ranges that edges make, as `regard.evaluate` counts them.

    >>> bounds((10, 20))
    [(1, 10), (11, 20), (21, None)]
    """
    starts = [1, *(edge + 1 for edge in bins)]
    return list(zip(starts, [*bins, None], strict=True))


def evaluated(measure: Measure, recipe: Recipe, predictor: Any) -> dict[str, float]:
    """The metrics of a predictor on the examples that a measure asks for.

    Raises:
        InputError: for data that cannot be read, or a metric that the task does not have.
    """
    kind, where = spec_of(recipe.task), f"measure {measure.name!r}"
    read, section = _section_of(measure, recipe, where)
    examples = list(itertools.islice(read(section, MalformedRows()), measure.size))
    metrics = dict(kind.evaluate(predictor, examples).metrics)
    if measure.metric not in metrics:
        raise InputError(f"{where}: task {recipe.task} has no metric {measure.metric!r}; it has {', '.join(metrics)}")
    return metrics


def _section_of(measure: Measure, recipe: Recipe, where: str) -> tuple[Callable[..., Any], Any]:
    """What reads the task's examples, and the run's data section, changed as the measure says.

    Nothing of the data is held out from what is asked for.
    """
    read = spec_of(recipe.task).read
    if read is None:
        raise InputError(f"{where}: evaluated is for tasks of examples, and {recipe.task} is none; choose another kind")
    own = dataclasses.asdict(recipe.data)
    own = {name: value for name, value in own.items() if not name.startswith("validation")}
    return read, from_mapping(type(recipe.data), {**own, **(measure.data or {})}, f"{where}: data")


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
