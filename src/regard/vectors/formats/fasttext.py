"""fastText's .bin: words with counts, a vector of each word, and a table of n-grams from which unknown words get theirs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from regard.errors import InputError
from regard.vectors.formats.fasttext_stream import dense, fewest, shape_of, skip, take, words_of
from regard.vectors.formats.gathering import Say, Table, described, without_repeats
from regard.vectors.formats.output import Output, encoded
from regard.vectors.formats.source import Source
from regard.vectors.store import Counts, Matrix, WordVectors
from regard.vectors.subwords import LONGEST, NgramSubwords

MAGIC = struct.pack("<i", 793712314)
VERSION, OLDEST = 12, 11
TOGETHER = 4096
"""Words whose vectors are made at once."""

_START = struct.Struct("<2i")
_SETTINGS = struct.Struct("<12id")
_SIZES = struct.Struct("<3i2q")
_SHAPE = struct.Struct("<2q")
_ENTRY = struct.Struct("<qb")

LOSSES = {1: "hierarchical softmax", 2: "negative sampling", 3: "softmax", 4: "one-vs-all"}
MODELS = {1: "cbow", 2: "skipgram", 3: "supervised"}


class Settings(NamedTuple):
    """What fastText keeps of how it was run, in its order."""

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
    """What the dictionary begins with."""

    entries: int
    words: int
    labels: int
    tokens: int
    pruned: int


def read(source: Source, limit: int | None, say: Say) -> WordVectors:
    """The words' vectors, each the mean of its own row and those of its n-grams, as fastText gives them.

    Raises:
        InputError: for a quantised model, another version, or a file that ends too early, goes on too long, or
            contradicts itself.
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
    table = without_repeats(table, lambda row: f"word number {row + 1:,}", say)
    return WordVectors(
        words=tuple(table.words),
        matrix=table.matrix,
        counts=table.counts,
        subwords=subwords,
        metadata=described("fasttext", source.path, _said(settings)),
        name=source.path.name,
    )


def write(vectors: WordVectors, output: Output) -> None:
    """Write a model of version 12 that fastText and gensim open; what it was trained to predict is not known, so zeros.

    A row of a word is what gives its vector together with its n-grams, rounded to 32 bits: vectors that were read from
    such a file stay the same to the bit, others to the precision of the row.

    Raises:
        InputError: for a word with a null character, subwords that are not n-grams, or a row beyond 32 bits.
    """
    subwords = vectors.subwords
    if subwords is not None and not isinstance(subwords, NgramSubwords):
        raise InputError(
            f"{output.path}: subwords of the type {type(subwords).__name__} cannot be written; leave them out"
        )
    if subwords is not None and subwords.table.shape[1] != vectors.width:
        raise InputError(f"{output.path}: n-grams have vectors of {subwords.table.shape[1]}, words of {vectors.width}")
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
    """The words' counts and their sum; 1 each and 0 where they are unknown, for gensim passes over words of 0."""
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
    """The rows that give the vectors together with the n-grams: (|G| + 1) vector - sum of G's rows."""
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
    """The settings and sizes, believed only where the file can hold so much."""
    _, version = _START.unpack(take(source, _START.size, "its version"))
    if not OLDEST <= version <= VERSION:
        raise InputError(
            f"{source.path}: is fastText's version {version}, and {OLDEST} and {VERSION} are read; "
            "write it again with a newer fastText"
        )
    settings = Settings(*_SETTINGS.unpack(take(source, _SETTINGS.size, "its settings")))
    if version == 11 and settings.model == 3:  # such models have no n-grams, whatever they say
        settings = settings._replace(maximum=0)
    sizes = Sizes(*_SIZES.unpack(take(source, _SIZES.size, "its sizes")))
    if sizes.pruned > 0:
        raise _quantised(source)
    if sizes.words < 0 or sizes.labels < 0 or sizes.entries != sizes.words + sizes.labels or settings.buckets < 0:
        raise InputError(
            f"{source.path}: the sizes at its beginning contradict one another ({sizes.entries:,} entries of which "
            f"{sizes.words:,} are words and {sizes.labels:,} labels); the file is damaged, so fetch it again"
        )
    if settings.maximum > LONGEST:
        raise InputError(
            f"{source.path}: says n-grams of up to {settings.maximum:,} characters; the file is damaged, so fetch it again"
        )
    source.refuse_claim(
        sizes.words, settings.width, fewest(sizes.entries, sizes.words + settings.buckets, settings.width)
    )
    return settings, sizes


def _skip_output(source: Source) -> None:
    """Go over the last matrix, which word vectors do not need, to see that it is whole."""
    rows, width = shape_of(source)
    skip(source, 4 * rows * width)
    place = source.stream.tell()
    if source.stream.read(1):
        raise InputError(f"{source.path}: goes on after its last matrix, at byte {place:,}; fetch the file again")


def _refuse_quantised(source: Source) -> None:
    if take(source, 1, "what says whether it is quantised") != b"\0":
        raise _quantised(source)


def _quantised(source: Source) -> InputError:
    return InputError(
        f"{source.path}: is a quantised or pruned model (.ftz), whose vectors are not whole; give the .bin it was made from"
    )


def _said(settings: Settings) -> dict[str, Any]:
    return {
        "settings": settings._asdict()
        | {
            "loss": LOSSES.get(settings.loss, str(settings.loss)),
            "model": MODELS.get(settings.model, str(settings.model)),
        }
    }
