"""Tensors of a sharded model on disk: every worker writes some of them, and reads what it holds of them.

    model-00001-of-00002.safetensors ...    whole tensors, each in the shard of one worker, about as many bytes in each
    model.safetensors.index.json            which is in which, as transformers has it

A tensor is gathered by itself, kept by the worker that writes it, and dropped by the others: no worker ever holds more than what
it writes and one tensor. So a checkpoint says nothing of how the model was divided, and goes on with any number of workers. All
of them have to see the same folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from torch.distributed.tensor import DTensor, Shard

from regard.checkpoints.tensors import index_of, shards_of, write_tensors
from regard.errors import InputError
from regard.files import sync, writing_errors
from regard.training.workers import Workers, like, whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What one worker wrote of a file's tensors.

    Arguments:
        file: its name; empty where it had nothing to write.
        digests: of each tensor in it.
        bytes, numbers: of all of them.
        fault: why it could not be written; empty where it was.
    """

    file: str = ""
    digests: Mapping[str, str]
    bytes: int = 0
    numbers: int = 0
    fault: str = ""


def owners(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Which worker writes each tensor: the largest first, each to whom has the least so far.

    >>> owners({"a": 6, "b": 5, "c": 4, "d": 3}, 2)
    {'a': 0, 'b': 1, 'c': 1, 'd': 0}
    """
    loads = [0] * count
    found = {}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        worker = loads.index(min(loads))
        found[name] = worker
        loads[worker] += sizes[name]
    return {name: found[name] for name in sizes}


def write_shard(path: Path, tensors: Mapping[str, Tensor], workers: Workers) -> Written:
    """Write this worker's part of the tensors; every worker has to call this with the same ones.

    Arguments:
        path: of the file that the shards stand for; they lie next to it.
        tensors: sharded or not, the same names on every worker.
    """
    writers = owners({name: tensor.numel() * tensor.element_size() for name, tensor in tensors.items()}, workers.count)
    own: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        full = whole(tensor)  # takes all workers
        if writers[name] == workers.rank:
            own[name] = full
    if not own:
        return Written(digests={})
    file = path.with_name(f"{path.stem}-{workers.rank + 1:05d}-of-{workers.count:05d}.safetensors")
    try:
        digests = write_tensors(file, own)
        with writing_errors(file):
            sync(file)
    except InputError as error:
        return Written(digests={}, fault=str(error))
    return Written(
        file=file.name,
        digests=digests,
        bytes=sum(tensor.nbytes for tensor in own.values()),
        numbers=sum(tensor.numel() for tensor in own.values()),
    )


def write_index(path: Path, parts: list[Written]) -> dict[str, str]:
    """Write what tells in which shard each tensor is; returns the digests of all."""
    where = {name: part.file for part in parts for name in part.digests}
    metadata = {
        "total_parameters": sum(part.numbers for part in parts),
        "total_size": sum(part.bytes for part in parts),
    }
    content = json.dumps({"metadata": metadata, "weight_map": where}, indent=2, sort_keys=True) + "\n"
    with writing_errors(path):
        index_of(path).write_text(content, encoding="utf-8")
    return {name: value for part in parts for name, value in part.digests.items()}


def files_of(path: Path) -> list[Path]:
    """The files that hold a file's tensors: itself, or its shards and their index; none where there is nothing."""
    if path.is_file():
        return [path]
    shards = shards_of(path)
    return [*sorted(shards), index_of(path)] if shards else []


class Stored:
    """Tensors on disk, of which each is read alone, and only the rows that are wanted.

    Arguments:
        path: of a safetensors file, or of one that shards stand for.
    """

    def __init__(self, path: Path) -> None:
        self._where: dict[str, Any] = {}
        for file in [path] if path.is_file() else shards_of(path):
            opened = safe_open(file, framework="pt")
            self._where |= dict.fromkeys(opened.keys(), opened)

    @property
    def names(self) -> set[str]:
        """Of the tensors."""
        return set(self._where)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor, by the header alone."""
        return tuple(self._where[name].get_slice(name).get_shape())

    def like(self, name: str, parameter: Tensor) -> Tensor:
        """A tensor laid out as a parameter is: of one that is sharded by rows this worker's rows alone are read."""
        sharded = isinstance(parameter, DTensor) and tuple(parameter.placements) == (Shard(0),)
        if not (isinstance(parameter, DTensor) and sharded and self.shape(name) == tuple(parameter.shape)):
            return like(self._where[name].get_tensor(name), parameter)
        mesh, held = parameter.device_mesh, parameter.to_local()
        each = -(-parameter.shape[0] // mesh.size())  # as torch.chunk divides
        start = min(parameter.shape[0], each * mesh.get_local_rank())
        rows = (
            self._where[name].get_slice(name)[start : start + held.shape[0]] if held.numel() else torch.empty_like(held)
        )
        return DTensor.from_local(
            rows.to(held.device),
            mesh,
            parameter.placements,
            run_check=False,
            shape=parameter.shape,
            stride=parameter.stride(),
        )
