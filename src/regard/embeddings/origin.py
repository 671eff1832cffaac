"""What decides every vector of a run: so that a file that was begun is gone on with only by the same."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any


def digest_of(folder: Path) -> str:
    """A digest of all that a model's folder says: weights, tokenizer and settings, whatever they are called.

    What is not in the folder itself, or in one right below that a module has, is no part of the model.
    """
    hashed = hashlib.blake2b(digest_size=16)
    patterns = ("*.json", "*.safetensors", "*.hdf5", "*.txt", "[0-9]_*/*.json", "[0-9]_*/*.safetensors")
    for path in sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file()):
        hashed.update(str(path.relative_to(folder)).encode() + b"\0")
        with path.open("rb") as file:
            hashed.update(hashlib.file_digest(file, "blake2b").digest())
    return hashed.hexdigest()


def input_of(file: Path) -> dict[str, Any]:
    """What tells that a file is the one it was: where it is, how large, and when it was written."""
    found = file.stat()
    return {"path": str(file.resolve()), "bytes": found.st_size, "written": found.st_mtime_ns}
