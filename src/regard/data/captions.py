"""Captions in files: which picture, and what is said of it."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data.lines import Line, read_lines
from regard.data.malformed import MalformedRow, MalformedRows
from regard.data.pair import malformed_row, text_fault
from regard.data.tables import columns_of_table, csv_rows, tsv_rows
from regard.data.usable import usable

_HEADERS = (("image", "caption"), ("picture", "caption"), ("image", "comment"))
_NUMBERED = re.compile(r"#\d+$")


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionLine:
    """One caption.

    Arguments:
        picture: the name of the picture it is of; several captions may be of one.
        text: the caption.
        file, line: where it was read, from 1.
    """

    picture: str
    text: str
    file: str
    line: int


def read_captions(
    path: str | os.PathLike[str], *, on_error: str = "skip", malformed: MalformedRows | None = None
) -> Iterator[CaptionLine]:
    r"""The captions in a table of two columns, the picture's name and the caption.

    Tabs part the columns, as in Flickr8k's own files, where the number of the caption follows the name (`dog.jpg#3`) and is left
    out here; or commas, in a file that is called .csv or begins with the header `image,caption`.

    Arguments:
        path: of the file; gzip is recognised.
        on_error: what a malformed row does: `skip` (it is recorded and left out) or `stop`.
        malformed: where malformed rows are recorded.

    Raises:
        InputError: for a file that cannot be read or has no caption, from the call or while reading; or for a malformed row.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "captions.tsv"
    >>> _ = file.write_text("dog.jpg#0\tA dog runs .\ndog.jpg#1\tA running dog .\n")
    >>> [(caption.picture, caption.text) for caption in read_captions(file)]
    [('dog.jpg', 'A dog runs .'), ('dog.jpg', 'A running dog .')]
    """
    name = os.fspath(path)
    needed = "each line needs the name of a picture and a caption, with a tab between"
    return usable(_found(name, read_lines(name)), name, needed, on_error, malformed)


def _found(name: str, lines: Iterator[Line]) -> Iterator[CaptionLine | MalformedRow]:
    first = next(lines)
    lines = itertools.chain([first], lines)
    begins = first.content[:100].decode(errors="replace").strip().lower()
    headed = next((header for header in _HEADERS for mark in ",\t" if begins == mark.join(header)), None)
    commas = Path(name.removesuffix(".gz")).suffix.lower() == ".csv" or (headed is not None and "," in begins)
    rows = csv_rows(name, lines) if commas else tsv_rows(name, lines)
    if headed is not None:
        next(rows)
    for row in columns_of_table(name, rows, (0, 1), header=False):
        if isinstance(row, MalformedRow):
            yield row
            continue
        number, (picture, text) = row
        picture = _NUMBERED.sub("", picture.strip())
        faults = (text_fault(side, value) for side, value in (("picture", picture), ("caption", text)))
        fault = next((each for each in faults if each is not None), None)
        if fault is not None:
            yield malformed_row(name, number, *fault)
        else:
            yield CaptionLine(picture=picture, text=" ".join(text.split()), file=name, line=number)
