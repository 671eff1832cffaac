"""word2vec's binary format: a line with the number of words and the width, then each word, a space, and its numbers as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
from regard.word_embeddings.formats.text import SPACE, Header, is_number
from regard.word_embeddings.store import CHUNK, WordVectors


def is_binary(source: Source, header: Header) -> bool:
    """Whether what follows the header is bytes rather than text: by the first line, control characters, or the sizes."""
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
    """The vectors of a file whose header says so many words of such a width.

    Raises:
        InputError: for a file that ends too early or goes on too long, or a word or vector that is wrong, with its byte.
    """
    source.refuse_claim(header.words, header.width, header.end + header.words * (4 * header.width + 2))
    table = table_of(_pieces(source, header, limit), header.width)
    return vectors_of(table, source, "word2vec-binary", lambda row: f"word number {row + 1:,}", say)


def write_binary(vectors: WordVectors, output: Output) -> None:
    """Write the vectors.

    Raises:
        InputError: for a word with white space in it, or none.
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
            yield _piece(path, offset, buffer, starts, spaces, header.width)
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
                "it was cut short, so fetch it again"
            )
        buffer += block
    if limit is None or limit >= header.words:
        _refuse_more(source, offset, buffer)


def _refuse_more(source: Source, offset: int, rest: bytes) -> None:
    rest += source.stream.read(BLOCK)
    if rest.strip(b"\n"):
        raise InputError(
            f"{source.path}: goes on after its last word, at byte {offset:,}; its header does not fit, so fetch it again"
        )


def _piece(path: Path, offset: int, buffer: bytes, starts: list[int], spaces: list[int], width: int) -> Piece:
    data = b"".join([buffer[space + 1 : space + 1 + 4 * width] for space in spaces])
    matrix = np.frombuffer(data, dtype="<f4").astype(np.float32, copy=False).reshape(len(starts), width)
    words: list[str] = []
    for start, space in zip(starts, spaces, strict=True):
        word = buffer[start:space].lstrip(b"\n")  # which word2vec itself puts after each vector
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
    """Where the last word's vector ends if these are all bytes of a file in this format; -1 if they cannot be."""
    position = header.end
    for _ in range(header.words):
        space = head.find(b" ", position)
        if space < 0:
            return -1
        position = space + 1 + 4 * header.width
    return position if position <= len(head) else -1
