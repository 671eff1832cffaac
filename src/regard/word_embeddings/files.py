"""Read word embeddings in any of the known formats, and write them in one."""

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
    r"""Read word embeddings from a file or folder. The format is recognised by the content, not by the name.

        regard's own folder    memory-mapped
        word2vec text          the same as fastText's .vec; plain or gzip
        GloVe text             plain or gzip
        word2vec binary        plain or gzip
        fastText .bin          with vectors for unknown words, computed from their n-grams

    If a word occurs twice in a file, its first vector is kept, as in gensim, and the number of dropped vectors is reported.

    Arguments:
        path: the path of the file or folder.
        limit: the number of vectors to read from the beginning, which in most files are the most frequent words; None for all.
        say: is called with a sentence about dropped words; None to issue a Python warning.

    Returns:
        The vectors; their metadata has the `format` and the `source`.

    Raises:
        InputError: if the file is missing, damaged or something else; the message names the line or byte.

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


# Messages for files that do not contain word embeddings.

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
    r"""The error for a file that does not contain word embeddings, by its first bytes.

    >>> str(refusal(Path("a.bin"), b"PK\x03\x04"))
    'a.bin: is a zip archive, not word vectors; unpack it and give the file of vectors in it'
    """
    if _PICKLE.match(head):
        return InputError(
            f"{path}: is a pickle, as saved by gensim, and reading it could run arbitrary code; "
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
"""The formats for writing vectors:

`folder`           regard's own: memory-mapped when read, with counts, n-grams and metadata.
`word2vec`         text with a header, the same as fastText's .vec.
`word2vec-binary`  a header, then binary numbers.
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
    r"""Write vectors to a file or folder, atomically: a previous file is replaced only when the new one is complete.

    Numbers in text formats have the fewest digits that read back as the same float32. A file whose name ends in .gz is
    compressed. Only `folder` and `fasttext` keep counts, and only `folder` keeps metadata.

    Arguments:
        vectors: the vectors.
        path: the path of the new file or folder.
        kind: the format; None to choose it by the ending of the name (.txt and .vec: word2vec; .bin: word2vec-binary; each
            optionally followed by .gz; no ending: folder).

    Raises:
        InputError: for an unknown kind, a word that the format cannot represent, or a path that cannot be written to.

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
        raise InputError(f"{place}: the vectors have width 0, which cannot be written; give vectors of width 1 or more")
    if chosen == "folder":
        write_folder(vectors, place)
        return
    with new_output(place) as output:
        _WRITERS[chosen](vectors, output)


def checked_kind(path: Path, kind: str | None) -> Kind:
    """The kind, or the kind by the ending of the name if it is None, after checking that it can be written to this path.

    Raises:
        InputError: as `write_vectors`.

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
        raise InputError(f"{path}: there is no folder {path.parent}; create it, or give another path")
    return chosen


def kind_like(path: Path, kind: str | None, vectors: WordVectors) -> Kind:
    """As `checked_kind`, but vectors that were read from GloVe text are written to a .txt as GloVe text, without a header.

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
    """The format by the ending of a file name.

    Raises:
        InputError: for an unknown ending.

    >>> kind_of(Path("vectors.txt.gz")), kind_of(Path("vectors"))
    ('word2vec', 'folder')
    """
    packed = path.suffix == ".gz"
    ending = (path.with_suffix("") if packed else path).suffix
    if ending not in _ENDINGS or (packed and not ending):
        raise InputError(
            f"{path}: its ending does not determine a format; end it in .txt, .vec or .bin, use no ending for a folder, "
            f"or give a kind: {', '.join(KINDS)}"
        )
    return _ENDINGS[ending]
