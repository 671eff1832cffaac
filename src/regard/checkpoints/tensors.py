"""Named tensors in a safetensors file, with a digest of each; or in several files (shards) with an index, as in transformers.

    model.safetensors                       all tensors, or
    model-00001-of-00002.safetensors ...    some tensors in each shard, and
    model.safetensors.index.json            {"metadata": {"total_size": bytes, ...}, "weight_map": {name of a tensor: its file}}

Functions for reading take the path of the one file; if there are shards instead, they are read.

The second part has tables of names between our parameters and those of another library: lists of rules for both directions. Every
tensor must be mapped by a rule, or listed as ignored, in both directions: no tensor is dropped silently.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import InputError
from regard.files import umask, writing_errors
from regard.reading import read_json_object

UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
"""The names of the shards of a model's weights."""


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

    Tensors that share memory must be given under one name only, because the format has no tied tensors.

    Raises:
        InputError: for a full disk or a path that cannot be written.
    """
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with writing_errors(Path(path)):
        save_file(ready, path, metadata={"format": "pt"})
        Path(path).chmod(0o666 & ~umask())  # the library allows only the owner to read it
    return {name: digest(tensor) for name, tensor in ready.items()}


def shard_file(path: str | os.PathLike[str], max_shard_size: int | str) -> list[Path]:
    """Divide a safetensors file into shards of at most `max_shard_size` bytes with an index, if it is larger than that.

    Shards are filled in the order of the names, as in transformers; a tensor that is larger than a shard has its own file. A file
    that is small enough is not changed.

    Arguments:
        path: the path of the file, which the shards replace.
        max_shard_size: a size that `size_in_bytes` accepts.

    Returns:
        The resulting files of tensors.

    Raises:
        InputError: for an invalid size, and as `read_tensors` and `write_tensors`.
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
        InputError: for a value that is not a size above 0.

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
    """Read a safetensors file, or the shards that replace it, and compare each tensor with its digest if digests are given.

    Raises:
        InputError: for a missing or truncated file, an index that does not match the shards, or a tensor that differs from its
            digest.
    """
    path = Path(path)
    tensors = _read(path, lambda file, name: file.get_tensor(name))
    for name, wanted in (digests or {}).items():
        if name in tensors and digest(tensors[name]) != wanted:
            raise InputError(
                f"{path}: {name} is not what was saved (its checksum differs); copy the file again from its source"
            )
    return tensors


def verify_tensors(
    path: str | os.PathLike[str], digests: Mapping[str, str], *, part: int = 0, parts: int = 1
) -> set[str]:
    """Compare the tensors of a safetensors file, or of its shards, with their digests, with one tensor in memory at a time.

    Arguments:
        part, parts: check only every `parts`-th file, beginning with number `part`.

    Returns:
        The names of all tensors.

    Raises:
        InputError: as `read_tensors`.
    """
    path = Path(path)

    def checked(file: Any, name: str) -> Tensor:
        tensor = file.get_tensor(name)
        if name in digests and digest(tensor) != digests[name]:
            raise InputError(
                f"{path}: {name} is not what was saved (its checksum differs); copy the file again from its source"
            )
        return tensor.new_empty(0)

    shards = shards_of(path)
    if not shards:
        return set(_read_file(path, checked if part == 0 else lambda file, name: torch.empty(0)))
    for number, (shard, names) in enumerate(sorted(shards.items())):
        if number % parts == part:
            _check_index(path, shard, names, _read_file(shard, checked))
    return set().union(*shards.values())


def read_outline(path: str | os.PathLike[str], *, largest: int = 1 << 18) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of the shards that replace it; those with more than `largest` numbers are not read.

    Instead they are on the meta device, with their shape only.

    Raises:
        InputError: for a missing or truncated file, or an index that does not match the shards.
    """

    def outline(file: Any, name: str) -> Tensor:
        shape = file.get_slice(name).get_shape()
        return file.get_tensor(name) if math.prod(shape) <= largest else torch.empty(shape, device="meta")

    return _read(Path(path), outline)


def index_of(path: Path) -> Path:
    """The path of the index of the shards that replace a file."""
    return path.with_name(f"{path.name}.index.json")


def shards_of(path: Path) -> dict[Path, set[str]]:
    """The shards that replace a file, and the names of the tensors in each; empty if the file itself exists.

    Raises:
        InputError: for a damaged index, or one with a file in another folder.
    """
    index = index_of(path)
    if path.is_file() or not index.is_file():
        return {}
    where = read_json_object(index, "copy it again").get("weight_map")
    if not isinstance(where, dict) or not where:
        raise InputError(f"{index}: has no weight_map, which names the file of each tensor; copy it again")
    shards: dict[Path, set[str]] = {}
    for name, file in where.items():
        is_name = isinstance(file, str) and Path(file).name == file and len(file.encode(errors="replace")) < 256
        if not is_name or not file.endswith(".safetensors"):
            raise InputError(
                f"{index}: the file of {name} is {str(file)[:60]!r}, which is not a safetensors file in the same folder; copy it "
                "again"
            )
        shards.setdefault(path.with_name(file), set()).add(name)
    return shards


def _read(path: Path, take: Callable[[Any, str], Tensor]) -> dict[str, Tensor]:
    """The result of `take` for each tensor of a file, or of its shards."""
    shards = shards_of(path)
    if not shards:
        return _read_file(path, take)
    tensors: dict[str, Tensor] = {}
    for shard, names in shards.items():
        found = _read_file(shard, take)
        _check_index(path, shard, names, found)
        tensors |= found
    return tensors


def _check_index(path: Path, shard: Path, names: set[str], found: Mapping[str, Tensor]) -> None:
    """Refuse a shard whose tensors differ from those in the index."""
    if found.keys() != names:
        lost, more = sorted(names - found.keys()), sorted(found.keys() - names)
        index = index_of(path).name
        fault = f"lacks {lost[0]}, which {index} puts" if lost else f"holds {more[0]}, which {index} does not put"
        raise InputError(f"{shard}: {fault} in it; copy the files again")


def _read_file(path: Path, take: Callable[[Any, str], Tensor]) -> dict[str, Tensor]:
    if not path.is_file():
        raise InputError(_missing(path))
    try:
        with safe_open(path, framework="pt") as file:
            found = {name: take(file, name) for name in file.keys()}  # noqa: SIM118
    except InputError:
        raise
    except (
        SafetensorError,
        OSError,
        ValueError,
        TypeError,
        RuntimeError,
    ) as error:  # the last two are errors of torch about a shape
        raise InputError(
            f"{path}: not a readable safetensors file ({error}); it is truncated or damaged, save or copy it again"
        ) from error
    for name, tensor in found.items():
        if tensor.is_complex() or (tensor.is_floating_point() and tensor.element_size() < 2):
            kind = str(tensor.dtype).removeprefix("torch.")
            raise InputError(
                f"{path}: {name} is {kind}, and only weights of 16, 32 or 64 bits are supported; write bfloat16 with the program "
                "that wrote them"
            )
    return found


def _missing(path: Path) -> str:
    """A message about missing weights, which depends on the other files in the folder."""
    if SHARD.fullmatch(path.name):
        return f"{path}: no such file, and some of the weights are in it according to the index; copy it too"
    if path.with_name("pytorch_model.bin").is_file():
        return (
            f"{path}: no such file; the weights, pytorch_model.bin, are a pickle, which is never read; save the model "
            "again with safetensors"
        )
    return f"{path}: no such file; the folder is not a complete model, save or copy it again"


def check_same(wanted: Mapping[str, tuple[int, ...]], found: Mapping[str, Tensor], where: str) -> None:
    """Refuse tensors with other names or shapes than those wanted; one message lists all differences.

    Raises:
        InputError: listing all keys that are missing, unknown, or of another shape.
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


@dataclass(frozen=True, slots=True)
class Rule:
    """One tensor of theirs, and one or several tensors of ours that correspond to it.

    Names are patterns, in which `{i}` is the number of a layer and `{*}` any rest of a name.

    Arguments:
        ours: our names; several tensors are concatenated along the first axis to theirs.
        theirs: their name.
        channels: the axes along which the order of channels differs: ours are in pairs, with the sine and cosine of each
            frequency adjacent; theirs are the first of every pair, then the second of every pair.
        transposed: whether theirs is the transpose, as for matrices with the input on the left. Vectors are not changed.
        unsqueezed: the index of an additional axis of size 1 in theirs; None for none.
        heads: the number of heads, if the rows of theirs are ordered by head and then by tensor of ours; None if all rows of the
            first tensor of ours come first.
    """

    ours: tuple[str, ...]
    theirs: str
    channels: tuple[int, ...] = ()
    transposed: bool = False
    unsqueezed: int | None = None
    heads: int | None = None

    def to_theirs(self, parts: Sequence[Tensor]) -> Tensor:
        """Their tensor from ours."""
        tensor = parts[0] if len(parts) == 1 else torch.cat(tuple(parts))
        if self.heads is not None:
            tensor = by_head(tensor, len(parts), self.heads)
        for axis in self.channels:
            tensor = halved(tensor, axis) if axis < tensor.dim() else tensor
        tensor = tensor.t().contiguous() if self.transposed else tensor
        return tensor if self.unsqueezed is None else tensor.unsqueeze(self.unsqueezed)

    def to_ours(self, tensor: Tensor) -> Sequence[Tensor]:
        """Our tensors from theirs."""
        tensor = tensor if self.unsqueezed is None else tensor.squeeze(self.unsqueezed)
        tensor = tensor.t().contiguous() if self.transposed else tensor
        for axis in self.channels:
            tensor = paired(tensor, axis) if axis < tensor.dim() else tensor
        if self.heads is not None:
            tensor = by_head(tensor, self.heads, len(self.ours))
        return tensor.chunk(len(self.ours)) if len(self.ours) > 1 else (tensor,)


@dataclass(frozen=True, slots=True)
class NameTable:
    """A reversible mapping of names between two layouts.

    Arguments:
        rules: the rules; the first one that matches is used.
        ignored: patterns of names of their tensors that are not needed, such as constant buffers.

    >>> table = NameTable((Rule(("a.{i}.query", "a.{i}.key"), "block.{i}.both"),))
    >>> theirs = table.to_theirs({"a.0.query": torch.zeros(1), "a.0.key": torch.ones(1)})
    >>> {name: tensor.tolist() for name, tensor in theirs.items()}
    {'block.0.both': [0.0, 1.0]}
    >>> sorted(table.to_ours(theirs))
    ['a.0.key', 'a.0.query']
    """

    rules: tuple[Rule, ...]
    ignored: tuple[str, ...] = ()

    def ignores(self, name: str) -> bool:
        """Whether a tensor of theirs is not needed."""
        return any(_match(pattern, name) is not None for pattern in self.ignored)

    def to_theirs(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Our tensors under their names.

        Raises:
            InputError: listing every tensor that no rule maps.
        """
        renamed: dict[str, Tensor] = {}
        left = dict(tensors)
        for name in tensors:
            if name not in left:
                continue
            for rule in self.rules:
                found = _match(rule.ours[0], name)
                if found is None:
                    continue
                parts = [_fill(pattern, found) for pattern in rule.ours]
                if all(part in left for part in parts):
                    renamed[_fill(rule.theirs, found)] = rule.to_theirs([left.pop(part) for part in parts])
                    break
        _refuse(left, "has no name in the other layout")
        return renamed

    def to_ours(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Their tensors under our names.

        Raises:
            InputError: listing every tensor that no rule maps and that is not ignored.
        """
        renamed: dict[str, Tensor] = {}
        unknown: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            if self.ignores(name):
                continue
            for rule in self.rules:
                found = _match(rule.theirs, name)
                if found is None:
                    continue
                names = [_fill(pattern, found) for pattern in rule.ours]
                renamed.update(zip(names, rule.to_ours(tensor), strict=True))
                break
            else:
                unknown[name] = tensor
        _refuse(unknown, "has no name in our layout")
        return renamed


IDENTITY = NameTable((Rule(("{*}",), "{*}"),))
"""The table for our own layout, in which names are equal."""


def halved(tensor: Tensor, axis: int) -> Tensor:
    """Reorder pairs along `axis`: the first of every pair, then the second of every pair.

    >>> halved(torch.tensor([0, 1, 2, 3, 4, 5]), 0).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    return tensor.unflatten(axis, (-1, 2)).transpose(axis, axis + 1).flatten(axis, axis + 1)


def by_head(tensor: Tensor, parts: int, heads: int) -> Tensor:
    """Reorder rows from (part, head) to (head, part), for `parts` parts of `heads` heads; with swapped numbers the inverse.

    >>> by_head(torch.tensor([0, 1, 2, 3, 4, 5]), 2, 3).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return tensor.unflatten(0, (parts, heads, -1)).transpose(0, 1).flatten(0, 2)


def paired(tensor: Tensor, axis: int) -> Tensor:
    """The inverse of `halved`.

    >>> paired(torch.tensor([0, 2, 4, 1, 3, 5]), 0).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    return tensor.unflatten(axis, (2, -1)).transpose(axis, axis + 1).flatten(axis, axis + 1)


def _match(pattern: str, name: str) -> dict[str, str] | None:
    found = _expression(pattern).fullmatch(name)
    return None if found is None else found.groupdict()


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\{\*\}", "(?P<rest>.+)"))


def _fill(pattern: str, found: Mapping[str, str]) -> str:
    return pattern.replace("{i}", found.get("i", "")).replace("{*}", found.get("rest", ""))


def _refuse(tensors: Mapping[str, Tensor], why: str) -> None:
    if tensors:
        raise InputError(f"{', '.join(sorted(tensors))} {why}; the file belongs to another kind of model")


def torch_transformer(norm: Literal["post", "pre"]) -> NameTable:
    """The names of `torch.nn.Transformer` (encoder and decoder stacks, no embeddings), biases in every projection.

    Arguments:
        norm: the position of our layer norms: after each residual sum (`norm_first=False` in PyTorch) or before each sub-layer.
    """
    slot = "after" if norm == "post" else "before"
    rules: list[Rule] = []
    for stack in ("encoder", "decoder"):
        ours, theirs = f"{stack}.layers.{{i}}.", f"{stack}.layers.{{i}}."
        attentions = [("attention", "self_attn")]
        residuals = ["attention_residual", "feedforward_residual"]
        if stack == "decoder":
            attentions.append(("cross_attention", "multihead_attn"))
            residuals.insert(1, "cross_residual")
        for kind in ("weight", "bias"):
            for mine, other in attentions:
                projections = tuple(f"{ours}{mine}.{part}.{kind}" for part in ("query", "key", "value"))
                rules.append(Rule(projections, f"{theirs}{other}.in_proj_{kind}"))
                rules.append(Rule((f"{ours}{mine}.output.{kind}",), f"{theirs}{other}.out_proj.{kind}"))
            rules.append(Rule((f"{ours}feedforward.inner.{kind}",), f"{theirs}linear1.{kind}"))
            rules.append(Rule((f"{ours}feedforward.outer.{kind}",), f"{theirs}linear2.{kind}"))
            for number, residual in enumerate(residuals, start=1):
                rules.append(Rule((f"{ours}{residual}.{slot}.{kind}",), f"{theirs}norm{number}.{kind}"))
            rules.append(Rule((f"{stack}.norm.{kind}",), f"{stack}.norm.{kind}"))
    return NameTable(tuple(rules))
