"""Named tensors in a safetensors file, with a digest of each; or in several files (shards) with an index, as in transformers.

    model.safetensors                       all of them, or
    model-00001-of-00002.safetensors ...    some in each, and
    model.safetensors.index.json            {"metadata": {"total_size": bytes, ...}, "weight_map": {name of a tensor: its file}}

Readers name the one file; where there are shards instead, they are read.

Below, name tables between our parameter names and another library's: lists of rules that saving runs forwards and loading
backwards. Every tensor must be mapped by a rule, or listed as ignored, in both directions: nothing is dropped in silence.
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
    """Read a safetensors file, or the shards that are in its place, checking each tensor against its digest if one is given.

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


def verify_tensors(
    path: str | os.PathLike[str], digests: Mapping[str, str], *, part: int = 0, parts: int = 1
) -> set[str]:
    """Check the tensors of a safetensors file, or of its shards, against their digests, holding one of them at a time.

    Arguments:
        part, parts: check every `parts`-th file alone, from number `part` on.

    Returns:
        The names of all tensors that there are.

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
    """The tensors of a safetensors file, or of the shards that are in its place.

    Of those with more than `largest` numbers only shape and dtype, on the meta device.

    Raises:
        InputError: for a missing or truncated file, or an index that does not fit the shards.
    """

    def outline(file: Any, name: str) -> Tensor:
        shape = file.get_slice(name).get_shape()
        return file.get_tensor(name) if math.prod(shape) <= largest else torch.empty(shape, device="meta")

    return _read(Path(path), outline)


def index_of(path: Path) -> Path:
    """Where the index of the shards is that are in a file's place."""
    return path.with_name(f"{path.name}.index.json")


def shards_of(path: Path) -> dict[Path, set[str]]:
    """The shards that are in a file's place, and the names of the tensors in each; none where the file itself is there.

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
        is_name = isinstance(file, str) and Path(file).name == file and len(file.encode(errors="replace")) < 256
        if not is_name or not file.endswith(".safetensors"):
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
        _check_index(path, shard, names, found)
        tensors |= found
    return tensors


def _check_index(path: Path, shard: Path, names: set[str], found: Mapping[str, Tensor]) -> None:
    """Refuse a shard that holds other tensors than the index says."""
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
    ) as error:  # the last two from torch, of a shape
        raise InputError(
            f"{path}: not a readable safetensors file ({error}); it was cut short or damaged, save or copy it again"
        ) from error
    for name, tensor in found.items():
        if tensor.is_complex() or (tensor.is_floating_point() and tensor.element_size() < 2):
            kind = str(tensor.dtype).removeprefix("torch.")
            raise InputError(
                f"{path}: {name} is {kind}, and weights of 16, 32 or 64 bits are read; have the program that wrote them write "
                "bfloat16"
            )
    return found


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


@dataclass(frozen=True, slots=True)
class Rule:
    """One of their tensors and the one or several of ours it is made of.

    Names are patterns in which `{i}` stands for a layer's number and `{*}` for any rest of a name.

    Arguments:
        ours: our names; several are stacked along the first axis to make theirs.
        theirs: their name.
        channels: axes along which the model's channels run in another order there. Ours are in pairs, the sine and cosine of
            each frequency side by side; theirs are the first of every pair, then the second of every pair.
        transposed: whether theirs is the transpose: a matrix that is behind what it multiplies. A vector stays as it is.
        unsqueezed: at which place theirs has an axis of size 1 more.
        heads: where theirs has so many heads one after another, the rows of all of ours in each; None where all rows of the first
            of ours come first.
    """

    ours: tuple[str, ...]
    theirs: str
    channels: tuple[int, ...] = ()
    transposed: bool = False
    unsqueezed: int | None = None
    heads: int | None = None

    def to_theirs(self, parts: Sequence[Tensor]) -> Tensor:
        """Their tensor of ours."""
        tensor = parts[0] if len(parts) == 1 else torch.cat(tuple(parts))
        if self.heads is not None:
            tensor = by_head(tensor, len(parts), self.heads)
        for axis in self.channels:
            tensor = halved(tensor, axis) if axis < tensor.dim() else tensor
        tensor = tensor.t().contiguous() if self.transposed else tensor
        return tensor if self.unsqueezed is None else tensor.unsqueeze(self.unsqueezed)

    def to_ours(self, tensor: Tensor) -> Sequence[Tensor]:
        """Our tensors of theirs."""
        tensor = tensor if self.unsqueezed is None else tensor.squeeze(self.unsqueezed)
        tensor = tensor.t().contiguous() if self.transposed else tensor
        for axis in self.channels:
            tensor = paired(tensor, axis) if axis < tensor.dim() else tensor
        if self.heads is not None:
            tensor = by_head(tensor, self.heads, len(self.ours))
        return tensor.chunk(len(self.ours)) if len(self.ours) > 1 else (tensor,)


@dataclass(frozen=True, slots=True)
class NameTable:
    """Reversible renames between two layouts.

    Arguments:
        rules: tried in order; the first that matches is taken.
        ignored: patterns of their names that carry nothing we need, such as constant buffers.

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
        """Whether a tensor of theirs carries nothing we need."""
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
"""Our own names, as they are."""


def halved(tensor: Tensor, axis: int) -> Tensor:
    """Pairs along `axis` taken apart: the first of every pair, then the second of every pair.

    >>> halved(torch.tensor([0, 1, 2, 3, 4, 5]), 0).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    return tensor.unflatten(axis, (-1, 2)).transpose(axis, axis + 1).flatten(axis, axis + 1)


def by_head(tensor: Tensor, parts: int, heads: int) -> Tensor:
    """Rows of so many parts, each of so many heads, as rows of heads, each of all parts; with both exchanged the inverse.

    >>> by_head(torch.tensor([0, 1, 2, 3, 4, 5]), 2, 3).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return tensor.unflatten(0, (parts, heads, -1)).transpose(0, 1).flatten(0, 2)


def paired(tensor: Tensor, axis: int) -> Tensor:
    """What `halved` took apart put together.

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
        norm: where our layer norms stand: after each residual sum (`norm_first=False` there) or before each sub-layer.
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
