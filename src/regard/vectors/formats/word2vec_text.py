"""word2vec's text format, which is fastText's .vec too: a line with the number of words and the width, then a word a line."""

from __future__ import annotations

import re
from typing import NamedTuple

from regard.errors import InputError
from regard.vectors.formats.gathering import Say, described, table_of, without_repeats
from regard.vectors.formats.lines import BYTE_ORDER_MARK, lines_of, rows_of, write_rows
from regard.vectors.formats.output import Output, refuse_space
from regard.vectors.formats.source import Source
from regard.vectors.store import WordVectors

_HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t]*\r?(?:\n|$)")


class Header(NamedTuple):
    """What a first line says: so many words, vectors of such a width; and the byte after it."""

    words: int
    width: int
    end: int


def header_of(head: bytes) -> Header | None:
    r"""What the first line says; None if it is not two numbers.

    >>> header_of(b"2 3\nking 1 2 3")
    Header(words=2, width=3, end=4)
    >>> header_of(b"king 1 2 3")
    """
    marked = len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0
    found = _HEADER.match(head, marked)
    return None if found is None else Header(int(found[1]), int(found[2]), found.end())


def read(source: Source, header: Header, limit: int | None, say: Say) -> WordVectors:
    """The vectors of a file whose header says so many words of such a width.

    Raises:
        InputError: for more or fewer lines than that, or a line that is wrong.
    """
    source.refuse_claim(header.words, header.width, header.end + header.words * (2 * header.width + 2) - 1)
    blocks = lines_of(source, start=header.end, number=2)
    table = table_of(rows_of(blocks, source.path, header.width, limit), header.width)
    wanted = header.words if limit is None else min(header.words, limit)
    if len(table.words) != wanted:
        raise InputError(
            f"{source.path}: the header promises {header.words:,} words, and {len(table.words):,} follow; "
            "fetch the file again or mend its header"
        )
    table = without_repeats(table, lambda row: f"line {row + 2:,}", say)
    return WordVectors(
        words=tuple(table.words),
        matrix=table.matrix,
        metadata=described("word2vec", source.path),
        name=source.path.name,
    )


def write(vectors: WordVectors, output: Output) -> None:
    """Write the vectors.

    Raises:
        InputError: for a word with white space in it, or none.
    """
    refuse_space(vectors, output.path)
    output.file.write(b"%d %d\n" % (len(vectors), vectors.width))
    write_rows(vectors, output)
