"""The `model` section of a recipe: a family and its sizes, or a trained model to start from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.checkpoints import located, read_config
from regard.errors import InputError, nearest
from regard.models import MODELS, Interface
from regard.parts import own_hint
from regard.structure import from_mapping
from regard.tasks.spec import TaskSpec
from regard.text import INPUT_TOKENS

OWN = ("name", "pretrained", "pretrained_layers")
"""What this section holds beside the fields of a config."""


def resolved(model: Mapping[str, Any], interface: Interface) -> dict[str, Any]:
    """The section with its family's name, that of the trained model where none is given.

    A language model's becomes that of the same model with a head where the task asks for one.

    Arguments:
        interface: what the task asks of a model.

    Raises:
        InputError: for a folder to start from that holds no model, or layers without one.
    """
    values = dict(model)
    start = values.get("pretrained")
    if start is None:
        if values.get("pretrained_layers") is not None:
            raise InputError("model.pretrained_layers is given without model.pretrained; name the folder of a model")
        return _with_head(values, interface)
    if not isinstance(start, str):
        raise InputError(f"model.pretrained is {start!r}; give the folder of a model")
    if values.get("name") is None:
        values = {**values, "name": read_config(folder_of(start)).model_type}
    return _with_head(values, interface)


def _with_head(values: dict[str, Any], interface: Interface) -> dict[str, Any]:
    family = MODELS.get(str(values.get("name")))
    if family is None or family.serves(interface) or not family.with_head:
        return values
    return {**values, "name": family.with_head} if MODELS[family.with_head].serves(interface) else values


def folder_of(start: str) -> Path:
    """The folder of the model to start from: of a run, its best checkpoint's."""
    from regard.tasks.loading import model_folder

    return model_folder(located(start))


def check_section(model: Mapping[str, Any], task: str, kind: TaskSpec) -> None:
    """Refuse a family that is not known or no use for the task, and settings that are none of its.

    Raises:
        InputError: naming the nearest.
    """
    if model.get("name") is None:
        names = ", ".join(each for each, family in MODELS.items() if family.serves(kind.interface))
        raise InputError(
            "model says neither name nor pretrained; give the folder of a model to start from (model.pretrained=FOLDER), or a "
            f"family to train from nothing, with its sizes (model.name=..., one of {names})"
        )
    name = str(model["name"])
    if name not in MODELS:
        raise InputError(f"model.name is {name!r}; {nearest(name, list(MODELS))}{own_hint('model')}")
    fitting = [each for each, family in MODELS.items() if family.serves(kind.interface)]
    if name not in fitting:
        raise InputError(f"model.name is {name!r}, which is no model for task {task}; {nearest(name, fitting)}")
    known = {part.name for part in dataclasses.fields(MODELS[name].config)}
    choices = sorted(known - set(kind.filled_in) - set(kind.decided_of_some))
    for key in model:
        if key not in OWN and key not in choices:
            raise InputError(f"model: unknown key {key!r}; {nearest(key, [*choices, *OWN])}")
    config_of(model, kind.filled_in)  # a wrong size is to be told before the data is read, not after


def config_of(model: Mapping[str, Any], filled_in: Mapping[str, Any], of_some: Mapping[str, Any] | None = None) -> Any:
    """The model's config: what the section says, on top of the trained model's where it starts from one.

    Arguments:
        filled_in: what the task decides. A table of the trained model that has more rows than the vocabulary needs is kept; one
            that lacks those of the tokens between which a decoder reads its inputs gets them.
        of_some: what the task decides of models that have such a setting; others go without.

    Raises:
        InputError: for a value that is not allowed, or a vocabulary that is not the trained model's.
    """
    family = MODELS[model["name"]].config
    values = {key: value for key, value in model.items() if key not in OWN}
    had = {part.name for part in dataclasses.fields(family)}
    filled_in = {**filled_in, **{key: value for key, value in (of_some or {}).items() if key in had}}
    if model.get("pretrained") is None:
        return from_mapping(family, {**values, **filled_in}, "model")
    start = read_config(folder_of(model["pretrained"]))
    fields = {part.name for part in dataclasses.fields(family)}
    base = {
        part.name: getattr(start, part.name)
        for part in dataclasses.fields(start)
        if part.name in fields and part.name not in ("head", "outputs", "head_dropout", "pooler", "words")
    }
    layers = model.get("pretrained_layers")
    if layers is not None:
        base["layers"] = len(layers)
        if base.get("pruned_heads"):
            base["pruned_heads"] = [
                (index, head)
                for index, layer in enumerate(layers)
                for old, head in base["pruned_heads"]
                if old == layer
            ]
    decided = dict(filled_in)
    new = len(INPUT_TOKENS) if MODELS[model["name"]].input_tokens else 0
    for table in ("vocabulary", "source_vocabulary", "target_vocabulary"):
        size = decided.get(table)
        if size is not None and table in base:
            if size > base[table] + new:
                raise InputError(
                    f"model.pretrained: {model['pretrained']} has {base[table]:,} tokens and the tokenizer {size:,}; take "
                    "the folder's own, by leaving tokenizer.path out"
                )
            decided[table] = max(size, base[table])
    return from_mapping(family, {**base, **values, **decided}, "model")
