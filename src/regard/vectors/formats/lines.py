"""Vectors as lines of text: a word, then its numbers, spaces between."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.errors import InputError
from regard.vectors.formats.gathering import Piece
from regard.vectors.formats.output import Output, encoded
from regard.vectors.formats.source import Source
from regard.vectors.store import Matrix, WordVectors

BLOCK = 1 << 20
LONGEST_LINE = 1 << 25
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SPACE = b" \t\r"
TOGETHER = 1 << 16
"""Numbers that are written at once."""


class Lines(NamedTuple):
    """Whole lines without their ends, and the number of the first, from 1."""

    number: int
    content: list[bytes]


def lines_of(source: Source, start: int = 0, number: int = 1) -> Iterator[Lines]:
    """The lines of a file, about a megabyte together; line feeds alone end them.

    Arguments:
        start: the byte where the first of them begins.
        number: what it is counted as.

    Raises:
        InputError: for a line too long to be one.
    """
    source.stream.seek(start)
    carry = source.stream.read(BLOCK)
    while True:
        *content, carry = carry.split(b"\n")
        if content:
            yield Lines(number, content)
            number += len(content)
        if len(carry) > LONGEST_LINE:
            raise InputError(
                f"{source.path}:{number}: the line does not end within {LONGEST_LINE:,} bytes; "
                "give word vectors as text, one word a line"
            )
        block = source.stream.read(BLOCK)
        if not block:
            break
        carry += block
    if carry:
        yield Lines(number, [carry])


def rows_of(blocks: Iterator[Lines], path: Path, width: int, limit: int | None) -> Iterator[Piece]:
    """The words and vectors of lines, to the limit; empty lines may stand at the end alone.

    Raises:
        InputError: for a line that is not a word and so many finite numbers, with its number.
    """
    empty: int | None = None
    left = limit
    for number, content in blocks:
        if left is not None:
            content = content[:left]
            left -= len(content)
        if not content:
            return
        lines = [line.rstrip(SPACE) for line in content]
        while lines and not lines[-1]:
            lines.pop()
        if lines and empty is not None:
            raise InputError(f"{path}:{empty}: the line is empty; remove it")
        if len(lines) < len(content) and empty is None:
            empty = number + len(lines)
        if lines:
            yield _piece(path, number, lines, width)


def _piece(path: Path, number: int, lines: list[bytes], width: int) -> Piece:
    words, numbers = [], []
    for line in lines:
        # Most lines have one space before each number; others are looked at more closely.
        word, _, rest = line.partition(b" ") if line.count(b" ") == width else (b"", b"", b"")
        words.append(word)
        numbers.append(rest)
        if not word or not rest:
            return _piece_with_care(path, number, lines, width)
    try:
        matrix = np.loadtxt(io.BytesIO(b"\n".join(numbers)), np.float32, comments=None, delimiter=" ", ndmin=2)
        decoded = b"\n".join(words).decode().split("\n")
    except (ValueError, UnicodeDecodeError):
        return _piece_with_care(path, number, lines, width)
    if matrix.shape != (len(lines), width) or not np.isfinite(matrix).all():
        return _piece_with_care(path, number, lines, width)
    return Piece(decoded, matrix)


def _piece_with_care(path: Path, number: int, lines: list[bytes], width: int) -> Piece:
    """Line by line: words with spaces in them, tabs, and the sentence about what is wrong."""
    words: list[str] = []
    matrix = np.empty((len(lines), width), dtype=np.float32)
    for row, line in enumerate(lines):
        where = f"{path}:{number + row}"
        word, fields = split(where, line, width)
        words.append(word)
        matrix[row] = _numbers(where, fields)
    return Piece(words, matrix)


def split(where: str, line: bytes, width: int) -> tuple[str, list[bytes]]:
    """A line's word, in which there may be spaces, and its fields for numbers.

    Raises:
        InputError: for more or fewer numbers than the width, no word, or bytes that are no UTF-8.

    >>> split("a.txt:1", b"New York 0.5 1", 2)
    ('New York', [b'0.5', b'1'])
    """
    if not line.strip():
        raise InputError(f"{where}: the line is empty; remove it")
    parts = line.rsplit(b" ", width)
    if line.count(b" ") != width or not all(parts):  # not as nearly all lines are
        parts = parts if len(parts) > width and all(parts[1:]) else line.rsplit(None, width)
        parts[0] = parts[0].strip(SPACE)
    word, fields = parts[0], parts[1:]
    if not word or (len(fields) == width - 1 and is_number(word) and line[:1].isspace()):
        raise InputError(f"{where}: has no word before its numbers; mend or remove the line")
    between = word.split()[1:]
    found = len(fields)
    if between and all(b"." in field and is_number(field) for field in between):
        found += len(between)  # more numbers rather than a word of such parts
    if found != width:
        raise InputError(
            f"{where}: has {found} numbers after its word, and {width} are needed; mend or remove the line"
        )
    try:
        return word.decode(), fields
    except UnicodeDecodeError:
        raise InputError(
            f"{where}: the word {word[:40]!r} is not UTF-8; convert the file (iconv -f LATIN1 -t UTF-8) or remove the line"
        ) from None


def is_number(field: bytes) -> bool:
    """Whether it reads as a number, finite or not.

    >>> is_number(b"-1.5e-3"), is_number(b"1_000"), is_number(b"king")
    (True, False, False)
    """
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field


def _numbers(where: str, fields: list[bytes]) -> Matrix:
    wrong = next((field for field in fields if not is_number(field)), None)
    if wrong is not None:
        shown = wrong[:40].decode(errors="backslashreplace")
        raise InputError(f"{where}: {shown!r} is no number; mend or remove the line")
    with np.errstate(over="ignore"):
        row = np.array([float(field) for field in fields]).astype(np.float32)
    if not np.isfinite(row).all():
        shown = fields[int(np.argmin(np.isfinite(row)))].decode()
        raise InputError(f"{where}: {shown} is no finite number of 32 bits; mend or remove the line")
    return row


def write_rows(vectors: WordVectors, output: Output) -> None:
    """Write the words and their numbers, these in the fewest digits that read back as the same 32 bits."""
    step = max(1, TOGETHER // max(vectors.width, 1))
    for start in range(0, len(vectors), step):
        numbers = digits(np.asarray(vectors.matrix[start : start + step]))
        words = vectors.words[start : start + step]
        output.file.write(
            b"".join(
                encoded(output.path, word) + b" " + " ".join(row).encode() + b"\n"
                for word, row in zip(words, numbers, strict=True)
            )
        )


def digits(matrix: Matrix) -> list[list[str]]:
    """Each number in the fewest digits that read back as the same 32 bits, also by way of 64 bits as most programs read.

    >>> digits(np.array([[0.1, 3, 1e-45]], dtype=np.float32))
    [['0.1', '3.0', '1e-45']]
    """
    texts = matrix.astype("U")
    wrong = texts.astype(np.float64).astype(np.float32) != matrix
    if wrong.any():  # rounded twice, a number half way between two may become the other one
        texts[wrong] = [repr(number) for number in matrix[wrong].tolist()]
    return texts.tolist()
