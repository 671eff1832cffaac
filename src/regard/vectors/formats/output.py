"""A file of vectors that is being written, and which words it can hold."""

from __future__ import annotations

import contextlib
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from regard.errors import InputError
from regard.files import new_file, writing_errors
from regard.vectors.store import WordVectors

_SPACE = re.compile(r"[ \t\n\r\v\f]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """A file that is being written.

    Arguments:
        path: where it will appear.
        file: takes its bytes.
    """

    path: Path
    file: BinaryIO


@contextlib.contextmanager
def new_output(path: Path) -> Iterator[Output]:
    """A file to fill, packed with gzip where its name ends in .gz, that appears when the block ends well.

    Raises:
        InputError: for a place that cannot be written to.
    """
    target = path.resolve() if path.is_symlink() else path  # a link stays one
    with writing_errors(path), new_file(target) as file:
        if path.suffix != ".gz":
            yield Output(path=path, file=file)
            return
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
            yield Output(path=path, file=cast(BinaryIO, packed))


def encoded(path: Path, word: str) -> bytes:
    """The word in UTF-8.

    Raises:
        InputError: for half of a surrogate pair.
    """
    try:
        return word.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{path}: the word {word!r} has half a character, which UTF-8 cannot hold; leave it out"
        ) from None


def refuse_space(vectors: WordVectors, path: Path) -> None:
    """Check that no word is empty or holds white space, which ends a word in word2vec's formats.

    Raises:
        InputError: for the first that does.
    """
    for word in vectors.words:
        if not word or _SPACE.search(word):
            raise InputError(
                f"{path}: the word {word!r} {'has white space in it' if word else 'is empty'}, which word2vec's formats "
                "cannot hold; choose the kind folder or fasttext, or rename it"
            )
