"""What is planned: a published model by its name, or a recipe."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard.errors import InputError
from regard.planning.devices import Device, NumberFormat
from regard.planning.parameters import outline
from regard.planning.published import published
from regard.planning.reading import Asked, recipe_work
from regard.planning.shapes import Work
from regard.training.adapters import give_adapters
from regard.training.model_section import folder_of
from regard.training.optimizers import freeze
from regard.training.recipe import packaged_recipe, read_recipe
from regard.training.settings import OptimizerName


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What is planned.

    Arguments:
        name: of the recipe or published model.
        config: of the model.
        model: its outline, without numbers; what is not trained is frozen.
        work: what it reads.
        precision: of matrix products, as the recipe has it; `16` for the fastest 16-bit format.
        recomputed: whether the recipe has activation checkpointing.
        optimizer, momentum: the recipe's, and whether it has one.
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
    """The published model of a name, or a recipe.

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
    """What matrices are multiplied in: as asked for, or as the subject has it.

    Raises:
        InputError: where the device does not multiply it.
    """
    wanted = asked if asked != "auto" else own
    if wanted == "16":
        return device.fastest
    if wanted == "auto":
        wanted = "bfloat16" if device.peak.get("bfloat16", 0.0) > device.peak["float32"] else "float32"
    if wanted not in device.peak:
        raise InputError(f"--precision: {device.title} does not multiply {wanted}; choose {' or '.join(device.peak)}")
    return wanted  # type: ignore[return-value]
