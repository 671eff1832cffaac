"""Named tensors in a safetensors file, with a digest of each."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import InputError
from regard.files import umask, writing_errors


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


def read_tensors(path: str | os.PathLike[str], digests: Mapping[str, str] | None = None) -> dict[str, Tensor]:
    """Read a safetensors file, checking each tensor against its digest where one is given.

    Raises:
        InputError: for a missing or truncated file, or a tensor whose bytes are not those that were saved.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(_missing(path))
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            f"{path}: not a readable safetensors file ({error}); it was cut short or damaged, save or copy it again"
        ) from error
    for name, wanted in (digests or {}).items():
        if name in tensors and digest(tensors[name]) != wanted:
            raise InputError(
                f"{path}: {name} is not what was saved (its checksum differs); copy the file again from its source"
            )
    return tensors


def read_outline(path: str | os.PathLike[str], *, largest: int = 1 << 18) -> dict[str, Tensor]:
    """The tensors of a safetensors file; of those with more than `largest` numbers only shape and dtype, on the meta device.

    Raises:
        InputError: for a missing or truncated file.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(_missing(path))
    tensors: dict[str, Tensor] = {}
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                shape = file.get_slice(name).get_shape()
                small = math.prod(shape) <= largest
                tensors[name] = file.get_tensor(name) if small else torch.empty(shape, device="meta")
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            f"{path}: not a readable safetensors file ({error}); it was cut short or damaged, save or copy it again"
        ) from error
    return tensors


def _missing(path: Path) -> str:
    """Why there are no weights, as far as what stands beside tells it."""
    if path.with_name("pytorch_model.bin").is_file():
        return (
            f"{path}: no such file; the weights beside it, pytorch_model.bin, are a pickle, which is never read; save the model "
            "again with safetensors"
        )
    if path.with_name(f"{path.name}.index.json").is_file():
        return f"{path}: no such file; the weights beside it are in several parts; save the model again in one"
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
