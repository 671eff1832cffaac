"""The folder is the model: config.json, model.safetensors, tokenizer files, regard.json, README.md. No pickle is ever read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.checkpoints import marian
from regard.checkpoints.names import IDENTITY, NameTable
from regard.checkpoints.tensors import check_same, read_tensors, write_tensors
from regard.errors import InputError, nearest
from regard.machine import versions
from regard.models import MODELS
from regard.models.config import config_from_json, config_to_json

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
CARD = "regard.json"

NAME_TABLES: Mapping[str, NameTable] = {
    "bahdanau": IDENTITY,
    "cho": IDENTITY,
    "gnmt": IDENTITY,
    "lstm_language_model": IDENTITY,
    "luong": IDENTITY,
    "sutskever": IDENTITY,
    "transformer": IDENTITY,
}
"""How each family's parameters are named on disk in Regard's own layout."""


OWN = "regard"
"""The name of our own layout."""

OLDER: Mapping[str, Mapping[str, Any]] = {"transformer": {"output_bias": "none"}}
"""What a config.json of our own layout meant by leaving a key out, before there was such a key."""


@dataclass(frozen=True, slots=True)
class Card:
    """What regard.json says: what the model is for and how it came to be.

    Arguments:
        task: the task's name and all that prediction needs.
        recipe: the resolved recipe it was trained with; empty where unknown.
        metrics: the last evaluation.
        digests: the SHA-256 of every tensor in model.safetensors.
        versions: of the libraries that wrote it; empty where another program did.
        layout: `name`, whose config and names the folder has: Hugging Face's `marian` or `pegasus`, with what their config cannot
            say under `unsaid`; or `regard`, with `why` it could not be told in one of those.
    """

    task: Mapping[str, Any]
    recipe: Mapping[str, Any]
    metrics: Mapping[str, float]
    digests: Mapping[str, str]
    versions: Mapping[str, str]
    layout: Mapping[str, Any] = field(default_factory=dict)


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
    obstacle: str = "",
) -> None:
    """Write config, weights and card into an existing folder: in Hugging Face's layout where it can be told there.

    Arguments:
        tensors: as `parameters_of` gives them.
        obstacle: what beside the config keeps the model from being told there, as half a sentence; empty where nothing does.
    """
    layout = layout_of(config, obstacle)
    if layout["name"] == OWN:
        values, stored = config_to_json(config), NAME_TABLES[config.model_type].to_theirs(tensors)
    else:
        values = marian.config_to_theirs(config, next(iter(tensors.values())).dtype)
        stored = marian.tensors_to_theirs(config, tensors)
    (folder / CONFIG).write_text(_json(values))
    digests = write_tensors(folder / WEIGHTS, stored)
    card = {
        "format_version": 1,
        "layout": layout,
        "task": dict(task),
        "metrics": dict(metrics),
        "versions": versions(),
        "recipe": dict(recipe),
        "digests": digests,
    }
    (folder / CARD).write_text(_json(card))


def layout_of(config: Any, obstacle: str = "") -> dict[str, Any]:
    """The layout that a model is written in, as regard.json has it; see `Card`.

    Arguments:
        obstacle: as for `write_model`.
    """
    why = marian.obstacle(config) or obstacle
    if why:
        return {"name": OWN, "why": why}
    return {"name": marian.family_of(config), "unsaid": marian.unsaid(config)}


def is_foreign(folder: str | os.PathLike[str]) -> bool:
    """Whether another program wrote the folder: its config is one of Hugging Face's that we read, and there is no card."""
    folder = Path(folder)
    if (folder / CARD).is_file() or not (folder / CONFIG).is_file():
        return False
    return _read_json(folder / CONFIG).get("model_type") in marian.NORMS


def read_card(folder: str | os.PathLike[str]) -> Card:
    """What a folder says of itself; next to nothing where another program wrote it.

    Raises:
        InputError: where it is no model folder, or its card is damaged or of a later format.
    """
    path = Path(folder) / CARD
    if is_foreign(folder):
        return Card(task={}, recipe={}, metrics={}, digests={}, versions={})
    if not path.is_file() and (Path(folder) / CONFIG).is_file():
        _family(Path(folder) / CONFIG)
    values = _read_json(path)
    if values.get("format_version") != 1:
        raise InputError(f"{path}: format_version {values.get('format_version')!r} is not known; update regard")
    parts: dict[str, Any] = {}
    for part in fields(Card):
        parts[part.name] = values.get(part.name, None if part.default_factory is MISSING else {})
        if not isinstance(parts[part.name], dict):
            raise InputError(f"{path}: {part.name} is missing or no object; the file is damaged, copy it again")
    return Card(**parts)


def read_model(folder: str | os.PathLike[str]) -> nn.Module:
    """The model in a folder, in evaluation mode, on the CPU.

    Raises:
        InputError: naming file and key for whatever is missing, cut short, tampered with, unknown or of another shape.
    """
    config, tensors = read_parameters(folder)
    model = MODELS[config.model_type].model(config)
    fill(model, tensors, str(Path(folder) / WEIGHTS))
    return model.eval()


def read_parameters(folder: str | os.PathLike[str]) -> tuple[Any, dict[str, Tensor]]:
    """The config in a folder and its tensors under our names, whatever layout it has.

    Raises:
        InputError: as `read_model`, except that a folder in our own layout is not yet compared with its config.
    """
    folder = Path(folder)
    path, file = folder / CONFIG, folder / WEIGHTS
    values, name = _family(path)
    if name in marian.NORMS:
        card = read_card(folder)
        tensors = read_tensors(file, card.digests)
        said = None if is_foreign(folder) else card.layout.get("unsaid", {})
        config = marian.config_to_ours(values, said, tensors.get(marian.BIAS), str(path))
        return config, marian.tensors_to_ours(config, tensors, str(file))
    version = values.get("format_version", 1)
    if version != 1:
        raise InputError(f"{path}: format_version {version!r} is not known; update regard")
    config = config_from_json(MODELS[name].config, {**OLDER.get(name, {}), **values}, str(path))
    digests = read_card(folder).digests if (folder / CARD).is_file() else None
    return config, NAME_TABLES[name].to_ours(read_tensors(file, digests))


def fill(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy tensors into a model's parameters, every one of both.

    Raises:
        InputError: listing all keys that are missing, not known, or of another shape, before anything is copied.
    """
    own = parameters_of(model)
    check_same({name: tuple(tensor.shape) for name, tensor in own.items()}, tensors, where)
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def _family(path: Path) -> tuple[dict[str, Any], str]:
    """The content of a config.json and the family it names."""
    values = _read_json(path)
    name = str(values.get("model_type"))
    if name not in MODELS and name not in marian.NORMS:
        raise InputError(f"{path}: model_type is {name!r}; {nearest(name, [*MODELS, *marian.NORMS])}")
    return values, name


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
