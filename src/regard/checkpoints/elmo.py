"""The published files of ELMo: options in JSON and weights in HDF5 (allenai/bilm-tf, as AllenNLP reads them).

    char_embed                                                    (261, d)
    CNN/W_cnn_{i}, CNN/b_cnn_{i}                                  (1, width, d, n), (n,)
    CNN_high_{i}/W_carry, b_carry, W_transform, b_transform       (N, N), (N,): transposed, with the input on the left
    CNN_proj/W_proj, b_proj                                       (N, P), (P,)
    RNN_{way}/RNN/MultiRNNCell/Cell{j}/LSTMCell/W_0, B, W_P_0     (2 P, 4 n), (4 n,), (n, P); way 0 is forward, 1 backward

The order of an LSTM's gates there is input, candidate, forget, output; ours is input, forget, candidate, output. Their code adds
1 to the bias of the forget gate when it computes; our bias includes it. The output layer over words is not published.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import InputError
from regard.files import new_file, replace_file
from regard.models.elmo import ELMoConfig
from regard.reading import check_regular, read_json_object

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
"""The ends of the names of the two files."""

BARE_SYMBOLS = 261
"""The number of characters; options count one more, for masking."""


def published_files(folder: str | os.PathLike[str]) -> tuple[Path, Path] | None:
    """The options and the weights in a folder with one of each and no config.json; None for another folder."""
    place = Path(folder)
    if not place.is_dir() or (place / "config.json").exists():
        return None
    found = [sorted(path for path in place.iterdir() if path.name.endswith(end)) for end in (OPTIONS, WEIGHTS)]
    return (found[0][0], found[1][0]) if all(len(each) == 1 for each in found) else None


def read_published(
    options: str | os.PathLike[str], weights: str | os.PathLike[str]
) -> tuple[ELMoConfig, dict[str, Tensor]]:
    """The config and the tensors, under our names, of a published ELMo, which has no word prediction.

    Raises:
        InputError: for files that are missing, damaged or of another model, or without h5py.
    """
    config = config_of_options(options)
    with _datasets(Path(weights)) as arrays:
        return config, _to_ours(config, arrays, str(weights))


def config_of_options(path: str | os.PathLike[str]) -> ELMoConfig:
    """The config that published options describe.

    Raises:
        InputError: for a file that cannot be read, missing options, and a model that is not a bidirectional ELMo of characters.
    """
    values = _read_json(Path(path))
    letters, lstm = values.get("char_cnn"), values.get("lstm")
    if not isinstance(letters, dict) or not isinstance(lstm, dict):
        raise InputError(
            f"{path}: has no char_cnn or no lstm, and only models that read characters are supported; choose another"
        )
    if values.get("bidirectional") is False:
        raise InputError(f"{path}: is of a model in one direction; give a bidirectional one")
    try:
        symbols = int(letters.get("n_characters", BARE_SYMBOLS))
        settings: dict[str, Any] = {
            "projection": int(lstm["projection_dim"]),
            "cells": int(lstm["dim"]),
            "layers": int(lstm["n_layers"]),
            "residual": bool(lstm.get("use_skip_connections", False)),
            "cell_clip": _limit(lstm.get("cell_clip")),
            "projection_clip": _limit(lstm.get("proj_clip")),
            "character_width": int(letters["embedding"]["dim"]),
            "filters": tuple((int(width), int(count)) for width, count in letters["filters"]),
            "highways": int(letters.get("n_highway", 0) or 0),
            "activation": letters.get("activation", "relu"),
            "maximum_characters": int(letters["max_characters_per_token"]),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: lacks an option or has one of another kind ({error}); copy the file again") from None
    if symbols not in (BARE_SYMBOLS, BARE_SYMBOLS + 1):
        raise InputError(
            f"{path}: n_characters is {symbols}, and ELMo has {BARE_SYMBOLS} characters; it is of another model"
        )
    try:
        return ELMoConfig(**settings)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def write_published(folder: str | os.PathLike[str], config: ELMoConfig, tensors: Mapping[str, Tensor]) -> None:
    """Write options.json and weights.hdf5 into an existing folder, as AllenNLP reads them. Heads are left out.

    Arguments:
        tensors: the tensors, as from `regard.checkpoints.parameters_of`.

    Raises:
        InputError: for a folder that cannot be written to, or without h5py.
    """
    h5py = _h5py()
    options = {
        "lstm": {
            "use_skip_connections": config.residual,
            "projection_dim": config.projection,
            "cell_clip": config.cell_clip,
            "proj_clip": config.projection_clip,
            "dim": config.cells,
            "n_layers": config.layers,
        },
        "char_cnn": {
            "activation": config.activation,
            "embedding": {"dim": config.character_width},
            "filters": [list(each) for each in config.filters],
            "max_characters_per_token": config.maximum_characters,
            "n_characters": BARE_SYMBOLS + 1,
            "n_highway": config.highways,
        },
    }
    content = io.BytesIO()  # in memory, because the library also reads the file that it writes
    with h5py.File(content, "w") as file:
        for name, array in _to_theirs(config, tensors).items():
            file.create_dataset(name, data=array)
    with new_file(Path(folder) / WEIGHTS) as file:
        file.write(content.getbuffer())
    replace_file(Path(folder) / OPTIONS, json.dumps(options, indent=2) + "\n")


def _to_ours(config: ELMoConfig, arrays: Mapping[str, Any], where: str) -> dict[str, Tensor]:
    left = dict(arrays)

    def take(name: str, *shape: int) -> Tensor:
        if name not in left:
            raise InputError(f"{where}: holds no {name}; it is damaged, or of another model than the options")
        array = left.pop(name)
        if array.shape != shape:
            raise InputError(
                f"{where}: {name} has the shape {array.shape} and the options need {shape}; they do not belong together"
            )
        return torch.from_numpy(np.array(array[...], dtype=np.float32))

    width, cells = config.projection, config.cells
    total = sum(count for _, count in config.filters)
    ours = {"embedding.characters.weight": take("char_embed", BARE_SYMBOLS, config.character_width)}
    for number, (size, count) in enumerate(config.filters):
        kernel = take(f"CNN/W_cnn_{number}", 1, size, config.character_width, count)
        ours[f"embedding.convolutions.{number}.weight"] = kernel[0].permute(2, 1, 0).contiguous()
        ours[f"embedding.convolutions.{number}.bias"] = take(f"CNN/b_cnn_{number}", count)
    for number in range(config.highways):
        for part, name in (("gate", "carry"), ("transform", "transform")):
            matrix = take(f"CNN_high_{number}/W_{name}", total, total)
            ours[f"embedding.highways.{number}.{part}.weight"] = matrix.t().contiguous()
            ours[f"embedding.highways.{number}.{part}.bias"] = take(f"CNN_high_{number}/b_{name}", total)
    if total == width and "CNN_proj/W_proj" not in left:  # in this case their code has no projection
        ours["embedding.projection.weight"], ours["embedding.projection.bias"] = torch.eye(width), torch.zeros(width)
    else:
        ours["embedding.projection.weight"] = take("CNN_proj/W_proj", total, width).t().contiguous()
        ours["embedding.projection.bias"] = take("CNN_proj/b_proj", width)
    for layer in range(config.layers):
        for way, net in enumerate(("forwards", "backwards")):
            place, here = _cell(way, layer), f"layers.{layer}.{net}"
            both = _gates(take(f"{place}/W_0", 2 * width, 4 * cells).t())
            bias = _gates(take(f"{place}/B", 4 * cells))
            bias[cells : 2 * cells] += 1.0
            ours[f"{here}.input.weight"] = both[:, :width].contiguous()
            ours[f"{here}.recurrent.weight"] = both[:, width:].contiguous()
            ours[f"{here}.input.bias"] = bias
            ours[f"{here}.projection.weight"] = take(f"{place}/W_P_0", cells, width).t().contiguous()
    if left:
        raise InputError(
            f"{where}: holds {sorted(left)[0]}, which no ELMo of these options has; they do not belong together"
        )
    return ours


def _to_theirs(config: ELMoConfig, tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    def give(name: str) -> Tensor:
        return tensors[name].detach().float().cpu()

    theirs = {"char_embed": give("embedding.characters.weight")}
    for number in range(len(config.filters)):
        kernel = give(f"embedding.convolutions.{number}.weight")
        theirs[f"CNN/W_cnn_{number}"] = kernel.permute(2, 1, 0).unsqueeze(0)
        theirs[f"CNN/b_cnn_{number}"] = give(f"embedding.convolutions.{number}.bias")
    for number in range(config.highways):
        for part, name in (("gate", "carry"), ("transform", "transform")):
            theirs[f"CNN_high_{number}/W_{name}"] = give(f"embedding.highways.{number}.{part}.weight").t()
            theirs[f"CNN_high_{number}/b_{name}"] = give(f"embedding.highways.{number}.{part}.bias")
    theirs["CNN_proj/W_proj"] = give("embedding.projection.weight").t()
    theirs["CNN_proj/b_proj"] = give("embedding.projection.bias")
    for layer in range(config.layers):
        for way, net in enumerate(("forwards", "backwards")):
            place, here = _cell(way, layer), f"layers.{layer}.{net}"
            both = torch.cat((give(f"{here}.input.weight"), give(f"{here}.recurrent.weight")), dim=1)
            bias = give(f"{here}.input.bias").clone()
            bias[config.cells : 2 * config.cells] -= 1.0
            theirs[f"{place}/W_0"] = _gates(both).t()
            theirs[f"{place}/B"] = _gates(bias)
            theirs[f"{place}/W_P_0"] = give(f"{here}.projection.weight").t()
    return {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in theirs.items()}


def _cell(way: int, layer: int) -> str:
    return f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _gates(stacked: Tensor) -> Tensor:
    """Swap the second and the third of four parts (forget gate and candidate)."""
    first, second, third, fourth = stacked.chunk(4)
    return torch.cat((first, third, second, fourth))


def _limit(value: Any) -> float | None:
    return None if value is None else float(value)


MOST_PARTS, DEEPEST = 1000, 10
"""The maximum number of items in a group, and the maximum depth of groups."""
MOST_PACKED = 64
"""The maximum ratio of a dataset's size in memory to the size of the file; learned numbers hardly compress."""


@contextlib.contextmanager
def _datasets(path: Path) -> Iterator[dict[str, Any]]:
    """A context with the datasets of an HDF5 file by name; datasets in other files, or that unpack to far more, are refused.

    Raises:
        InputError: for a missing file, and for any error of the library in the context.
    """
    check_regular(path, "give the published weights")
    h5py = _h5py()
    found: dict[str, Any] = {}

    def take(name: str, part: Any) -> None:
        if not isinstance(part, h5py.Dataset):
            return
        if part.external or part.is_virtual:
            raise InputError(f"{path}: {name} is in another file, which is not read; write it into one file")
        if part.nbytes > MOST_PACKED * (part.id.get_storage_size() + 4096):
            raise InputError(
                f"{path}: {name} would unpack to {part.nbytes:,} bytes, far more than the file; copy it again"
            )
        found[name] = part

    def walk(group: Any, place: str, depth: int) -> None:
        # The library's `visititems` does not end in some damaged files, so the items are counted.
        if len(group) > MOST_PARTS or depth > DEEPEST:
            raise InputError(f"{path}: has more datasets than any ELMo; copy it again")
        for name in group:
            if isinstance(
                group.get(name, getlink=True), h5py.HardLink
            ):  # other kinds of links can point to another file
                part = group[name]
                take(f"{place}{name}", part)
                if isinstance(part, h5py.Group):
                    walk(part, f"{place}{name}/", depth + 1)

    try:
        with h5py.File(path, "r") as file:
            walk(file, "", 0)
            yield found
    except InputError:
        raise
    except Exception as error:  # the library can raise any error for a damaged file
        said = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: cannot be read as an HDF5 file ({said:.300}); copy it again") from None


def _read_json(path: Path) -> dict[str, Any]:
    return read_json_object(path, "give the published options")


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise InputError("ELMo's published weights are in HDF5, which needs h5py: pip install 'regard[hdf5]'") from None
    return h5py
