"""Functions shared by all formats of word embeddings, and Regard's own format, a folder.

The folder contains the following files; arrays are memory-mapped when read.

regard.json     format version, metadata, settings of subwords
words.txt       one word per line, UTF-8
vectors.npy     (N, W) float32
counts.npy      (N,) int64, if counts are known
subwords.npy    (B, W) float32, if there are n-grams
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from regard.data.lines import open_file, reading_errors
from regard.errors import InputError
from regard.files import new_file, new_folder, writing_errors
from regard.reading import check_regular, read_bytes, read_json_object
from regard.word_embeddings.store import CHUNK, Counts, Matrix, NgramSubwords, Subwords, WordVectors

BLOCK = 1 << 20
"""The number of bytes that are read at a time."""

LONGEST_WORD = 1 << 16
"""The most bytes of a word in a binary file."""

HEAD = 1 << 20
"""The number of first bytes that the format is recognised by."""

CONTROL = bytes(sorted({*range(32), 127} - {9, 10, 11, 12, 13}))
"""Control characters, which are rare in text."""

WIDEST = 1 << 20
"""The largest width of a vector; a header with a larger width is refused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """An open file.

    Arguments:
        path: the path of the file.
        stream: its bytes, decompressed if it is gzip, positioned at the beginning.
        head: the first bytes of the stream.
        size: the number of bytes of the stream; None if unknown because the file is gzip.
    """

    path: Path
    stream: BinaryIO
    head: bytes
    size: int | None

    def refuse_claim(self, words: int, width: int, least: int) -> None:
        """Check the numbers in a header before memory is allocated for them.

        Arguments:
            words, width: the numbers in the header.
            least: the fewest bytes of a file with this content.

        Raises:
            InputError: for an impossible width, or more content than the file can have.
        """
        if not 1 <= width <= WIDEST:
            raise InputError(
                f"{self.path}: the header declares vectors of width {width:,}; give a file with width 1 to {WIDEST:,}"
            )
        if self.size is not None and least > self.size:
            raise InputError(
                f"{self.path}: the header declares {words:,} words of width {width:,}, for which a file of "
                f"{self.size:,} bytes is too short; it was truncated or is damaged, so fetch it again"
            )


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Source]:
    """A context manager that opens a file; errors while reading it in the block become an `InputError`.

    Raises:
        InputError: if the file does not exist, is a folder or a pipe, is not readable, is broken gzip, or is empty.
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
        path: the final path of the file.
        file: the stream to write to.
    """

    path: Path
    file: BinaryIO


@contextlib.contextmanager
def new_output(path: Path) -> Iterator[Output]:
    """A context manager for writing a file, gzipped if its name ends in .gz; the file appears when the block succeeds.

    Raises:
        InputError: for a path that cannot be written to.
    """
    target = path.resolve() if path.is_symlink() else path  # keep the link and replace its target
    with writing_errors(path), new_file(target) as file:
        if path.suffix != ".gz":
            yield Output(path=path, file=file)
            return
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
            yield Output(path=path, file=cast(BinaryIO, packed))


def encoded(path: Path, word: str) -> bytes:
    """The word in UTF-8.

    Raises:
        InputError: for an unpaired surrogate.
    """
    try:
        return word.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{path}: the word {word!r} has an unpaired surrogate, which UTF-8 cannot encode; leave it out"
        ) from None


def refuse_space(vectors: WordVectors, path: Path) -> None:
    """Check that no word is empty or contains white space, which ends a word in word2vec's formats.

    Raises:
        InputError: for the first such word.
    """
    for word in vectors.words:
        if not word or _SPACE.search(word):
            raise InputError(
                f"{path}: the word {word!r} {'contains white space' if word else 'is empty'}, which word2vec's formats "
                "cannot represent; choose the kind folder or fasttext, or rename it"
            )


# Reading a table piece by piece.

Say = Callable[[str], None]
"""A function that is called with a sentence about words that a reader left out."""


class Piece(NamedTuple):
    """Consecutive words and their vectors, (n, W) float32."""

    words: list[str]
    matrix: Matrix


class Table(NamedTuple):
    """Words, their vectors (N, W) float32 and, if known, their counts (N,) int64."""

    words: list[str]
    matrix: Matrix
    counts: Counts | None = None


def gathered(pieces: Iterable[Matrix], width: int) -> Matrix:
    """The concatenation of all pieces; each is freed as soon as it is copied, so that the table is never in memory twice.

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
    """The vectors of a table without duplicate words.

    Arguments:
        table: the table that was read; its rows are moved in place.
        source: the file it was read from.
        kind: the name of the format.
        where: a function from a row to its location in the file, for messages.
        say: is called with a sentence about words that were left out.
        subwords: computes vectors for other words.
        stored: the metadata in the file.
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
    """The table with only the first vector of each word, as in gensim; the number of dropped vectors is reported.

    Arguments:
        table: the table; its rows are moved in place.
        where: a function from a row to its location in the file, for messages.
        say: is called with a sentence about dropped vectors.
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
    for start in range(0, len(keep), CHUNK):  # rows only move towards the beginning, so none is overwritten too early
        chosen = keep[start : start + CHUNK]
        matrix[start : start + len(chosen)] = matrix[chosen]
    counts = None if table.counts is None else table.counts[keep]
    return Table(words=list(rows), matrix=matrix[: len(keep)], counts=counts)


def described(kind: str, path: Path, stored: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The metadata of vectors that were read: the metadata in the file, its format, and its path.

    If the stored metadata names another format and source, they are kept as `origin`.

    >>> described("folder", Path("b"), {"format": "glove", "source": "a.txt"})
    {'origin': {'format': 'glove', 'source': 'a.txt'}, 'format': 'folder', 'source': 'b'}
    """
    kept = dict(stored or {})
    before = {name: kept.pop(name) for name in ("format", "source") if name in kept}
    if before and "origin" not in kept:
        kept["origin"] = before
    return kept | {"format": kind, "source": str(path)}


# Regard's own folder.


LARGEST_WORDS = 1 << 32
"""The most bytes of a list of words."""
FORMAT_VERSION = 1
KIND = "word_vectors"
DESCRIPTION, WORDS, MATRIX, COUNTS, SUBWORDS = "regard.json", "words.txt", "vectors.npy", "counts.npy", "subwords.npy"


def read_folder(path: Path, limit: int | None) -> WordVectors:
    """The vectors in a folder. Only the words are read immediately; arrays are memory-mapped.

    Raises:
        InputError: if the folder has other content or a newer format, or its files are inconsistent.
    """
    state = _description(path)
    words = _words(path / WORDS)
    matrix = _array(path / MATRIX, np.float32, 2)
    if len(words) != len(matrix):
        raise InputError(
            f"{path}: {WORDS} has {len(words):,} words and {MATRIX} {len(matrix):,} vectors; write the folder again"
        )
    counts = _array(path / COUNTS, np.int64, 1) if (path / COUNTS).exists() else None
    return WordVectors(
        words=tuple(words[:limit]),
        matrix=matrix[:limit],
        counts=None if counts is None else counts[:limit],
        subwords=_subwords(path, state.get("subwords"), matrix.shape[1]),
        metadata=described("folder", path, state["metadata"]),
        name=path.name,
    )


def refuse_taken(path: Path) -> None:
    """Check that a path does not exist, or is a folder of word vectors or an empty folder, which may be replaced.

    Raises:
        InputError: for anything else, which must not be overwritten.
    """
    with writing_errors(path):
        taken = path.exists() and not (path.is_dir() and (is_own(path) or not any(path.iterdir())))
    if taken:
        raise InputError(f"{path}: exists already and has other content; choose another path")


def is_own(path: Path) -> bool:
    """Whether a folder holds word vectors in this format."""
    try:
        _description(path)
    except InputError:
        return False
    return True


def write_folder(vectors: WordVectors, path: Path) -> None:
    """Write a folder atomically; an existing folder of word vectors is replaced, anything else is not.

    Raises:
        InputError: for a word with a line break, an unknown type of subwords, or a path that is in use.
    """
    for word in vectors.words:
        if "\n" in word:
            raise InputError(
                f"{path}: the word {word!r} has a line break, which the list of words cannot represent; leave it out"
            )
    refuse_taken(path)
    subwords = vectors.subwords
    if subwords is not None and not isinstance(subwords, NgramSubwords):
        raise InputError(f"{path}: subwords of the type {type(subwords).__name__} cannot be written; leave them out")
    state = {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "metadata": dict(vectors.metadata),
        "subwords": None if subwords is None else {"minimum": subwords.minimum, "maximum": subwords.maximum},
    }
    try:
        description = json.dumps(state, ensure_ascii=False, indent=2)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{path}: the metadata is not JSON ({error}); give texts, numbers, lists and mappings"
        ) from None
    with writing_errors(path), new_folder(path) as folder:
        (folder / DESCRIPTION).write_text(description + "\n", encoding="utf-8")
        with (folder / WORDS).open("wb") as file:
            file.writelines(encoded(path, word) + b"\n" for word in vectors.words)
        np.save(folder / MATRIX, vectors.matrix, allow_pickle=False)
        if vectors.counts is not None:
            np.save(folder / COUNTS, vectors.counts, allow_pickle=False)
        if subwords is not None:
            np.save(folder / SUBWORDS, subwords.table, allow_pickle=False)


def _description(path: Path) -> dict[str, Any]:
    place = path / DESCRIPTION
    if not place.exists():
        raise InputError(f"{path}: is a folder without {DESCRIPTION}; give a file or folder of word vectors")
    state = read_json_object(place, "write the folder again")
    if state.get("kind") != KIND:
        raise InputError(f"{path}: is not a folder of word vectors; give a file or folder of word vectors")
    if state.get("format_version") != FORMAT_VERSION:
        raise InputError(f"{place}: format_version {state.get('format_version')!r} is not known; update regard")
    if not isinstance(state.get("metadata"), dict):
        raise InputError(f"{place}: the metadata is not a mapping; write the folder again")
    return state


def _words(path: Path) -> list[str]:
    content = read_bytes(path, "write the folder again", largest=LARGEST_WORDS)
    try:
        words = content.decode().split("\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: is not UTF-8; write the folder again") from None
    if words.pop():
        raise InputError(f"{path}: the last line has no line break, so the file was truncated; write the folder again")
    return words


def _array(path: Path, dtype: type[np.generic], dimensions: int) -> NDArray[Any]:
    check_regular(path, "write the folder again")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy parses the header as Python, so a damaged one can raise many kinds of errors
        raise InputError(
            f"{path}: is not a readable array ({' '.join(str(error).split())}); write the folder again"
        ) from None
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != dimensions:
        raise InputError(
            f"{path}: is not an array of {np.dtype(dtype)} with {dimensions} dimensions; write the folder again"
        )
    return array


def _subwords(path: Path, state: Any, width: int) -> NgramSubwords | None:
    if state is None:
        return None
    table = _array(path / SUBWORDS, np.float32, 2)
    try:
        minimum, maximum = int(state["minimum"]), int(state["maximum"])
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{path / DESCRIPTION}: subwords need a minimum and a maximum; write the folder again"
        ) from None
    if table.shape[1] != width:
        raise InputError(
            f"{path / SUBWORDS}: has rows of width {table.shape[1]}, and the vectors have width {width}; write the folder again"
        )
    try:
        return NgramSubwords(table=table, minimum=minimum, maximum=maximum)
    except InputError as error:
        raise InputError(f"{path / DESCRIPTION}: {error}") from None
