"""Files of vectors, whatever their format: open for reading, being written, and the table that is read."""

from __future__ import annotations

import contextlib
import gzip
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from regard.data.lines import open_file, reading_errors
from regard.errors import InputError
from regard.files import new_file, writing_errors
from regard.word_embeddings.store import CHUNK, Counts, Matrix, Subwords, WordVectors

BLOCK = 1 << 20
"""Bytes that are read at once."""

LONGEST_WORD = 1 << 16
"""Bytes of a word in a binary file."""

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
                is_gzip = packed.read(2) == b"\x1f\x8b"
            yield Source(path=path, stream=stream, head=head, size=None if is_gzip else path.stat().st_size)


_SPACE = re.compile(r"[ \t\n\r\v\f]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """A file that is being written.

    Arguments:
        path: where it will appear.
        file: takes its bytes.
    """

    path: Path
    file: BinaryIO


@contextlib.contextmanager
def new_output(path: Path) -> Iterator[Output]:
    """A file to fill, packed with gzip where its name ends in .gz, that appears when the block ends well.

    Raises:
        InputError: for a place that cannot be written to.
    """
    target = path.resolve() if path.is_symlink() else path  # a link stays one
    with writing_errors(path), new_file(target) as file:
        if path.suffix != ".gz":
            yield Output(path=path, file=file)
            return
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
            yield Output(path=path, file=cast(BinaryIO, packed))


def encoded(path: Path, word: str) -> bytes:
    """The word in UTF-8.

    Raises:
        InputError: for half of a surrogate pair.
    """
    try:
        return word.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{path}: the word {word!r} has half a character, which UTF-8 cannot hold; leave it out"
        ) from None


def refuse_space(vectors: WordVectors, path: Path) -> None:
    """Check that no word is empty or holds white space, which ends a word in word2vec's formats.

    Raises:
        InputError: for the first that does.
    """
    for word in vectors.words:
        if not word or _SPACE.search(word):
            raise InputError(
                f"{path}: the word {word!r} {'has white space in it' if word else 'is empty'}, which word2vec's formats "
                "cannot hold; choose the kind folder or fasttext, or rename it"
            )


# The table that is read, piece by piece.

Say = Callable[[str], None]
"""Gets a sentence about what a reader left out."""


class Piece(NamedTuple):
    """Some words after one another and their vectors, (n, W) float32."""

    words: list[str]
    matrix: Matrix


class Table(NamedTuple):
    """Words, their vectors (N, W) and, where they are known, how often each was seen."""

    words: list[str]
    matrix: Matrix
    counts: Counts | None = None


def gathered(pieces: Iterable[Matrix], width: int) -> Matrix:
    """All rows; each piece is let go as soon as it is copied, so that the table never stands in memory twice.

    >>> gathered(iter([np.ones((1, 2), dtype=np.float32)] * 2), 2).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    kept = deque(pieces)
    matrix = np.empty((sum(len(piece) for piece in kept), width), dtype=np.float32)
    row = 0
    while kept:
        piece = kept.popleft()
        matrix[row : row + len(piece)] = piece
        row += len(piece)
    return matrix


def table_of(pieces: Iterable[Piece], width: int) -> Table:
    """The words and vectors of all pieces."""
    words: list[str] = []

    def matrices() -> Iterator[Matrix]:
        for piece in pieces:
            words.extend(piece.words)
            yield piece.matrix

    matrix = gathered(matrices(), width)
    return Table(words=words, matrix=matrix)


def vectors_of(
    table: Table,
    source: Source,
    kind: str,
    where: Callable[[int], str],
    say: Say,
    *,
    subwords: Subwords | None = None,
    stored: Mapping[str, Any] | None = None,
) -> WordVectors:
    """The vectors of a file, each word once.

    Arguments:
        table: what was read, whose rows are moved.
        kind: the format's name.
        where: names the place of a row in the file.
        say: gets a sentence about words that were left out.
        stored: what the file says of itself.
    """
    table = without_repeats(table, where, say)
    return WordVectors(
        words=tuple(table.words),
        matrix=table.matrix,
        counts=table.counts,
        subwords=subwords,
        metadata=described(kind, source.path, stored),
        name=source.path.name,
    )


def without_repeats(table: Table, where: Callable[[int], str], say: Say) -> Table:
    """Every word once, with its first vector, as in gensim; what is left out is said, with the first of them.

    Arguments:
        table: whose rows are moved.
        where: names the place of a row in the file.
    """
    rows: dict[str, int] = {}
    for row, word in enumerate(table.words):
        rows.setdefault(word, row)
    count = len(table.words)
    if len(rows) == count:
        return table
    row = next(row for row, word in enumerate(table.words) if rows[word] != row)
    word = table.words[row]
    say(
        f"{count - len(rows):,} of {count:,} vectors are left out, because their words have one already: "
        f"the first is {word!r}, {where(row)}, after {where(rows[word])}"
    )
    keep = np.fromiter(rows.values(), dtype=np.int64, count=len(rows))
    matrix = table.matrix
    for start in range(0, len(keep), CHUNK):  # rows only ever move up, so none is lost
        chosen = keep[start : start + CHUNK]
        matrix[start : start + len(chosen)] = matrix[chosen]
    counts = None if table.counts is None else table.counts[keep]
    return Table(words=list(rows), matrix=matrix[: len(keep)], counts=counts)


def described(kind: str, path: Path, stored: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The metadata of vectors that were read: what the file says, its format, and where it is.

    Where the file says itself that its vectors were read from another one, that stays as their origin.

    >>> described("folder", Path("b"), {"format": "glove", "source": "a.txt"})
    {'origin': {'format': 'glove', 'source': 'a.txt'}, 'format': 'folder', 'source': 'b'}
    """
    kept = dict(stored or {})
    before = {name: kept.pop(name) for name in ("format", "source") if name in kept}
    if before and "origin" not in kept:
        kept["origin"] = before
    return kept | {"format": kind, "source": str(path)}
