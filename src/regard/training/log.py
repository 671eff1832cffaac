"""log.jsonl: one line per event of a run, none twice."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import writing_errors
from regard.structure import finite


class JsonLines:
    """An append-only log that a resumed run first cuts back to where its checkpoint was made.

    Arguments:
        path: of the file.
        size: bytes to keep of what is there.

    Raises:
        InputError: for a place that cannot be written to, or one that is a link, a pipe or another thing than a file: what a
            link points to is not the run's to cut back.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise InputError(f"{path}: is no file of its own; remove it, or train into another folder")
        with writing_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.truncate(min(size, path.stat().st_size))

    def write(self, event: Mapping[str, Any]) -> None:
        """Append one line."""
        with writing_errors(self.path), self.path.open("ab") as file:
            file.write(json.dumps(finite(event), ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def settled(self) -> int:
        """Force the file to disk and return its length in bytes, for the checkpoint to remember."""
        with writing_errors(self.path), self.path.open("ab") as file:
            os.fsync(file.fileno())
            return file.tell()
