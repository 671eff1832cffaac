"""Initialising a model from pretrained weights."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.checkpoints.folder import WEIGHTS, parameters_of, read_parameters
from regard.checkpoints.tensors import check_same
from regard.errors import InputError
from regard.layers import CausalClassifier
from regard.models import MODELS, BertConfig, ViTConfig
from regard.models.vit import at_size
from regard.text import INPUT_TOKENS

REPLACEABLE = ("head.", "pooler.")
"""The parts that belong to a task; they are new if the folder has others or none. BERT's pooler was trained with the encoder."""

DROPPED = (*REPLACEABLE, "embedding.segments.")
"""The parts of the folder's model that the new model may lack, such as segments in DistilBERT."""

TABLE = "embedding.tokens.weight"

PARTS: Mapping[str, Mapping[str, str]] = {
    "masked": {"masked": "head."},
    "next_sentence": {"next_sentence": "head."},
    "pretraining": {"masked": "head.masked.", "next_sentence": "head.next_sentence."},
}
"""The parts of pre-trained heads by kind, and the beginnings of their names."""


def adopt(model: nn.Module, folder: str | os.PathLike[str], *, layers: Sequence[int] | None = None) -> str:
    """Copy the weights in a folder into a model that differs from it at most in its head.

    The embedding table of a model may have more rows than the folder's, for its own special tokens around inputs; these rows keep
    their values.

    Arguments:
        model: the model, which is changed in place; parameters that the folder does not have keep their values.
        layers: the folder's layers to copy to the model's layers, in order; None = all.

    Returns:
        A message about what was copied and what is new.

    Raises:
        InputError: if parameters outside the head are missing in the folder, or have another shape; then nothing is copied.
    """
    own, taken = parameters_of(model), _taken(model, folder, layers)
    wanted = {name: tensor for name, tensor in own.items() if name in taken or not name.startswith(REPLACEABLE)}
    shapes = {name: tuple(tensor.shape) for name, tensor in wanted.items()}
    grown = _grown(model, taken)
    if grown:
        shapes[TABLE] = (shapes[TABLE][0] - grown, *shapes[TABLE][1:])
    check_same(shapes, taken, str(Path(folder) / WEIGHTS))
    with torch.no_grad():
        for name, tensor in taken.items():
            (own[name][: len(tensor)] if name == TABLE else own[name]).copy_(tensor)
    new = sorted({name.split(".")[0] for name in own.keys() - taken.keys()})
    new += [f"{grown} rows of {TABLE.removesuffix('.weight')}"] if grown else []
    return f"weights of {folder}; " + (f"new are {' and '.join(new)}." if new else "nothing is new.")


def names_left_new(
    model: nn.Module, folder: str | os.PathLike[str], *, layers: Sequence[int] | None = None
) -> list[str]:
    """The names of the parameters that `adopt` does not change, such as those of a new head.

    Raises:
        InputError: for a folder without a model, or layers that it does not have.
    """
    taken = _taken(model, folder, layers)
    return [name for name in parameters_of(model) if name not in taken]


def _taken(model: nn.Module, folder: str | os.PathLike[str], layers: Sequence[int] | None) -> dict[str, Tensor]:
    """The folder's tensors that are copied, by their names in the model."""
    config, found = read_parameters(folder)
    own = parameters_of(model)
    if isinstance(config, ViTConfig) and isinstance(model.config, ViTConfig):
        found = at_size(found, config, model.config)
    if layers is not None:
        found = _chosen(found, layers, str(folder))
    theirs, ours = (str(getattr(each, "head", "")) for each in (config, model.config))
    shared = _shared(theirs, ours)
    found = _renamed(found, shared)
    kept = tuple(shared.values())
    if isinstance(config, BertConfig) and isinstance(model.config, BertConfig):
        kept = (*kept, "pooler.")

    def fits(name: str, tensor: Tensor) -> bool:
        if name not in own:
            beyond = isinstance(model, CausalClassifier) and name.startswith("output.")
            return not name.startswith(DROPPED) and not beyond
        return not name.startswith(REPLACEABLE) or (name.startswith(kept) and tensor.shape == own[name].shape)

    return {name: tensor for name, tensor in found.items() if fits(name, tensor)}


def _grown(model: nn.Module, tensors: Mapping[str, Tensor]) -> int:
    """The number of rows for special tokens around inputs that the model's embedding table has in addition to the folder's."""
    config: Any = model.config
    if TABLE not in tensors or not MODELS[config.model_type].input_tokens:
        return 0
    rows = config.vocabulary - len(tensors[TABLE])
    return rows if 0 < rows <= len(INPUT_TOKENS) else 0


def _shared(theirs: str, ours: str) -> dict[str, str]:
    """The common parts of two kinds of heads: the beginnings of their names in the folder, and in the model."""
    if theirs == ours:
        return {prefix: prefix for prefix in REPLACEABLE}
    there, here = PARTS.get(theirs, {}), PARTS.get(ours, {})
    return {there[part]: here[part] for part in there if part in here}


def _renamed(tensors: dict[str, Tensor], prefixes: Mapping[str, str]) -> dict[str, Tensor]:
    """All tensors outside the head, and those of the head with one of the prefixes, under their names in the model."""
    renamed = {name: tensor for name, tensor in tensors.items() if not name.startswith("head.")}
    for name, tensor in tensors.items():
        for old, new in prefixes.items():
            if name.startswith("head.") and name.startswith(old):
                renamed[new + name.removeprefix(old)] = tensor
    return renamed


def _chosen(tensors: dict[str, Tensor], layers: Sequence[int], where: str) -> dict[str, Tensor]:
    """The tensors in which layer `layers[i]` is renamed to layer i, without the other layers."""
    places: dict[int, list[int]] = {}
    for index, layer in enumerate(layers):
        places.setdefault(layer, []).append(index)
    chosen: dict[str, Tensor] = {}
    seen = set()
    for name, tensor in tensors.items():
        found = re.fullmatch(r"layers\.(\d+)\.(.+)", name)
        if found is None:
            chosen[name] = tensor
            continue
        seen.add(int(found[1]))
        chosen |= {f"layers.{index}.{found[2]}": tensor for index in places.get(int(found[1]), ())}
    if not places.keys() <= seen:
        wrong = min(places.keys() - seen)
        raise InputError(
            f"{where}: has no layer {wrong}, only 0 to {max(seen, default=-1)}; see model.pretrained_layers"
        )
    return chosen
