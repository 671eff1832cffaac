"""Reading vectors of words, whatever format they are in."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from regard.errors import InputError
from regard.vectors.formats import fasttext, folder, glove, word2vec_binary, word2vec_text
from regard.vectors.formats.foreign import refusal
from regard.vectors.formats.gathering import Say
from regard.vectors.formats.source import opened
from regard.vectors.store import WordVectors


def read_vectors(path: str | os.PathLike[str], *, limit: int | None = None, say: Say | None = None) -> WordVectors:
    r"""Vectors of words from a file or folder; its content, not its name, says in which format they are.

        regard's own folder    mapped into memory
        word2vec text          which is fastText's .vec; plain or gzip
        GloVe text             plain or gzip
        word2vec binary        plain or gzip
        fastText .bin          with vectors for unknown words, from their n-grams

    A word that is in a file twice keeps its first vector, as in gensim; how many were left out is said.

    Arguments:
        path: where they are.
        limit: only so many vectors from the top, in most files those of the commonest words.
        say: gets a sentence about words that were left out; None for a Python warning.

    Returns:
        The vectors; their metadata have the `format` and the `source`.

    Raises:
        InputError: for a file that is missing, damaged or something else: what is wrong with it and in which line or byte.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "vectors.txt"
    >>> _ = file.write_text("2 3\nking 1 0 0.5\nqueen 0 1 0.5\n")
    >>> read_vectors(file)["queen"].tolist()
    [0.0, 1.0, 0.5]
    """
    place = Path(path)
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}; give 1 or more, or none")
    if say is not None:
        return _read(place, limit, say)
    said: list[str] = []
    vectors = _read(place, limit, said.append)
    for sentence in said:
        warnings.warn(sentence, stacklevel=2)
    return vectors


def _read(place: Path, limit: int | None, say: Say) -> WordVectors:
    if place.is_dir():
        return folder.read(place, limit)
    with opened(place) as source:
        if source.head.startswith(fasttext.MAGIC):
            return fasttext.read(source, limit, say)
        header = word2vec_text.header_of(source.head)
        if header is not None:
            binary = word2vec_binary.is_binary(source, header)
            return (word2vec_binary if binary else word2vec_text).read(source, header, limit, say)
        width = glove.width_of(source.head)
        if not width:
            raise refusal(place, source.head)
        return glove.read(source, width, limit, say)
