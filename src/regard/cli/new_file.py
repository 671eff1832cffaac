"""A text file that is written piece by piece and appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import TextIO

from regard.errors import InputError


class NewFile:
    r"""A UTF-8 text file that appears at its path when the block ends well; what was there before is intact until then.

    A device or a pipe (/dev/null, /dev/stdout) is written to as it is.

    Arguments:
        path: where to.

    Raises:
        InputError: for a folder, or a place that cannot be written to, from the start of the block; for a full disk.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "lines.txt"
    >>> with NewFile(place) as file:
    ...     file.write("eins\n")
    ...     place.exists()
    False
    >>> place.read_text()
    'eins\n'
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._target = path.resolve()  # a link stays one
        self._partial: Path | None = None
        self._file: TextIO | None = None

    def __enter__(self) -> NewFile:
        from regard.checkpoints.atomic import writing_errors

        if self._target.is_dir():
            raise InputError(f"{self.path}: is a folder; give the path of a file")
        with writing_errors(self.path):
            if self._target.exists() and not self._target.is_file():
                self._file = self._target.open("w", encoding="utf-8", newline="\n")
                return self
            partial = self._target.with_name(f".{self._target.name[:60]}.{secrets.token_hex(6)}")
            # Unlike the files of tempfile it has the permissions of any file that the user writes.
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            self._partial = partial
            self._file = open(descriptor, "w", encoding="utf-8", newline="\n")
        return self

    def write(self, text: str) -> None:
        """Add to the file."""
        from regard.checkpoints.atomic import writing_errors

        if self._file is None:
            raise RuntimeError("a NewFile is written to inside its block")
        with writing_errors(self.path):
            self._file.write(text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from regard.checkpoints.atomic import writing_errors

        file, partial = self._file, self._partial
        if file is None:
            return
        try:
            if kind is None:
                with writing_errors(self.path):
                    file.flush()
                    if partial is not None:
                        os.fsync(file.fileno())
                    file.close()
                    if partial is not None:
                        partial.replace(self._target)
                        self._partial = None
        finally:
            with contextlib.suppress(OSError):
                file.close()
            if self._partial is not None:
                with contextlib.suppress(OSError):
                    self._partial.unlink()
