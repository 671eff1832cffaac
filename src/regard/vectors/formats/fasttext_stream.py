"""The parts of fastText's .bin, read one after another."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.vectors.formats.gathering import Say, gathered
from regard.vectors.formats.lines import BLOCK
from regard.vectors.formats.source import Source
from regard.vectors.store import Matrix

LONGEST_WORD = 1 << 16

_SHAPE = struct.Struct("<2q")
_ENTRY = struct.Struct("<qb")


def fewest(entries: int, rows: int, width: int) -> int:
    """The bytes of the smallest file with so many entries and rows."""
    return entries * (1 + _ENTRY.size) + 4 * rows * width


def take(source: Source, count: int, what: str) -> bytes:
    """The next bytes.

    Raises:
        InputError: where the file ends before.
    """
    found = source.stream.read(count)
    if len(found) < count:
        raise _cut(source, what)
    return found


def words_of(source: Source, entries: int, words: int, say: Say) -> tuple[list[str], NDArray[np.int64]]:
    """The words of the dictionary and their counts; labels, which stand after them, are left out.

    Bytes that are no UTF-8, which are left where long words were cut, become escapes, as in gensim; that is said.

    Raises:
        InputError: where the file ends before, or an entry is none.
    """
    stream = source.stream
    names: list[bytes] = []
    counts: list[int] = []
    buffer, position = b"", 0
    for number in range(entries):
        while (end := buffer.find(b"\0", position)) < 0 or end + 1 + _ENTRY.size > len(buffer):
            block = stream.read(BLOCK) if len(buffer) - position < LONGEST_WORD + BLOCK else b""
            if not block:
                raise _cut(source, f"word number {number + 1:,} of its dictionary")
            buffer, position = buffer[position:] + block, 0
        count, kind = _ENTRY.unpack_from(buffer, end + 1)
        if kind != (number >= words) or count < 0:
            raise InputError(
                f"{source.path}: entry number {number + 1:,} of its dictionary is neither a word nor a label in its place; "
                "the file is damaged, so fetch it again"
            )
        if number < words:
            names.append(buffer[position:end])
            counts.append(count)
        position = end + 1 + _ENTRY.size
    stream.seek(stream.tell() - len(buffer) + position)
    return _decoded(names, say), np.array(counts, dtype=np.int64)


def dense(source: Source, expected: tuple[int, int]) -> Matrix:
    """A matrix of the next bytes: mapped into memory, or read where the file is packed.

    Raises:
        InputError: for another shape than expected, or where the file ends before.
    """
    rows, width = shape_of(source)
    if (rows, width) != expected:
        raise InputError(
            f"{source.path}: has a matrix of {rows:,} rows of {width:,} numbers, where its sizes need {expected[0]:,} of "
            f"{expected[1]:,}; it is pruned or damaged, so give the whole model"
        )
    start = source.stream.tell()
    if source.size is None:
        return gathered(_parts(source, rows, width), width)
    skip(source, 4 * rows * width)
    if not rows:
        return np.empty((0, width), dtype=np.float32)
    mapped = np.memmap(source.path, dtype="<f4", mode="r", offset=start, shape=(rows, width))
    return mapped.view(np.ndarray)


def shape_of(source: Source) -> tuple[int, int]:
    """The rows and the width of the matrix that follows.

    Raises:
        InputError: for a shape that no matrix has.
    """
    rows, width = _SHAPE.unpack(take(source, _SHAPE.size, "the shape of a matrix"))
    if rows < 0 or width < 0:
        raise InputError(f"{source.path}: has a matrix of {rows:,} rows; the file is damaged, so fetch it again")
    return rows, width


def skip(source: Source, count: int) -> None:
    """Go over bytes that must be there.

    Raises:
        InputError: where the file ends before.
    """
    if source.size is not None:
        if source.stream.tell() + count > source.size:
            raise _cut(source, "a matrix")
        source.stream.seek(count, 1)
        return
    while count:
        count -= len(take(source, min(count, BLOCK), "a matrix"))


def _parts(source: Source, rows: int, width: int) -> Iterator[Matrix]:
    step = max(1, BLOCK // (4 * width))
    for start in range(0, rows, step):
        count = min(step, rows - start)
        data = take(source, 4 * count * width, "a matrix")
        yield np.frombuffer(data, dtype="<f4").astype(np.float32, copy=False).reshape(count, width)


def _decoded(names: list[bytes], say: Say) -> list[str]:
    try:
        return b"\0".join(names).decode().split("\0") if names else []
    except UnicodeDecodeError:
        pass
    found = [name.decode(errors="backslashreplace") for name in names]
    changed = [word for name, word in zip(names, found, strict=True) if word.encode() != name]
    say(
        f"{len(changed):,} of {len(names):,} words are not UTF-8 and are read with escapes, the first as {changed[0]!r}"
    )
    return found


def _cut(source: Source, what: str) -> InputError:
    size = source.stream.seek(0, 2) if source.size is None else source.size
    return InputError(f"{source.path}: ends at byte {size:,}, within {what}; it was cut short, so fetch it again")
