"""A JSON document that is read as a whole: plain or gzip, faults of the file named."""

from __future__ import annotations

import os
from typing import Any

from regard.data.lines import BYTE_ORDER_MARK, open_file, reading_errors, wrong_encoding
from regard.data.pair import short
from regard.errors import InputError
from regard.reading import json_value

LARGEST = 1 << 30
"""Bytes of a document, unpacked."""

_WIDE_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def read_document(path: str | os.PathLike[str]) -> Any:
    """The value in a JSON file; gzip (told by content) and a byte-order mark are taken care of.

    Raises:
        InputError: no such file, a folder, not readable, empty, in another encoding than UTF-8, broken gzip, broken JSON.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.json"
    >>> _ = file.write_text('{"version": "1.1"}')
    >>> read_document(file)
    {'version': '1.1'}
    """
    name = os.fspath(path)
    content = bytearray()
    with open_file(name) as stream, reading_errors(name, lambda: f"byte {len(content):,}"):
        while piece := stream.read(1 << 20):
            content += piece
            if len(content) > LARGEST:
                raise InputError(
                    f"{name}: is larger than {LARGEST >> 20} MiB, the most that is read as one document; give JSONL, a line each"
                )
    return parsed(name, bytes(content))


def parsed(name: str, content: bytes) -> Any:
    """The value of a JSON document's bytes; `name` is what messages call it.

    Raises:
        InputError: empty, in another encoding than UTF-8, broken JSON.
    """
    if not content.removeprefix(BYTE_ORDER_MARK).strip():
        raise InputError(f"{name}: is empty; give a JSON file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise wrong_encoding(name, _WIDE_MARKS.get(content[:2])) from None
    try:
        return json_value(text)
    except ValueError as error:
        beginning = short(content[:40].decode(errors="replace"))
        raise InputError(
            f"{name}: is not JSON ({error}; it begins {beginning}); check that the file is whole"
        ) from None
