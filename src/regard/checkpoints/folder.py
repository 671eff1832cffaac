"""The folder is the model: config.json, model.safetensors, tokenizer files, regard.json, README.md. No pickle is ever read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.checkpoints.names import IDENTITY, NameTable
from regard.checkpoints.tensors import read_tensors, write_tensors
from regard.errors import InputError, nearest
from regard.models import MODELS
from regard.models.config import config_from_json, config_to_json

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
CARD = "regard.json"

NAME_TABLES: Mapping[str, NameTable] = {"bahdanau": IDENTITY, "transformer": IDENTITY}
"""How each family's parameters are named on disk."""


@dataclass(frozen=True, slots=True)
class Card:
    """What regard.json says: what the model is for and how it came to be.

    Arguments:
        task: the task's name and all that prediction needs.
        recipe: the resolved recipe it was trained with; empty where unknown.
        metrics: the last evaluation.
        digests: the SHA-256 of every tensor in model.safetensors.
        versions: of the libraries that wrote it.
    """

    task: Mapping[str, Any]
    recipe: Mapping[str, Any]
    metrics: Mapping[str, float]
    digests: Mapping[str, str]
    versions: Mapping[str, str]


def versions() -> dict[str, str]:
    """The versions of what decides a run's numbers."""
    import platform

    import regard

    return {"regard": regard.__version__, "torch": torch.__version__, "python": platform.python_version()}


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """The model's tensors by name, each tied one once, under the first of its names."""
    seen: set[int] = set()
    tensors: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[name] = tensor.detach()
    return tensors


def write_model(
    folder: Path,
    config: Any,
    tensors: Mapping[str, Tensor],
    *,
    task: Mapping[str, Any],
    recipe: Mapping[str, Any],
    metrics: Mapping[str, float],
) -> None:
    """Write config, weights and card into an existing folder.

    Arguments:
        tensors: as `parameters_of` gives them.
    """
    (folder / CONFIG).write_text(_json(config_to_json(config)))
    digests = write_tensors(folder / WEIGHTS, NAME_TABLES[config.model_type].to_theirs(tensors))
    card = {
        "format_version": 1,
        "task": dict(task),
        "metrics": dict(metrics),
        "versions": versions(),
        "recipe": dict(recipe),
        "digests": digests,
    }
    (folder / CARD).write_text(_json(card))


def read_card(folder: str | os.PathLike[str]) -> Card:
    """What a folder says of itself.

    Raises:
        InputError: where it is no model folder, or its card is damaged or of a later format.
    """
    path = Path(folder) / CARD
    values = _read_json(path)
    if values.get("format_version") != 1:
        raise InputError(f"{path}: format_version {values.get('format_version')!r} is not known; update regard")
    parts: dict[str, Any] = {}
    for part in fields(Card):
        parts[part.name] = values.get(part.name)
        if not isinstance(parts[part.name], dict):
            raise InputError(f"{path}: {part.name} is missing or no object; the file is damaged, copy it again")
    return Card(**parts)


def read_model(folder: str | os.PathLike[str]) -> nn.Module:
    """The model in a folder, in evaluation mode, on the CPU.

    Raises:
        InputError: naming file and key for whatever is missing, cut short, tampered with, unknown or of another shape.
    """
    folder = Path(folder)
    path = folder / CONFIG
    values = _read_json(path)
    name = str(values.get("model_type"))
    if name not in MODELS:
        raise InputError(f"{path}: model_type is {name!r}; {nearest(name, list(MODELS))}")
    version = values.get("format_version", 1)
    if version != 1:
        raise InputError(f"{path}: format_version {version!r} is not known; update regard")
    config = config_from_json(MODELS[name].config, values, str(path))
    model = MODELS[name].model(config)
    digests = read_card(folder).digests if (folder / CARD).is_file() else None
    file = folder / WEIGHTS
    tensors = NAME_TABLES[name].to_ours(read_tensors(file, digests))
    fill(model, tensors, str(file))
    return model.eval()


def fill(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy tensors into a model's parameters, every one of both.

    Raises:
        InputError: listing all keys that are missing, not known, or of another shape, before anything is copied.
    """
    own = parameters_of(model)
    missing = sorted(own.keys() - tensors.keys())
    extra = sorted(tensors.keys() - own.keys())
    shapes = [
        f"{name} is {tuple(tensors[name].shape)} where {tuple(own[name].shape)} is wanted"
        for name in sorted(own.keys() & tensors.keys())
        if own[name].shape != tensors[name].shape
    ]
    faults = []
    if missing:
        faults.append("missing " + ", ".join(missing))
    if extra:
        faults.append("not known " + ", ".join(extra))
    if shapes:
        faults.append("; ".join(shapes))
    if faults:
        raise InputError(f"{where}: {'; '.join(faults)}; weights and config.json must come from the same model")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def _read_json(path: Path) -> dict[str, Any]:
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder; give the folder of a trained model")
    if not path.is_file():
        raise InputError(f"{path}: no such file; {path.parent} is not a model folder")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check its permissions") from error
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}); the file is damaged, copy it again") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: holds no JSON object; the file is damaged, copy it again")
    return values
