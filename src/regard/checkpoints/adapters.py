"""Low-rank adapters next to a model's weights, in the layout of the `peft` library if it can represent them.

    adapter/adapter_config.json, adapter/adapter_model.safetensors    as peft writes them
    adapter/regard.json                                               names and settings in Regard, and a digest of each tensor

The weights in model.safetensors are those without the adapters. A matrix of another library can contain several matrices of ours,
such as query, key and value of GPT-2: adapters of rank r on k of them become one adapter of rank k r, whose second matrix is
block diagonal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.checkpoints.layouts import format_of
from regard.checkpoints.tensors import by_head, read_tensors, write_tensors
from regard.errors import InputError
from regard.layers.blocks import LowRankLinear, merged_weight
from regard.reading import read_json_object
from regard.structure import from_mapping

ADAPTER = "adapter"
"""The name of the adapters' folder in a model's folder."""

CONFIG, WEIGHTS, CARD = "adapter_config.json", "adapter_model.safetensors", "regard.json"
DOWN, UP = ".down", ".up"
PREFIX = "base_model.model."
UNNAMED = "regard"
"""The name of the layout of adapters that peft cannot represent."""

MARK = 5
"""The ratio of width to height of the tensors with which a layout is probed; larger than the number of parts of any matrix."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterCard:
    """The content of adapter/regard.json.

    Arguments:
        format_version: the version of the file's format.
        rank, alpha, dropout: as in `layers.blocks.LowRankLinear`.
        maps: the full names of the linear maps with an adapter.
        layout: `peft`, or `regard` if the tensors have our own names.
        digests: the SHA-256 of every tensor.
    """

    rank: int
    alpha: float
    dropout: float
    maps: tuple[str, ...]
    layout: str
    digests: dict[str, str]
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class _Place:
    """A matrix of another library, and the matrices of ours that are its parts, in order.

    Arguments:
        heads: the number of heads if its rows are ordered by head and then by part; 1 if they are ordered by part only.
    """

    name: str
    parts: tuple[str, ...]
    transposed: bool
    heads: int


def split(model: nn.Module, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Divide a model's tensors into those of the original model and those of its adapters."""
    own = {
        f"{name}{end}" for name, each in model.named_modules() if isinstance(each, LowRankLinear) for end in (DOWN, UP)
    }
    base = {name: tensor for name, tensor in tensors.items() if name not in own}
    return base, {name: tensor for name, tensor in tensors.items() if name in own}


def write_adapters(
    folder: Path, config: Any, tensors: Mapping[str, Tensor], *, alpha: float, dropout: float, base: str = ""
) -> None:
    """Write adapters into a model's folder.

    Arguments:
        config: the config of the model.
        tensors: the tensors `NAME.down` and `NAME.up` of each adapter.
        alpha, dropout: the settings of all adapters.
        base: the original model, for peft's `base_model_name_or_path`.
    """
    maps = tuple(name.removesuffix(DOWN) for name in tensors if name.endswith(DOWN))
    rank = tensors[maps[0] + DOWN].shape[0]
    places = _places(config, maps)
    stored = {**tensors} if places is None else _to_peft(tensors, places)
    place = folder / ADAPTER
    place.mkdir()
    digests = write_tensors(place / WEIGHTS, stored)
    described = _peft_config(places, maps, rank, alpha, dropout, base)
    (place / CONFIG).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    card = AdapterCard(
        rank=rank,
        alpha=alpha,
        dropout=dropout,
        maps=maps,
        layout=UNNAMED if places is None else "peft",
        digests=digests,
    )
    (place / CARD).write_text(json.dumps(asdict(card), indent=2) + "\n", encoding="utf-8")


def has_adapters(folder: Path) -> bool:
    """Whether a model's folder has adapters next to its weights."""
    return (folder / ADAPTER / CARD).is_file()


def read_adapters(folder: Path, config: Any) -> tuple[AdapterCard, dict[str, Tensor]]:
    """The adapters in a model's folder, under our names.

    Raises:
        InputError: for files that are missing, damaged or of another model.
    """
    path = folder / ADAPTER / CARD
    card = from_mapping(AdapterCard, read_json_object(path, "copy the folder again"), str(path))
    if card.format_version != 1:
        raise InputError(f"{path}: format_version {card.format_version} is not known; update regard")
    file = folder / ADAPTER / WEIGHTS
    stored = read_tensors(file, card.digests)
    if stored.keys() != card.digests.keys():
        raise InputError(f"{file}: its tensors are not those listed in {CARD}; copy the folder again")
    if card.layout == UNNAMED:
        return card, stored
    places = _places(config, card.maps)
    if places is None:
        raise InputError(f"{path}: has peft's names that this model does not have; copy the folder again")
    return card, _from_peft(stored, places, card)


def with_adapters(folder: Path, config: Any, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A model's tensors with the adapters in its folder, if any, merged into them.

    Raises:
        InputError: as `read_adapters`.
    """
    found = dict(tensors)
    if not has_adapters(folder):
        return found
    card, adapters = read_adapters(folder, config)
    for name in card.maps:
        weight = f"{name}.weight"
        if weight not in found or f"{name}{UP}" not in adapters:
            raise InputError(
                f"{folder / ADAPTER / CARD}: {name} is not a linear map of this model; copy the folder again"
            )
        down, up = adapters[name + DOWN], adapters[name + UP]
        found[weight] = merged_weight(found[weight], down, up, card.alpha / card.rank)
    return found


def _places(config: Any, maps: tuple[str, ...]) -> list[_Place] | None:
    """The matrices of another library with these maps; None if it has none, or if the order of their channels differs."""
    written_as, _ = format_of(config)
    if written_as is None or any(rule.channels for rule in written_as.name_table(config).rules):
        return None
    rows = max(rule.heads or 1 for rule in written_as.name_table(config).rules)
    asked = list(dict.fromkeys([*maps, *(other for name in maps for other in _siblings(name))]))
    marks = {f"{name}.weight": torch.full((rows, MARK * rows), float(number)) for number, name in enumerate(asked)}
    places = []
    for theirs, mark in written_as.name_table(config).to_theirs(marks).items():
        transposed = mark.shape[1] != MARK * rows
        numbers = (mark[0] if transposed else mark[:, 0]).tolist()
        parts = tuple(asked[int(number)] for number in dict.fromkeys(numbers))
        if any(part in maps for part in parts):
            heads = 1 if numbers == sorted(numbers, key=numbers.index) else rows
            places.append(_Place(theirs.removesuffix(".weight"), parts, transposed, heads))
    return places


def _siblings(name: str) -> list[str]:
    """The maps that a layout can have in one matrix with this one."""
    parent, _, own = name.rpartition(".")
    together = ("query", "key", "value")
    return [f"{parent}.{other}" for other in together] if own in together else []


def _to_peft(tensors: Mapping[str, Tensor], places: list[_Place]) -> dict[str, Tensor]:
    stored = {}
    for place in places:
        downs = [tensors[part + DOWN] for part in place.parts if part + DOWN in tensors]
        ups = [tensors.get(part + UP) for part in place.parts]
        rows = next(up.shape[0] for up in ups if up is not None)
        blocks = [torch.zeros(rows, 0, dtype=downs[0].dtype) if up is None else up.detach().cpu() for up in ups]
        stored[f"{PREFIX}{place.name}.lora_A.weight"] = torch.cat(downs)
        stored[f"{PREFIX}{place.name}.lora_B.weight"] = by_head(torch.block_diag(*blocks), len(blocks), place.heads)
    return stored


def _from_peft(stored: Mapping[str, Tensor], places: list[_Place], card: AdapterCard) -> dict[str, Tensor]:
    tensors = {}
    for place in places:
        down = stored[f"{PREFIX}{place.name}.lora_A.weight"]
        up = by_head(stored[f"{PREFIX}{place.name}.lora_B.weight"], place.heads, len(place.parts))
        rows = up.shape[0] // len(place.parts)
        first = 0
        for number, part in enumerate(place.parts):
            if part in card.maps:
                columns = slice(first, first + card.rank)
                tensors[part + DOWN] = down[columns].clone()
                tensors[part + UP] = up[number * rows : (number + 1) * rows, columns].clone()
                first += card.rank
    return tensors


def _peft_config(
    places: list[_Place] | None, maps: tuple[str, ...], rank: int, alpha: float, dropout: float, base: str
) -> dict[str, Any]:
    """The values of peft's `LoraConfig`; matrices of several parts have their own rank and alpha."""
    many = {}
    for place in places or ():
        count = sum(part in maps for part in place.parts)
        if count > 1:
            many[place.name] = count
    return {
        "peft_type": "LORA",
        "base_model_name_or_path": base or None,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "target_modules": list(maps) if places is None else [place.name for place in places],
        "rank_pattern": {name: count * rank for name, count in many.items()},
        "alpha_pattern": {name: count * alpha for name, count in many.items()},
        "fan_in_fan_out": any(place.transposed for place in places or ()),
        "bias": "none",
        "task_type": None,
        "inference_mode": True,
    }
