"""fastText's .bin format: words with counts and vectors, and a table of n-gram vectors for unknown words."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.word_embeddings.formats.files import (
    BLOCK,
    LONGEST_WORD,
    Output,
    Say,
    Source,
    Table,
    encoded,
    gathered,
    vectors_of,
)
from regard.word_embeddings.store import LONGEST, Counts, Matrix, NgramSubwords, WordVectors

MAGIC = struct.pack("<i", 793712314)
VERSION, OLDEST = 12, 11
TOGETHER = 4096
"""The number of words whose vectors are computed at a time."""

_START = struct.Struct("<2i")
_SETTINGS = struct.Struct("<12id")
_SIZES = struct.Struct("<3i2q")
_SHAPE = struct.Struct("<2q")
_ENTRY = struct.Struct("<qb")

LOSSES = {1: "hierarchical softmax", 2: "negative sampling", 3: "softmax", 4: "one-vs-all"}
MODELS = {1: "cbow", 2: "skipgram", 3: "supervised"}


class Settings(NamedTuple):
    """The training settings that fastText stores, in the order of the file."""

    width: int
    window: int = 5
    epochs: int = 5
    least_count: int = 1
    negatives: int = 5
    word_ngrams: int = 1
    loss: int = 2
    model: int = 2
    buckets: int = 0
    minimum: int = 0
    maximum: int = 0
    rate_updates: int = 100
    threshold: float = 1e-4


class Sizes(NamedTuple):
    """The numbers at the beginning of fastText's dictionary."""

    entries: int
    words: int
    labels: int
    tokens: int
    pruned: int


def read_fasttext(source: Source, limit: int | None, say: Say) -> WordVectors:
    """Read word vectors; each is the mean of the word's own row and the rows of its n-grams, as in fastText.

    Raises:
        InputError: for a quantised model, another version, or a file that is too short, too long or inconsistent.
    """
    settings, sizes = _beginning(source)
    words, counts = words_of(source, sizes.entries, sizes.words, say)
    _refuse_quantised(source)
    rows = dense(source, (sizes.words + settings.buckets, settings.width))
    _refuse_quantised(source)
    _skip_output(source)
    subwords = None
    if settings.buckets and settings.maximum >= max(settings.minimum, 1):
        subwords = NgramSubwords(table=rows[sizes.words :], minimum=max(settings.minimum, 1), maximum=settings.maximum)
    words = words[:limit]
    table = Table(
        words=words, matrix=_vectors(source, rows, words, subwords), counts=counts[:limit] if sizes.tokens else None
    )
    return vectors_of(
        table,
        source,
        "fasttext",
        lambda row: f"word number {row + 1:,}",
        say,
        subwords=subwords,
        stored=_metadata(settings),
    )


def write_fasttext(vectors: WordVectors, output: Output) -> None:
    """Write a model of version 12 that fastText and gensim can open. Its output matrix is unknown and filled with zeros.

    The row of a word is computed so that its mean with the n-gram rows gives the word's vector, rounded to float32. Vectors
    that were read from such a file are preserved bit by bit, others up to this rounding.

    Raises:
        InputError: for a word with a null character, subwords that are not n-grams, or a row outside the range of float32.
    """
    subwords = vectors.subwords
    if subwords is not None and not isinstance(subwords, NgramSubwords):
        raise InputError(
            f"{output.path}: subwords of the type {type(subwords).__name__} cannot be written; leave them out"
        )
    if subwords is not None and subwords.table.shape[1] != vectors.width:
        raise InputError(
            f"{output.path}: n-gram vectors have width {subwords.table.shape[1]}, and word vectors {vectors.width}; "
            "give vectors of the same width"
        )
    buckets = 0 if subwords is None else len(subwords.table)
    settings = Settings(
        width=vectors.width,
        buckets=buckets,
        minimum=0 if subwords is None else subwords.minimum,
        maximum=0 if subwords is None else subwords.maximum,
    )
    counts, tokens = _counts(vectors, output)
    file = output.file
    file.write(MAGIC + struct.pack("<i", VERSION) + _SETTINGS.pack(*settings))
    file.write(_SIZES.pack(len(vectors), len(vectors), 0, tokens, -1))
    for word, count in zip(vectors.words, counts.tolist(), strict=True):
        name = encoded(output.path, word)
        if b"\0" in name:
            raise InputError(f"{output.path}: the word {word!r} has a null character, which ends a word; leave it out")
        file.write(name + b"\0" + _ENTRY.pack(count, 0))
    file.write(b"\0" + _SHAPE.pack(len(vectors) + buckets, vectors.width))
    for rows in _word_rows(vectors, subwords, output):
        file.write(rows.astype("<f4").tobytes())
    for start in range(0, buckets, TOGETHER):
        file.write(subwords.table[start : start + TOGETHER].astype("<f4").tobytes() if subwords is not None else b"")
    file.write(b"\0" + _SHAPE.pack(len(vectors), vectors.width))
    for start in range(0, len(vectors), TOGETHER):
        file.write(bytes(4 * vectors.width * min(TOGETHER, len(vectors) - start)))


def _counts(vectors: WordVectors, output: Output) -> tuple[Counts, int]:
    """The counts and their sum. If they are unknown, counts of 1 (gensim skips words with 0) with the sum 0."""
    if vectors.counts is None:
        return np.ones(len(vectors), dtype=np.int64), 0
    if (vectors.counts < 1).any():
        word = vectors.words[int(np.argmin(vectors.counts))]
        raise InputError(
            f"{output.path}: {word!r} has a count of {vectors.counts.min()}, and fastText's format needs 1 or more; "
            "leave such words out, or all counts"
        )
    return vectors.counts, int(vectors.counts.sum())


def _word_rows(vectors: WordVectors, subwords: NgramSubwords | None, output: Output) -> Iterator[Matrix]:
    """The rows whose means with the n-gram rows give the vectors: (|G| + 1) vector - sum of the rows of G."""
    for start in range(0, len(vectors), TOGETHER):
        wanted = np.asarray(vectors.matrix[start : start + TOGETHER])
        if subwords is not None:
            words = vectors.words[start : start + TOGETHER]
            totals, counts = subwords.sums(words)
            with np.errstate(over="ignore"):
                wanted = (wanted.astype(np.float64) * (counts[:, None] + 1) - totals).astype(np.float32)
            fine = np.isfinite(wanted).all(axis=1)
            if not fine.all():
                word = words[int(np.argmin(fine))]
                raise InputError(f"{output.path}: the numbers of {word!r} are too large for fastText's format")
        yield wanted


def _vectors(source: Source, table: Matrix, words: list[str], subwords: NgramSubwords | None) -> Matrix:
    matrix = np.empty((len(words), table.shape[1]), dtype=np.float32)
    for start in range(0, len(words), TOGETHER):
        here = slice(start, min(start + TOGETHER, len(words)))
        if subwords is None:
            matrix[here] = table[here]
        else:
            totals, counts = subwords.sums(words[here])
            with np.errstate(over="ignore", invalid="ignore"):
                matrix[here] = (table[here] + totals) / (counts[:, None] + 1)  # in 64 bits
        fine = np.isfinite(matrix[here]).all(axis=1)
        if not fine.all():
            row = start + int(np.argmin(fine))
            raise InputError(
                f"{source.path}: the vector of {words[row]!r}, word number {row + 1:,}, has a number that is not finite; "
                "the file is damaged, so fetch it again"
            )
    return matrix


def _beginning(source: Source) -> tuple[Settings, Sizes]:
    """The settings and sizes, checked against the size of the file."""
    _, version = _START.unpack(take(source, _START.size, "its version"))
    if not OLDEST <= version <= VERSION:
        raise InputError(
            f"{source.path}: has fastText's format version {version}, and only {OLDEST} and {VERSION} can be read; "
            "write it again with a newer fastText"
        )
    settings = Settings(*_SETTINGS.unpack(take(source, _SETTINGS.size, "its settings")))
    if version == 11 and settings.model == 3:  # such models have no n-grams, even if the settings have them
        settings = settings._replace(maximum=0)
    sizes = Sizes(*_SIZES.unpack(take(source, _SIZES.size, "its sizes")))
    if sizes.pruned > 0:
        raise _quantised(source)
    if sizes.words < 0 or sizes.labels < 0 or sizes.entries != sizes.words + sizes.labels or settings.buckets < 0:
        raise InputError(
            f"{source.path}: the sizes at its beginning are inconsistent ({sizes.entries:,} entries, {sizes.words:,} words, "
            f"{sizes.labels:,} labels); the file is damaged, so fetch it again"
        )
    if settings.maximum > LONGEST:
        raise InputError(
            f"{source.path}: declares n-grams of up to {settings.maximum:,} characters; the file is damaged, so fetch it again"
        )
    source.refuse_claim(
        sizes.words, settings.width, fewest(sizes.entries, sizes.words + settings.buckets, settings.width)
    )
    return settings, sizes


def _skip_output(source: Source) -> None:
    """Skip the output matrix, which is not needed, and check that the file is complete."""
    rows, width = shape_of(source)
    skip(source, 4 * rows * width)
    place = source.stream.tell()
    if source.stream.read(1):
        raise InputError(f"{source.path}: continues after its last matrix, at byte {place:,}; fetch the file again")


def _refuse_quantised(source: Source) -> None:
    if take(source, 1, "the flag for quantised models") != b"\0":
        raise _quantised(source)


def _quantised(source: Source) -> InputError:
    return InputError(
        f"{source.path}: is a quantised or pruned model (.ftz), whose vectors are incomplete; give the .bin it was made from"
    )


def _metadata(settings: Settings) -> dict[str, Any]:
    return {
        "settings": settings._asdict()
        | {
            "loss": LOSSES.get(settings.loss, str(settings.loss)),
            "model": MODELS.get(settings.model, str(settings.model)),
        }
    }


# Reading the parts of the file.


def fewest(entries: int, rows: int, width: int) -> int:
    """The number of bytes of the smallest file with this many entries and rows."""
    return entries * (1 + _ENTRY.size) + 4 * rows * width


def take(source: Source, count: int, what: str) -> bytes:
    """The next `count` bytes; `what` names them in messages.

    Raises:
        InputError: if the file ends before.
    """
    found = source.stream.read(count)
    if len(found) < count:
        raise _cut(source, what)
    return found


def words_of(source: Source, entries: int, words: int, say: Say) -> tuple[list[str], NDArray[np.int64]]:
    """The words of the dictionary and their counts; labels, which follow the words, are left out.

    Invalid UTF-8, which occurs where fastText truncated long words, is replaced by escapes, as in gensim, and reported.

    Raises:
        InputError: if the file ends before, or an entry is invalid.
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
                f"{source.path}: entry number {number + 1:,} of its dictionary is invalid; the file is damaged, so fetch it again"
            )
        if number < words:
            names.append(buffer[position:end])
            counts.append(count)
        position = end + 1 + _ENTRY.size
    stream.seek(stream.tell() - len(buffer) + position)
    return _decoded(names, say), np.array(counts, dtype=np.int64)


def dense(source: Source, expected: tuple[int, int]) -> Matrix:
    """The matrix that follows: memory-mapped, or read if the file is gzip.

    Raises:
        InputError: if it has another shape than expected, or the file ends before.
    """
    rows, width = shape_of(source)
    if (rows, width) != expected:
        raise InputError(
            f"{source.path}: has a matrix of shape ({rows:,}, {width:,}) instead of ({expected[0]:,}, {expected[1]:,}); "
            "it is pruned or damaged, so give the complete model"
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
    """The number of rows and the width of the matrix that follows.

    Raises:
        InputError: for negative sizes.
    """
    rows, width = _SHAPE.unpack(take(source, _SHAPE.size, "the shape of a matrix"))
    if rows < 0 or width < 0:
        raise InputError(f"{source.path}: has a matrix of {rows:,} rows; the file is damaged, so fetch it again")
    return rows, width


def skip(source: Source, count: int) -> None:
    """Skip bytes, which must exist.

    Raises:
        InputError: if the file ends before.
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
    return InputError(f"{source.path}: ends at byte {size:,}, within {what}; it was truncated, so fetch it again")
