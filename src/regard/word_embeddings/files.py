"""Read word vectors in any of the known formats, and write them in one."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Literal, cast, get_args

from regard.data.lines import wrong_encoding
from regard.errors import InputError, nearest
from regard.word_embeddings.formats.fasttext import MAGIC, read_fasttext, write_fasttext
from regard.word_embeddings.formats.files import Say, new_output, opened, read_folder, refuse_taken, write_folder
from regard.word_embeddings.formats.word2vec import (
    header_of,
    is_binary,
    read_binary,
    read_glove,
    read_word2vec,
    width_of,
    write_binary,
    write_glove,
    write_word2vec,
)
from regard.word_embeddings.store import WordVectors


def read_vectors(path: str | os.PathLike[str], *, limit: int | None = None, say: Say | None = None) -> WordVectors:
    r"""Word embeddings from a file or folder; its content, not its name, says in which format they are.

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
    b"\x89PNG": ("a PNG image", KNOWN),
    b"\xff\xd8\xff": ("a JPEG image", KNOWN),
    b"GIF8": ("a GIF image", KNOWN),
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


# Writing.


Kind = Literal["folder", "word2vec", "word2vec-binary", "glove", "fasttext"]
"""What vectors are written as:

`folder`           regard's own: mapped into memory when read, with all that is known.
`word2vec`         text with a header, which is fastText's .vec too.
`word2vec-binary`  a header, then bytes.
`glove`            text without a header.
`fasttext`         fastText's .bin, with counts and n-grams.
"""

KINDS: tuple[Kind, ...] = get_args(Kind)

_ENDINGS: dict[str, Kind] = {"": "folder", ".txt": "word2vec", ".vec": "word2vec", ".bin": "word2vec-binary"}
_WRITERS = {
    "word2vec": write_word2vec,
    "word2vec-binary": write_binary,
    "glove": write_glove,
    "fasttext": write_fasttext,
}


def write_vectors(vectors: WordVectors, path: str | os.PathLike[str], kind: Kind | None = None) -> None:
    r"""Write vectors to a file or folder, which appears whole or not at all; what it replaces stays until then.

    Text has the fewest digits that read back as the same 32 bits. A file ending in .gz is packed. Counts are kept by
    `folder` and `fasttext` alone, metadata by `folder` alone.

    Arguments:
        path: where to.
        kind: in which format; None for what the name ends in (.txt and .vec: word2vec, .bin: word2vec-binary, each
            with .gz after it or not; nothing: folder).

    Raises:
        InputError: for a kind that does not exist, a word that the format cannot hold, or a place that cannot be
            written to.

    >>> import tempfile
    >>> import numpy as np
    >>> from regard.word_embeddings.files import read_vectors
    >>> vectors = WordVectors(words=("king", "queen"), matrix=np.array([[1, 0.1], [0, 1]], dtype=np.float32))
    >>> place = Path(tempfile.mkdtemp()) / "royal.vec"
    >>> write_vectors(vectors, place)
    >>> place.read_text()
    '2 2\nking 1.0 0.1\nqueen 0.0 1.0\n'
    """
    place = Path(path)
    chosen = checked_kind(place, kind)
    if vectors.width == 0:
        raise InputError(f"{place}: the vectors are of width 0, which nothing reads; give vectors of 1 number or more")
    if chosen == "folder":
        write_folder(vectors, place)
        return
    with new_output(place) as output:
        _WRITERS[chosen](vectors, output)


def checked_kind(path: Path, kind: str | None) -> Kind:
    """The kind, or what the name says where there is none; and that such a thing can be put there.

    Raises:
        InputError: as for `write_vectors`.

    >>> checked_kind(Path("vectors"), "glove")
    'glove'
    """
    if kind is not None and kind not in KINDS:
        raise InputError(f"there is no kind {kind!r} of word vectors; {nearest(kind, KINDS)}")
    chosen = kind_of(path) if kind is None else cast(Kind, kind)
    if chosen == "folder":
        refuse_taken(path)
    elif path.is_dir():
        raise InputError(f"{path}: is a folder; give the path of a file")
    elif not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it, or give another path")
    return chosen


def kind_like(path: Path, kind: str | None, vectors: WordVectors) -> Kind:
    """As `checked_kind`, but a .txt of vectors that were read from GloVe's text is GloVe's again, without a header.

    >>> import numpy as np
    >>> read = WordVectors(words=("a",), matrix=np.ones((1, 2), dtype=np.float32), metadata={"format": "glove"})
    >>> kind_like(Path("changed.txt"), None, read), kind_like(Path("changed.vec"), None, read)
    ('glove', 'word2vec')
    """
    chosen = checked_kind(path, kind)
    unpacked = path.with_suffix("") if path.suffix == ".gz" else path
    again = kind is None and unpacked.suffix == ".txt" and vectors.metadata.get("format") == "glove"
    return "glove" if again else chosen


def kind_of(path: Path) -> Kind:
    """What a name says about the format.

    Raises:
        InputError: for an ending that says nothing.

    >>> kind_of(Path("vectors.txt.gz")), kind_of(Path("vectors"))
    ('word2vec', 'folder')
    """
    packed = path.suffix == ".gz"
    ending = (path.with_suffix("") if packed else path).suffix
    if ending not in _ENDINGS or (packed and not ending):
        raise InputError(
            f"{path}: its ending does not say how to write vectors; end it in .txt, .vec or .bin, or in nothing for a "
            f"folder, or give a kind: {', '.join(KINDS)}"
        )
    return _ENDINGS[ending]
