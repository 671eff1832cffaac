"""Reading plain text in a stream, cut into the documents that a language model reads one by one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from regard.data.lines import read_lines
from regard.data.malformed import MalformedRow, MalformedRows
from regard.data.pair import NOT_UTF_8
from regard.errors import InputError, nearest

Unit = Literal["line", "paragraph"]
UNITS: tuple[str, ...] = get_args(Unit)

AnyPath = str | os.PathLike[str]


def read_texts(
    path: AnyPath | Sequence[AnyPath],
    *,
    unit: Unit | str = "line",
    malformed: MalformedRows | None = None,
) -> Iterator[str]:
    r"""The documents in a file of text, or in several one after another; no file is held in memory.

    Files are UTF-8, plain or gzip (told by content), with or without a byte-order mark, with LF or CRLF line ends.

    Arguments:
        path: one file or several.
        unit: what one document is: a `line`, without the spaces around it; or a `paragraph`, lines up to the next empty one, line
            ends kept. Empty lines are no documents.
        malformed: where lines are recorded that are not UTF-8 or too long, and left out.

    Raises:
        InputError: a file cannot be used (missing, empty, binary, wrongly encoded, broken gzip), from the call or while reading.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = file.write_text("one\ntwo\n\nthree\n")
    >>> list(read_texts(file)), list(read_texts(file, unit="paragraph"))
    (['one', 'two', 'three'], ['one\ntwo', 'three'])
    """
    if unit not in UNITS:
        raise InputError(f"data.unit is {unit!r}; {nearest(unit, UNITS)}")
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not paths:
        raise InputError("no file of text is given; name one at least")
    lines = decoded_lines(paths, malformed if malformed is not None else MalformedRows())
    return (line.strip() for line in lines if line.strip()) if unit == "line" else _paragraphs(lines)


def decoded_lines(paths: Sequence[AnyPath], malformed: MalformedRows) -> Iterator[str]:
    """Every line of every file, an empty one after each file; those that are no UTF-8 or too long are recorded and left out."""
    for path in paths:
        name = os.fspath(path)
        for line in read_lines(name):
            if line.too_long:
                malformed.record(MalformedRow(file=name, line=line.number, reason="longer than 1 MiB"))
                continue
            try:
                yield line.content.decode()
            except UnicodeDecodeError:
                malformed.record(MalformedRow(file=name, line=line.number, reason=NOT_UTF_8))
        yield ""


def _paragraphs(lines: Iterator[str]) -> Iterator[str]:
    gathered: list[str] = []
    for line in lines:
        if line.strip():
            gathered.append(line)
        elif gathered:
            yield "\n".join(gathered)
            gathered = []
