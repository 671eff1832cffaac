"""What a file is that holds no word vectors."""

from __future__ import annotations

import re
from pathlib import Path

from regard.data.lines import wrong_encoding
from regard.errors import InputError

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
