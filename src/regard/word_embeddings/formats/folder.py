"""regard's own format: a folder whose matrix is mapped into memory.

regard.json     the format's version, metadata, the settings of subwords
words.txt       a word a line, UTF-8
vectors.npy     (N, W) float32
counts.npy      (N,) int64, where they are known
subwords.npy    (B, W) float32, where there are n-grams
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.files import new_folder, writing_errors
from regard.reading import check_regular, read_bytes, read_json_object
from regard.word_embeddings.formats.files import described, encoded
from regard.word_embeddings.store import WordVectors
from regard.word_embeddings.subwords import NgramSubwords

LARGEST_WORDS = 1 << 32
"""Bytes of a list of words."""
FORMAT_VERSION = 1
KIND = "word_vectors"
DESCRIPTION, WORDS, MATRIX, COUNTS, SUBWORDS = "regard.json", "words.txt", "vectors.npy", "counts.npy", "subwords.npy"


def read_folder(path: Path, limit: int | None) -> WordVectors:
    """The vectors of a folder; nothing but the words is read before it is used.

    Raises:
        InputError: for a folder that is something else, a newer format, or files that do not fit one another.
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
    """Check that there is nothing at a place, or vectors in this format, or an empty folder.

    Raises:
        InputError: for anything else, which must not be lost.
    """
    with writing_errors(path):
        taken = path.exists() and not (path.is_dir() and (is_own(path) or not any(path.iterdir())))
    if taken:
        raise InputError(f"{path}: is there already and holds something else; choose another place")


def is_own(path: Path) -> bool:
    """Whether a folder holds word vectors in this format."""
    try:
        _description(path)
    except InputError:
        return False
    return True


def write_folder(vectors: WordVectors, path: Path) -> None:
    """Write a folder, whole or not at all; one of vectors that is there is replaced, any other is not.

    Raises:
        InputError: for a word with a line break, subwords that no format knows, or a place that is taken.
    """
    for word in vectors.words:
        if "\n" in word:
            raise InputError(
                f"{path}: the word {word!r} has a line break, which a list of words cannot hold; leave it out"
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
        raise InputError(f"{path}: is a folder of something else than word vectors; give a file or folder of those")
    if state.get("format_version") != FORMAT_VERSION:
        raise InputError(f"{place}: format_version {state.get('format_version')!r} is not known; update regard")
    if not isinstance(state.get("metadata"), dict):
        raise InputError(f"{place}: the metadata is no mapping; write the folder again")
    return state


def _words(path: Path) -> list[str]:
    content = read_bytes(path, "write the folder again", largest=LARGEST_WORDS)
    try:
        words = content.decode().split("\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: is not UTF-8; write the folder again") from None
    if words.pop():
        raise InputError(f"{path}: the last line has no end, so it was cut short; write the folder again")
    return words


def _array(path: Path, dtype: type[np.generic], dimensions: int) -> NDArray[Any]:
    check_regular(path, "write the folder again")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy reads the header as Python, so that a damaged one raises almost anything
        raise InputError(
            f"{path}: is no array that can be read ({' '.join(str(error).split())}); write the folder again"
        ) from None
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != dimensions:
        raise InputError(
            f"{path}: is no array of {np.dtype(dtype)} with {dimensions} dimensions; write the folder again"
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
            f"{path / SUBWORDS}: has rows of {table.shape[1]} beside vectors of {width}; write the folder again"
        )
    try:
        return NgramSubwords(table=table, minimum=minimum, maximum=maximum)
    except InputError as error:
        raise InputError(f"{path / DESCRIPTION}: {error}") from None
