"""What is planned, a published model or a recipe; and what a recipe's run reads.

A recipe's data is prepared as training would, where it is here; else its settings say how much is read.
"""

from __future__ import annotations

import dataclasses
import math
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.data.batching import Batches
from regard.errors import InputError
from regard.models import MODELS
from regard.planning.counting import Shape, Work, outline
from regard.planning.devices import Device, NumberFormat
from regard.planning.published_models import published
from regard.tasks.preparation import Prepared
from regard.tasks.spec import spec_of
from regard.training.optimizers import freeze, give_adapters
from regard.training.recipe import Recipe, folder_of, packaged_recipe, read_recipe
from regard.training.settings import OptimizerName, TrainingSettings

WITHOUT_TEXTS = ("transducer", "few_shot", "captioner", "image_classifier")
"""Interfaces of models whose work is not counted in tokens."""

BUILTIN = {"builtin", "dates", "sequences", "maps", "repeats"}
"""Fields of data sections that name builtin data, which is always available."""

MOST_MADE = 100_000
"""The most examples of builtin data that are generated for a plan, in fifteen seconds; larger numbers are extrapolated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What a plan is for.

    Arguments:
        name: of the recipe or published model.
        config: of the model.
        model: its outline, without weights; parameters that are not trained are frozen.
        work: the batches that it reads.
        precision: dtype of matrix products in the recipe; `16` for the fastest 16-bit dtype.
        recomputed: whether the recipe uses activation checkpointing.
        optimizer, momentum: the recipe's optimizer, and whether it uses momentum.
    """

    name: str
    config: Any
    model: nn.Module
    work: Work
    precision: str
    recomputed: bool
    optimizer: OptimizerName = "adamw"
    momentum: bool = False


def subject_of(what: Any, overrides: Sequence[str], asked: Asked, *, count: int, read: bool) -> Subject:
    """The published model with a name, or a recipe.

    Raises:
        InputError: as `regard.planning.plan`.
    """
    named = isinstance(what, str) and not Path(what).exists() and not what.endswith((".yaml", ".yml"))
    if named and packaged_recipe(what) is None:
        if overrides:
            raise InputError(
                f"{what} is a published model, which takes no settings such as {overrides[0]}; use a recipe"
            )
        found = published(what)
        length = asked.length or max((stage.length for stage in found.stages), default=found.length)
        rows = max(1, (asked.batch_tokens or 0) // length)
        work = found.work(tokens=asked.tokens, length=asked.length, rows=rows)
        return Subject(
            name=what, config=found.config, model=outline(found.config), work=work, precision="16", recomputed=False
        )
    recipe = read_recipe(what, overrides)
    config, work = recipe_work(recipe, asked, count=count, read=read)
    model = outline(config)
    if recipe.adapters is not None:
        start = folder_of(recipe.model["pretrained"])
        give_adapters(model, recipe.adapters, start, recipe.model.get("pretrained_layers"))
    if recipe.training.frozen:
        freeze(model, recipe.training.frozen)
    return Subject(
        name=str(what) if isinstance(what, str | os.PathLike) else config.model_type,
        config=config,
        model=model,
        work=work,
        precision=recipe.training.precision,
        recomputed=recipe.training.activation_checkpointing,
        optimizer=recipe.training.optimizer,
        momentum=recipe.training.momentum > 0,
    )


def number_format(asked: str, own: str, device: Device) -> NumberFormat:
    """The dtype of matrix products: `asked`, or with `auto` the subject's `own`.

    Raises:
        InputError: where the device does not support it.
    """
    wanted = asked if asked != "auto" else own
    if wanted == "16":
        return device.fastest
    if wanted == "auto":
        wanted = "bfloat16" if device.peak.get("bfloat16", 0.0) > device.peak["float32"] else "float32"
    if wanted not in device.peak:
        raise InputError(f"--dtype: {device.title} does not support {wanted}; choose {' or '.join(device.peak)}")
    return wanted  # type: ignore[return-value]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Values given to a plan in place of a recipe's or a paper's.

    Arguments:
        tokens: read in the whole run, padding included.
        batch_tokens: tokens per device and batch.
        length: of a text, or of a source and a target each, in tokens.
    """

    tokens: float | None = None
    batch_tokens: int | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        for name, option in (("tokens", "--tokens"), ("batch_tokens", "--batch-tokens"), ("length", "--length")):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"{option} is {value!r}; give a number above 0")


def recipe_work(recipe: Recipe, asked: Asked, *, count: int, read: bool) -> tuple[Any, Work]:
    """A recipe's model config, with the sizes of its vocabularies, and the batches that its run reads.

    Arguments:
        recipe: the recipe.
        asked: values in place of the recipe's.
        count: number of devices; each reads its own batches.
        read: prepare the data as for training, where it is on this machine.

    Raises:
        InputError: where the length of the run, or of a text, follows neither from the recipe nor from its data, and for tasks
            that read no texts.
    """
    if MODELS[str(recipe.model["name"])].interface in WITHOUT_TEXTS:
        raise InputError(
            f"plans count the tokens of texts, and task {recipe.task} reads none; time some steps of training instead"
        )
    if asked.batch_tokens is not None:
        training = dataclasses.replace(recipe.training, batch_tokens=asked.batch_tokens)
        recipe = dataclasses.replace(recipe, training=training)
    if read and asked.length is None and is_here(recipe.sections["data"]):
        data, times = _made(recipe.sections["data"])
        with tempfile.TemporaryDirectory() as folder:
            kind = spec_of(recipe.task)
            prepared = kind.prepare(
                folder=Path(folder) / "data",
                seed=recipe.seed,
                given=None,
                given_validation=None,
                **{**recipe.sections, "data": data},
            )
            config = recipe.model_config(prepared.task.model_settings(), prepared.task.settings_of_some())
            return config, _from_data(recipe, config, prepared, asked, count, times)
    config = recipe.model_config(_sizes(recipe))
    return config, _from_settings(recipe, asked, count)


def is_here(data: Any) -> bool:
    """Whether all data that a section names is on this machine: builtin data, or files."""
    targets = getattr(data, "targets", None)
    if isinstance(targets, Mapping):
        return all(is_here(part) for part in targets.values())
    if any(getattr(data, name, None) is not None for name in BUILTIN):
        return True
    files = [*_files(getattr(data, "train", None)), *_files(getattr(data, "validation", None))]
    return getattr(data, "train", None) is not None and all(Path(file).is_file() for file in files)


def _made(data: Any) -> tuple[Any, float]:
    """A data section with at most `MOST_MADE` builtin examples, and the ratio of its real number to that."""
    for name in BUILTIN & {field.name for field in dataclasses.fields(data)}:
        part: Any = getattr(data, name)
        less = {size: MOST_MADE for size in ("size", "validation_size") if getattr(part, size, 0) > MOST_MADE}
        if less:
            return dataclasses.replace(data, **{name: dataclasses.replace(part, **less)}), max(
                1.0, part.size / MOST_MADE
            )
    return data, 1.0


def _files(place: Any) -> Iterator[str]:
    if isinstance(place, str):
        yield place
    elif place is not None:
        yield from place


def _sizes(recipe: Recipe) -> dict[str, Any]:
    """The fields that the task sets in the config; vocabularies are as large as the tokenizer's limit."""
    derived_config = dict(spec_of(recipe.task).derived_config)
    if recipe.model.get("pretrained") is None and recipe.tokenizer is not None:
        derived_config |= {name: recipe.tokenizer.size for name in derived_config if name.endswith("vocabulary")}
    return derived_config


def _from_data(
    recipe: Recipe, config: Any, prepared: Prepared[Any], asked: Asked, count: int, times_as_many: float
) -> Work:
    """The actual batches of the first epoch, or of a part of it, scaled to the whole run."""
    training, task, store = recipe.training, prepared.task, prepared.train
    lengths, predicted = np.asarray(task.lengths(store)), _predicted(task, store, config)
    chosen = task.epoch_rows(store)
    batches = Batches(lengths, maximum_tokens=training.tokens_of_a_batch(lengths), seed=recipe.seed, rows=chosen).epoch(
        0
    )
    sides = MODELS[config.model_type].interface == "encoder_decoder"
    counted: Counter[Shape] = Counter()
    for batch in batches:
        widest = lengths[batch].max(axis=0).tolist()
        answers = None if predicted is None else float(predicted[batch].sum())
        if sides:
            counted[Shape(rows=len(batch), length=widest[0], target=widest[1], predicted=answers)] += 1
        else:  # several texts of one example are read one after the other
            for each in widest:
                counted[Shape(rows=len(batch), length=each, predicted=answers)] += 1
    per_epoch = sum(shape.tokens * times for shape, times in counted.items()) * times_as_many
    labels = task.labels(store)
    labels_read = sum(int(labels[batch].sum()) for batch in batches)
    of_epoch = round(len(batches) * times_as_many)
    updates = _updates(training, of_epoch, round(labels_read * times_as_many), count)
    epochs = (asked.tokens / per_epoch) if asked.tokens is not None else None
    if epochs is None:
        if updates is None:
            raise InputError(_no_end(training))
        epochs = updates * training.accumulate * count / of_epoch
    shapes = tuple(dataclasses.replace(shape, times=times * epochs * times_as_many) for shape, times in counted.items())
    examples = round(len(store) * times_as_many)
    by = "" if times_as_many == 1 else f", by {len(store):,} of them"
    return Work(
        shapes=shapes,
        updates=epochs * of_epoch / (training.accumulate * count),
        largest=dataclasses.replace(max(shapes, key=lambda shape: shape.tokens), times=1),
        source=f"its data: {examples:,} examples{by}, {of_epoch:,} batches an epoch, {epochs:,.4g} epochs",
    )


def _predicted(task: Any, store: Any, config: Any) -> np.ndarray | None:
    """For each example, the number of tokens whose logits a model with a head computes; None where that is all of them."""
    head = getattr(config, "head", None)
    if head is None:
        return None
    if head in ("masked", "pretraining"):
        return np.asarray(task.labels(store))
    auxiliary = [np.asarray(each) for each in task.auxiliary_labels(store).values()]
    return np.asarray(sum(auxiliary)) if auxiliary else np.zeros(len(store))


def _updates(training: TrainingSettings, batches: int, labels: int, count: int) -> float | None:
    """The number of updates that the limits allow; None where the only limit is in seconds."""
    each = training.accumulate * count
    limits: list[float] = [] if training.steps is None else [training.steps]
    if training.epochs is not None:
        limits.append(training.epochs * math.ceil(batches / each))
    if training.tokens is not None:
        limits.append(training.tokens / (labels / math.ceil(batches / each)))
    return min(limits) if limits else None


def _from_settings(recipe: Recipe, asked: Asked, count: int) -> Work:
    """Batches that are all full, of texts that all have the maximum length."""
    training, data = recipe.training, recipe.sections["data"]
    length = asked.length or getattr(data, "length", None) or getattr(data, "maximum_length", None)
    if length is None:
        raise InputError("the length of texts depends on the data, which is not on this machine; give --length")
    sides = 2 if MODELS[str(recipe.model["name"])].interface == "encoder_decoder" else 1
    rows = max(1, training.batch_tokens // (sides * length))
    share = getattr(data, "chosen_share", None)
    shape = Shape(
        rows=rows,
        length=length,
        target=length if sides == 2 else 0,
        predicted=None if share is None else rows * round(share * length),
    )
    each = training.accumulate * count
    if asked.tokens is not None:
        times = asked.tokens / shape.tokens
    elif training.steps is not None:
        times = training.steps * each
    elif training.tokens is not None:
        times = training.tokens / (shape.rows * (shape.target or shape.length))
    else:
        raise InputError(_no_end(training))
    whole = dataclasses.replace(shape, times=times)
    return Work(
        shapes=(whole,),
        updates=times / each,
        largest=shape,
        source="the recipe's settings, with full batches of texts of maximum length; its data was not read",
    )


def _no_end(training: TrainingSettings) -> str:
    if training.epochs is not None:
        return (
            f"the run ends after {training.epochs:g} epochs, of data that is not on this machine; give data.train=..., or "
            "the number of tokens with --tokens"
        )
    return f"the run ends after {training.seconds:g} seconds; give training.steps=... or --tokens"
