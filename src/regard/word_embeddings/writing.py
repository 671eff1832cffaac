"""Writing vectors of words, in the formats that other programs read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, cast, get_args

from regard.errors import InputError, nearest
from regard.word_embeddings.formats.fasttext import write_fasttext
from regard.word_embeddings.formats.files import new_output
from regard.word_embeddings.formats.folder import refuse_taken, write_folder
from regard.word_embeddings.formats.text import write_glove, write_word2vec
from regard.word_embeddings.formats.word2vec_binary import write_binary
from regard.word_embeddings.store import WordVectors

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
    >>> from regard.word_embeddings.reading import read_vectors
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
