"""Named tensors in a safetensors file, with a digest of each; or in several files (shards) with an index, as in transformers.

    model.safetensors                       all of them, or
    model-00001-of-00002.safetensors ...    some in each, and
    model.safetensors.index.json            {"metadata": {"total_size": bytes, ...}, "weight_map": {name of a tensor: its file}}

Whoever reads names the one file; where there are shards instead, they are read.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import InputError
from regard.files import umask, writing_errors
from regard.reading import read_json_object

UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
"""What the shards of a model's weights are called."""


def digest(tensor: Tensor) -> str:
    """The SHA-256 of a tensor's bytes, dtype and shape."""
    tensor = tensor.detach().cpu().contiguous()
    header = f"{tensor.dtype}{tuple(tensor.shape)}".encode()
    hashed = hashlib.sha256(header)
    if tensor.numel():
        hashed.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return hashed.hexdigest()


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- writing ----------------------------------------------------------------------------------------------------


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Write tensors to a safetensors file and return the digest of each.

    Tensors that share memory must have been reduced to one name beforehand: the format stores no ties.

    Raises:
        InputError: for a full disk or a place that cannot be written to.
    """
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with writing_errors(Path(path)):
        save_file(ready, path, metadata={"format": "pt"})
        Path(path).chmod(0o666 & ~umask())  # the library writes it for its owner alone
    return {name: digest(tensor) for name, tensor in ready.items()}


def shard_file(path: str | os.PathLike[str], max_shard_size: int | str) -> list[Path]:
    """Put a safetensors file in several, if it is larger than one may be: shards of at most so many bytes, and an index.

    Shards are filled in the order of the names, as transformers fills them; a tensor that is larger by itself is a shard of its
    own, and larger. A file that is small enough stays as it is.

    Arguments:
        path: of the file, which the shards take the place of.
        max_shard_size: as `size_in_bytes` takes it.

    Returns:
        The files of tensors that are there afterwards.

    Raises:
        InputError: for a size that is none, and as `read_tensors` and `write_tensors`.
    """
    path, most = Path(path), size_in_bytes(max_shard_size)
    tensors = read_tensors(path)
    shards = _parted({name: tensor.nbytes for name, tensor in tensors.items()}, most)
    if len(shards) < 2:
        return [path]
    places = [
        path.with_name(f"{path.stem}-{number:05d}-of-{len(shards):05d}.safetensors")
        for number in range(1, len(shards) + 1)
    ]
    for place, names in zip(places, shards, strict=True):
        write_tensors(place, {name: tensors[name] for name in names})
    metadata = {
        "total_parameters": sum(tensor.numel() for tensor in tensors.values()),
        "total_size": sum(tensor.nbytes for tensor in tensors.values()),
    }
    where = {name: place.name for place, names in zip(places, shards, strict=True) for name in names}
    content = json.dumps({"metadata": metadata, "weight_map": where}, indent=2, sort_keys=True) + "\n"
    with writing_errors(path):
        index_of(path).write_text(content, encoding="utf-8")
        path.unlink()
    return places


def _parted(sizes: Mapping[str, int], most: int) -> list[list[str]]:
    """The names of tensors in shards of at most `most` bytes, in their order.

    >>> _parted({"a": 6, "b": 6, "c": 2, "d": 12, "e": 2}, 10)
    [['d'], ['a'], ['b', 'c', 'e']]
    """
    shards = [[name] for name, size in sizes.items() if size > most]
    current: list[str] = []
    total = 0
    for name, size in sizes.items():
        if size > most:
            continue
        if total + size > most:
            shards.append(current)
            current, total = [], 0
        current.append(name)
        total += size
    return [*shards, current] if current else shards


def size_in_bytes(size: int | str) -> int:
    """A size such as `5GB`, `300 MB`, `1GiB` or a number of bytes.

    Raises:
        InputError: for what is no size above 0.

    >>> size_in_bytes("5GB"), size_in_bytes("1.5 KiB"), size_in_bytes(300)
    (5000000000, 1536, 300)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size))
    unit = None if found is None or isinstance(size, bool) else UNITS.get(found[2].lower())
    whole = 0 if found is None or unit is None else int(float(found[1]) * unit)
    if whole < 1:
        raise InputError(f"max_shard_size is {size!r}; give a size above 0, such as 5GB, 300MB or a number of bytes")
    return whole


# --- reading ----------------------------------------------------------------------------------------------------


def read_tensors(path: str | os.PathLike[str], digests: Mapping[str, str] | None = None) -> dict[str, Tensor]:
    """Read a safetensors file, or the shards that stand in its place, checking each tensor against its digest if one is given.

    Raises:
        InputError: for a missing or truncated file, an index that does not fit the shards, or a tensor whose bytes are not those
            that were saved.
    """
    path = Path(path)
    tensors = _read(path, lambda file, name: file.get_tensor(name))
    for name, wanted in (digests or {}).items():
        if name in tensors and digest(tensors[name]) != wanted:
            raise InputError(
                f"{path}: {name} is not what was saved (its checksum differs); copy the file again from its source"
            )
    return tensors


def read_outline(path: str | os.PathLike[str], *, largest: int = 1 << 18) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of the shards that stand in its place.

    Of those with more than `largest` numbers only shape and dtype, on the meta device.

    Raises:
        InputError: for a missing or truncated file, or an index that does not fit the shards.
    """

    def outline(file: Any, name: str) -> Tensor:
        shape = file.get_slice(name).get_shape()
        return file.get_tensor(name) if math.prod(shape) <= largest else torch.empty(shape, device="meta")

    return _read(Path(path), outline)


def index_of(path: Path) -> Path:
    """Where the index of the shards is that stand in a file's place."""
    return path.with_name(f"{path.name}.index.json")


def shards_of(path: Path) -> dict[Path, set[str]]:
    """The shards that stand in a file's place, and the names of the tensors in each; none where the file itself is there.

    Raises:
        InputError: for an index that is damaged, or names a file elsewhere.
    """
    index = index_of(path)
    if path.is_file() or not index.is_file():
        return {}
    where = read_json_object(index, "copy it again").get("weight_map")
    if not isinstance(where, dict) or not where:
        raise InputError(f"{index}: has no weight_map, which names the file of each tensor; copy it again")
    shards: dict[Path, set[str]] = {}
    for name, file in where.items():
        if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
            raise InputError(
                f"{index}: says that {name} is in {str(file)[:60]!r}, no safetensors file of the same folder; copy it again"
            )
        shards.setdefault(path.with_name(file), set()).add(name)
    return shards


def _read(path: Path, take: Callable[[Any, str], Tensor]) -> dict[str, Tensor]:
    """What `take` makes of each tensor of a file, or of its shards."""
    shards = shards_of(path)
    if not shards:
        return _read_file(path, take)
    tensors: dict[str, Tensor] = {}
    for shard, names in shards.items():
        found = _read_file(shard, take)
        if found.keys() != names:
            lost, more = sorted(names - found.keys()), sorted(found.keys() - names)
            index = index_of(path).name
            fault = f"lacks {lost[0]}, which {index} puts" if lost else f"holds {more[0]}, which {index} does not put"
            raise InputError(f"{shard}: {fault} in it; copy the files again")
        tensors |= found
    return tensors


def _read_file(path: Path, take: Callable[[Any, str], Tensor]) -> dict[str, Tensor]:
    if not path.is_file():
        raise InputError(_missing(path))
    try:
        with safe_open(path, framework="pt") as file:
            return {name: take(file, name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            f"{path}: not a readable safetensors file ({error}); it was cut short or damaged, save or copy it again"
        ) from error


def _missing(path: Path) -> str:
    """Why there are no weights, judging by the other files in the folder."""
    if SHARD.fullmatch(path.name):
        return f"{path}: no such file, and the index says that some of the weights are in it; copy it too"
    if path.with_name("pytorch_model.bin").is_file():
        return (
            f"{path}: no such file; the weights, pytorch_model.bin, are a pickle, which is never read; save the model "
            "again with safetensors"
        )
    return f"{path}: no such file; the folder is not a whole model, save or copy it again"


def check_same(wanted: Mapping[str, tuple[int, ...]], found: Mapping[str, Tensor], where: str) -> None:
    """Refuse a file whose tensors are not those wanted, all faults at once.

    Raises:
        InputError: listing all keys that are missing, not known, or of another shape.
    """
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    faults = ["missing " + ", ".join(missing)] if missing else []
    faults += ["not known " + ", ".join(extra)] if extra else []
    faults += [
        f"{name} is {tuple(found[name].shape)} where {wanted[name]} is wanted"
        for name in sorted(wanted.keys() & found.keys())
        if tuple(found[name].shape) != wanted[name]
    ]
    if faults:
        raise InputError(f"{where}: {'; '.join(faults)}; weights and config.json must come from the same model")
