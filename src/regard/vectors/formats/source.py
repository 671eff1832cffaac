"""A file of vectors that is open for reading, and its first bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from regard.data.lines import open_file, reading_errors
from regard.errors import InputError

HEAD = 1 << 20
"""Bytes by which a format is known."""

CONTROL = bytes(sorted({*range(32), 127} - {9, 10, 11, 12, 13}))
"""Characters that hardly any text has."""

WIDEST = 1 << 20
"""More numbers than this no vector of a word has; a file that says so is not believed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A file that is open.

    Arguments:
        path: it.
        stream: its bytes from the first one, unpacked where it is gzip.
        head: the first bytes, which the stream has still before it.
        size: how many bytes the stream has; None where only reading tells.
    """

    path: Path
    stream: BinaryIO
    head: bytes
    size: int | None

    def refuse_claim(self, words: int, width: int, least: int) -> None:
        """Check what a header says before anything is made room for.

        Arguments:
            words, width: what it says.
            least: the fewest bytes a file could have that holds so much.

        Raises:
            InputError: for a width that is none, or more than the file can hold.
        """
        if not 1 <= width <= WIDEST:
            raise InputError(
                f"{self.path}: the header says vectors of {width:,} numbers; give a file with 1 to {WIDEST:,}"
            )
        if self.size is not None and least > self.size:
            raise InputError(
                f"{self.path}: the header promises {words:,} words of {width:,} numbers, for which a file of "
                f"{self.size:,} bytes is too short; it was cut short or is damaged, so fetch it again"
            )


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Source]:
    """The file, to read in the block; what goes wrong with it there becomes one sentence.

    Raises:
        InputError: no such file, a folder, a pipe, not readable, broken gzip, or empty.
    """
    with open_file(str(path)) as stream:
        if not stream.seekable():
            raise InputError(f"{path}: is a pipe or a device; save the vectors in a file and give that")
        with reading_errors(str(path), lambda: f"byte {stream.tell():,}"):
            head = stream.read(HEAD)
            stream.seek(0)
            if not head:
                raise InputError(f"{path}: is empty; give a file of word vectors")
            with path.open("rb") as packed:
                gzip = packed.read(2) == b"\x1f\x8b"
            yield Source(path=path, stream=stream, head=head, size=None if gzip else path.stat().st_size)
