"""A text file that is written piece by piece and appears whole or not at all."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

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
        self._file: BinaryIO | None = None
        self._ending = contextlib.ExitStack()

    def __enter__(self) -> NewFile:
        from regard.files import new_file, writing_errors

        with writing_errors(self.path):
            target = self.path.resolve() if self.path.is_symlink() else self.path  # a link stays one
            if target.is_dir():
                raise InputError(f"{self.path}: is a folder; give the path of a file")
            whole = target.is_file() or not target.exists()
            opened = new_file(target) if whole else target.open("wb")
            self._file = self._ending.enter_context(opened)
        return self

    def write(self, text: str) -> None:
        """Add to the file."""
        from regard.files import writing_errors

        if self._file is None:
            raise RuntimeError("a NewFile is written to inside its block")
        with writing_errors(self.path):
            self._file.write(text.encode())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from regard.files import writing_errors

        with writing_errors(self.path):
            self._ending.__exit__(kind, error, trace)
