"""Reading vectors of words, whatever format they are in, and what is said of a file that holds none."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path

from regard.data.lines import wrong_encoding
from regard.errors import InputError
from regard.word_embeddings.formats.fasttext import MAGIC, read_fasttext
from regard.word_embeddings.formats.files import Say, opened
from regard.word_embeddings.formats.folder import read_folder
from regard.word_embeddings.formats.text import header_of, read_glove, read_word2vec, width_of
from regard.word_embeddings.formats.word2vec_binary import is_binary, read_binary
from regard.word_embeddings.store import WordVectors


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
        return read_folder(place, limit)
    with opened(place) as source:
        if source.head.startswith(MAGIC):
            return read_fasttext(source, limit, say)
        header = header_of(source.head)
        if header is not None:
            read = read_binary if is_binary(source, header) else read_word2vec
            return read(source, header, limit, say)
        width = width_of(source.head)
        if not width:
            raise refusal(place, source.head)
        return read_glove(source, width, limit, say)


# What a file is that holds no word vectors.

KNOWN = (
    "give word vectors: a folder that regard wrote, word2vec's text or binary, GloVe's text, or fastText's .vec or .bin"
)

_UNPACK = "unpack it first (gzip and unpacked files are read)"
_BEGINNINGS: dict[bytes, tuple[str, str]] = {
    b"PK\x03\x04": ("a zip archive", "unpack it and give the file of vectors in it"),
    b"BZh": ("bzip2 data", _UNPACK),
    b"\xfd7zXZ": ("xz data", _UNPACK),
    b"(\xb5/\xfd": ("zstandard data", _UNPACK),
    b"7z\xbc\xaf": ("a 7z archive", _UNPACK),
    b"Rar!": ("a rar archive", _UNPACK),
    b"\x93NUMPY": ("a NumPy array without its words", KNOWN),
    b"\x89HDF": ("an HDF5 file", KNOWN),
    b"PAR1": ("a Parquet file", KNOWN),
    b"SQLite": ("an SQLite database", KNOWN),
    b"GGUF": ("a GGUF model", KNOWN),
    b"\x89PNG": ("a PNG picture", KNOWN),
    b"\xff\xd8\xff": ("a JPEG picture", KNOWN),
    b"GIF8": ("a GIF picture", KNOWN),
    b"%PDF": ("a PDF document", KNOWN),
}
_WIDE = {b"\xff\xfe\0\0": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_SAFETENSORS = re.compile(rb'.{5}\0\0\0\{\s*"', re.DOTALL)


def refusal(path: Path, head: bytes) -> InputError:
    r"""The sentence about a file that begins so.

    >>> str(refusal(Path("a.bin"), b"PK\x03\x04"))
    'a.bin: is a zip archive, not word vectors; unpack it and give the file of vectors in it'
    """
    if _PICKLE.match(head):
        return InputError(
            f"{path}: is a pickle, as gensim saves, and reading it may run any program; "
            "open it in gensim and write it with save_word2vec_format, or save_facebook_model for fastText"
        )
    for beginning, (what, hint) in _BEGINNINGS.items():
        if head.startswith(beginning):
            return InputError(f"{path}: is {what}, not word vectors; {hint}")
    if _SAFETENSORS.match(head):
        return InputError(f"{path}: is a safetensors file, not word vectors; {KNOWN}")
    if head[257:262] == b"ustar":
        return InputError(f"{path}: is a tar archive, not word vectors; unpack it and give the file of vectors in it")
    for mark, encoding in _WIDE.items():
        if head.startswith(mark):
            return wrong_encoding(str(path), encoding)
    if b"\0" in head:
        return InputError(f"{path}: is a binary file of an unknown kind; {KNOWN}")
    first = head.partition(b"\n")[0][:60].decode(errors="backslashreplace").strip()
    return InputError(f"{path}:1: {first!r} is not a word with its numbers; {KNOWN}")
