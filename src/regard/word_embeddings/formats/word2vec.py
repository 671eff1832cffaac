"""word2vec's text and binary formats, and GloVe's text format.

Text formats have a word and its numbers on each line. word2vec's text format, which is also fastText's .vec, begins with a
header line of the number of words and the width; GloVe's has no header. The binary format has the same header, then each word,
a space, and its numbers as bytes.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.errors import InputError
from regard.word_embeddings.formats.files import (
    BLOCK,
    CONTROL,
    HEAD,
    LONGEST_WORD,
    Output,
    Piece,
    Say,
    Source,
    encoded,
    refuse_space,
    table_of,
    vectors_of,
)
from regard.word_embeddings.store import CHUNK, Matrix, WordVectors

_HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t]*\r?(?:\n|$)")


class Header(NamedTuple):
    """The header in the first line: the number of words, the width, and the position of the byte after the header."""

    words: int
    width: int
    end: int


def header_of(head: bytes) -> Header | None:
    r"""The header in the first line; None if the line is not two numbers.

    >>> header_of(b"2 3\nking 1 2 3")
    Header(words=2, width=3, end=4)
    >>> header_of(b"king 1 2 3")
    """
    marked = len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0
    found = _HEADER.match(head, marked)
    return None if found is None else Header(int(found[1]), int(found[2]), found.end())


def read_word2vec(source: Source, header: Header, limit: int | None, say: Say) -> WordVectors:
    """The vectors of a file in word2vec's text format.

    Raises:
        InputError: for more or fewer lines than the header declares, or an invalid line.
    """
    source.refuse_claim(header.words, header.width, header.end + header.words * (2 * header.width + 2) - 1)
    blocks = lines_of(source, start=header.end, number=2)
    table = table_of(rows_of(blocks, source.path, header.width, limit), header.width)
    wanted = header.words if limit is None else min(header.words, limit)
    if len(table.words) != wanted:
        raise InputError(
            f"{source.path}: the header declares {header.words:,} words, and {len(table.words):,} follow; "
            "fetch the file again or correct its header"
        )
    return vectors_of(table, source, "word2vec", lambda row: f"line {row + 2:,}", say)


def write_word2vec(vectors: WordVectors, output: Output) -> None:
    """Write vectors in word2vec's text format.

    Raises:
        InputError: for an empty word, or a word with white space.
    """
    refuse_space(vectors, output.path)
    output.file.write(b"%d %d\n" % (len(vectors), vectors.width))
    write_rows(vectors, output)


# GloVe's format has no header, so the width is determined from the first lines.

LOOKED_AT = 1000
"""The number of first lines that the width is determined from."""


def read_glove(source: Source, width: int, limit: int | None, say: Say) -> WordVectors:
    """The vectors of a file in GloVe's text format.

    Raises:
        InputError: for an invalid line.
    """
    start = len(BYTE_ORDER_MARK) if source.head.startswith(BYTE_ORDER_MARK) else 0
    table = table_of(rows_of(lines_of(source, start), source.path, width, limit), width)
    return vectors_of(table, source, "glove", lambda row: f"line {row + 1:,}", say)


def width_of(head: bytes) -> int:
    r"""The width of the vectors: the most frequent number of trailing numbers in the first lines; 0 if they are not vectors.

    Words may be numbers or contain spaces, so a single line is ambiguous. If fewer than half of the lines have a word without
    spaces, the file contains something else, such as pairs of words with a score.

    >>> width_of(b"king 1 2\nNew York 3 4\n1984 5 6\n"), width_of(b"a text\nof words\n"), width_of(b"cat dog 7\n")
    (2, 0, 0)
    """
    lines = head.split(b"\n")
    if len(head) >= HEAD and len(lines) > 1:
        lines.pop()  # the last line is incomplete
    fields = [line.split() for line in lines[:LOOKED_AT] if line.strip(SPACE)]
    found = Counter(_numbers_at_end(line) for line in fields)
    # In a tie the smallest width, because a word with numbers can only add to the count of a line.
    width = min(found, key=lambda width: (-found[width], width), default=0)
    plain = sum(len(line) == width + 1 for line in fields)
    return width if 2 * plain >= len(fields) else 0


def write_glove(vectors: WordVectors, output: Output) -> None:
    """Write vectors in GloVe's text format; a word may contain spaces if its line can be read back.

    Raises:
        InputError: for no words, a word that could not be read back, or so many words with spaces that a reader could not
            determine the width.
    """
    if not len(vectors):
        raise InputError(f"{output.path}: there are no words, and GloVe's format cannot represent that; give some")
    numbers = ["0.5"] * vectors.width
    for place, word in enumerate(vectors.words):
        if not _reads_back(word, numbers) or (not place and word.startswith("\ufeff")):
            raise InputError(
                f"{output.path}: the word {word!r} could not be read back from GloVe's format; "
                "choose the kind folder or fasttext, or rename it"
            )
    first = io.BytesIO()
    write_rows(vectors.first(LOOKED_AT), Output(path=output.path, file=first))
    if width_of(first.getvalue()[:HEAD]) != vectors.width:
        raise InputError(
            f"{output.path}: too many of the first words contain spaces for a reader to find the dimension of the vectors; "
            "choose another format"
        )
    write_rows(vectors, output)


def _reads_back(word: str, numbers: list[str]) -> bool:
    if word and word.isprintable() and " " not in word:
        return True
    try:
        line = " ".join([word, *numbers]).encode()
        return b"\n" not in line and split("", line, len(numbers))[0] == word
    except (InputError, UnicodeEncodeError):
        return False


def _numbers_at_end(fields: list[bytes]) -> int:
    after = fields[1:]
    return next((count for count, field in enumerate(reversed(after)) if not is_number(field)), len(after))


# Lines with a word and its numbers, separated by spaces.

LONGEST_LINE = 1 << 25
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SPACE = b" \t\r"
TOGETHER = 1 << 16
"""The number of numbers that are written at a time."""


class Lines(NamedTuple):
    """Complete lines without line breaks, and the number of the first line, from 1."""

    number: int
    content: list[bytes]


def lines_of(source: Source, start: int = 0, number: int = 1) -> Iterator[Lines]:
    """The lines of a file in batches of about a megabyte; only line feeds end lines.

    Arguments:
        source: the file.
        start: the position of the byte where the first line begins.
        number: the number of the first line.

    Raises:
        InputError: for a line that is too long.
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
                "give word vectors as text, one word per line"
            )
        block = source.stream.read(BLOCK)
        if not block:
            break
        carry += block
    if carry:
        yield Lines(number, [carry])


def rows_of(blocks: Iterator[Lines], path: Path, width: int, limit: int | None) -> Iterator[Piece]:
    """The words and vectors of the first `limit` lines (None for all); empty lines are only allowed at the end.

    Raises:
        InputError: for a line that is not a word with `width` finite numbers; the message has its line number.
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
        # Most lines have one space before each number; the others are parsed by `_piece_with_care`.
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
    """Parse line by line, which handles words with spaces and tabs, and reports the exact fault."""
    words: list[str] = []
    matrix = np.empty((len(lines), width), dtype=np.float32)
    for row, line in enumerate(lines):
        where = f"{path}:{number + row}"
        word, fields = split(where, line, width)
        words.append(word)
        matrix[row] = _numbers(where, fields)
    return Piece(words, matrix)


def split(where: str, line: bytes, width: int) -> tuple[str, list[bytes]]:
    """The word of a line, which may contain spaces, and its fields with numbers.

    Raises:
        InputError: for more or fewer than `width` numbers, no word, or bytes that are not UTF-8.

    >>> split("a.txt:1", b"New York 0.5 1", 2)
    ('New York', [b'0.5', b'1'])
    """
    if not line.strip():
        raise InputError(f"{where}: the line is empty; remove it")
    parts = line.rsplit(b" ", width)
    if line.count(b" ") != width or not all(parts):  # not the common form of a line
        parts = parts if len(parts) > width and all(parts[1:]) else line.rsplit(None, width)
        parts[0] = parts[0].strip(SPACE)
    word, fields = parts[0], parts[1:]
    if not word or (len(fields) == width - 1 and is_number(word) and line[:1].isspace()):
        raise InputError(f"{where}: has no word before its numbers; correct or remove the line")
    between = word.split()[1:]
    found = len(fields)
    if between and all(b"." in field and is_number(field) for field in between):
        found += len(between)  # these are more likely additional numbers than parts of the word
    if found != width:
        raise InputError(
            f"{where}: has {found} numbers after its word, and {width} are needed; correct or remove the line"
        )
    try:
        return word.decode(), fields
    except UnicodeDecodeError:
        raise InputError(
            f"{where}: the word {word[:40]!r} is not UTF-8; convert the file (iconv -f LATIN1 -t UTF-8) or remove the line"
        ) from None


def is_number(field: bytes) -> bool:
    """Whether a field is a number, finite or not.

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
        raise InputError(f"{where}: {shown!r} is not a number; correct or remove the line")
    with np.errstate(over="ignore"):
        row = np.array([float(field) for field in fields]).astype(np.float32)
    if not np.isfinite(row).all():
        shown = fields[int(np.argmin(np.isfinite(row)))].decode()
        raise InputError(f"{where}: {shown} is not a finite float32 number; correct or remove the line")
    return row


def write_rows(vectors: WordVectors, output: Output) -> None:
    """Write words with their numbers, in the fewest digits that read back as the same float32."""
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
    """Each number in the fewest digits that read back as the same float32, also if a program reads it as float64 first.

    >>> digits(np.array([[0.1, 3, 1e-45]], dtype=np.float32))
    [['0.1', '3.0', '1e-45']]
    """
    texts = matrix.astype("U")
    wrong = texts.astype(np.float64).astype(np.float32) != matrix
    if wrong.any():  # rounding twice can give the neighbouring float32 for numbers half way between two
        texts[wrong] = [repr(number) for number in matrix[wrong].tolist()]
    return texts.tolist()


# word2vec's binary format.


def is_binary(source: Source, header: Header) -> bool:
    """Whether the data after the header is binary and not text: by the first line, control characters, or the sizes."""
    start = header.end
    fields = source.head[start:].partition(b"\n")[0].rstrip(SPACE).split(b" ")
    if len(fields) > header.width and all(is_number(field) for field in fields[-header.width :]):
        return False
    rest = source.head[start : start + (1 << 16)]
    if len(rest) != len(rest.translate(None, CONTROL)):
        return True
    if len(source.head) == HEAD:  # not all of the file
        return False
    return header.words > 0 and _end(source.head, header) >= len(source.head.rstrip(b"\n"))


def read_binary(source: Source, header: Header, limit: int | None, say: Say) -> WordVectors:
    """The vectors of a file in word2vec's binary format.

    Raises:
        InputError: for a file that is too short or too long, or an invalid word or vector; the message has the byte position.
    """
    source.refuse_claim(header.words, header.width, header.end + header.words * (4 * header.width + 2))
    table = table_of(_pieces(source, header, limit), header.width)
    return vectors_of(table, source, "word2vec-binary", lambda row: f"word number {row + 1:,}", say)


def write_binary(vectors: WordVectors, output: Output) -> None:
    """Write vectors in word2vec's binary format.

    Raises:
        InputError: for an empty word, or a word with white space.
    """
    refuse_space(vectors, output.path)
    output.file.write(b"%d %d\n" % (len(vectors), vectors.width))
    for start in range(0, len(vectors), CHUNK):
        rows = vectors.matrix[start : start + CHUNK].astype("<f4")
        for word, row in zip(vectors.words[start : start + CHUNK], rows, strict=True):
            output.file.write(encoded(output.path, word) + b" " + row.tobytes() + b"\n")


def _pieces(source: Source, header: Header, limit: int | None) -> Iterator[Piece]:
    size, stream, path = 4 * header.width, source.stream, source.path
    stream.seek(header.end)
    left = header.words if limit is None else min(limit, header.words)
    offset, buffer = header.end, b""
    while left:
        starts, spaces, position = [], [], 0
        while len(starts) < left and (space := buffer.find(b" ", position)) >= 0 and space + 1 + size <= len(buffer):
            starts.append(position)
            spaces.append(space)
            position = space + 1 + size
        if starts:
            yield _binary_piece(path, offset, buffer, starts, spaces, header.width)
            left -= len(starts)
        offset, buffer = offset + position, buffer[position:]
        if not left:
            break
        if len(buffer) > LONGEST_WORD and buffer.find(b" ", 0, LONGEST_WORD) < 0:
            raise InputError(f"{path}: at byte {offset:,} no word begins; fetch the file again, or check its header")
        block = stream.read(BLOCK)
        if not block:
            raise InputError(
                f"{path}: ends at byte {offset + len(buffer):,} within word number "
                f"{header.words - left + 1 if limit is None else min(limit, header.words) - left + 1:,} of {header.words:,}; "
                "it was truncated, so fetch it again"
            )
        buffer += block
    if limit is None or limit >= header.words:
        _refuse_more(source, offset, buffer)


def _refuse_more(source: Source, offset: int, rest: bytes) -> None:
    rest += source.stream.read(BLOCK)
    if rest.strip(b"\n"):
        raise InputError(
            f"{source.path}: continues after its last word, at byte {offset:,}; its header is wrong, so fetch it again"
        )


def _binary_piece(path: Path, offset: int, buffer: bytes, starts: list[int], spaces: list[int], width: int) -> Piece:
    data = b"".join([buffer[space + 1 : space + 1 + 4 * width] for space in spaces])
    matrix = np.frombuffer(data, dtype="<f4").astype(np.float32, copy=False).reshape(len(starts), width)
    words: list[str] = []
    for start, space in zip(starts, spaces, strict=True):
        word = buffer[start:space].lstrip(b"\n")  # word2vec writes a line feed after each vector
        if not word:
            raise InputError(f"{path}: at byte {offset + start:,} a word is empty; fetch the file again")
        try:
            words.append(word.decode())
        except UnicodeDecodeError:
            raise InputError(
                f"{path}: at byte {offset + start:,} the word {word[:40]!r} is not UTF-8; the file is damaged, or write it "
                "again from gensim's load_word2vec_format(..., binary=True, unicode_errors='replace')"
            ) from None
    fine = np.isfinite(matrix).all(axis=1)
    if not fine.all():
        row = int(np.argmin(fine))
        raise InputError(
            f"{path}: at byte {offset + starts[row]:,} the vector of {words[row]!r} has a number that is not finite; "
            "the file is damaged, so fetch it again"
        )
    return Piece(words, matrix)


def _end(head: bytes, header: Header) -> int:
    """The position where the last vector ends if `head` is a complete file in this format; -1 if it cannot be."""
    position = header.end
    for _ in range(header.words):
        space = head.find(b" ", position)
        if space < 0:
            return -1
        position = space + 1 + 4 * header.width
    return position if position <= len(head) else -1
