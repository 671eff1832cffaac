"""GloVe's text format: a word a line, no header."""

from __future__ import annotations

import io
from collections import Counter

from regard.errors import InputError
from regard.vectors.formats.gathering import Say, described, table_of, without_repeats
from regard.vectors.formats.lines import BYTE_ORDER_MARK, SPACE, is_number, lines_of, rows_of, split, write_rows
from regard.vectors.formats.output import Output
from regard.vectors.formats.source import HEAD, Source
from regard.vectors.store import WordVectors

LOOKED_AT = 1000
"""First lines that decide the width."""


def read(source: Source, width: int, limit: int | None, say: Say) -> WordVectors:
    """The vectors of a file without a header.

    Raises:
        InputError: for a line that is wrong.
    """
    start = len(BYTE_ORDER_MARK) if source.head.startswith(BYTE_ORDER_MARK) else 0
    table = table_of(rows_of(lines_of(source, start), source.path, width, limit), width)
    table = without_repeats(table, lambda row: f"line {row + 1:,}", say)
    return WordVectors(
        words=tuple(table.words), matrix=table.matrix, metadata=described("glove", source.path), name=source.path.name
    )


def width_of(head: bytes) -> int:
    r"""How many numbers most of the first lines end with after a word; 0 for lines that are no vectors.

    Words may be numbers or hold spaces, so no line alone can tell. Where it is not one in two at least that hold none, the
    lines are something else: pairs of words with a score, for one.

    >>> width_of(b"king 1 2\nNew York 3 4\n1984 5 6\n"), width_of(b"a text\nof words\n"), width_of(b"cat dog 7\n")
    (2, 0, 0)
    """
    lines = head.split(b"\n")
    if len(head) >= HEAD and len(lines) > 1:
        lines.pop()  # the last was cut
    fields = [line.split() for line in lines[:LOOKED_AT] if line.strip(SPACE)]
    found = Counter(_numbers_at_end(line) for line in fields)
    # Of widths found alike the smallest, for words can add to a line but not take from it.
    width = min(found, key=lambda width: (-found[width], width), default=0)
    plain = sum(len(line) == width + 1 for line in fields)
    return width if 2 * plain >= len(fields) else 0


def write(vectors: WordVectors, output: Output) -> None:
    """Write the vectors; a word may hold spaces if its line reads back.

    Raises:
        InputError: for no words, one that would not read back, or so many with spaces that the width could not be told.
    """
    if not len(vectors):
        raise InputError(f"{output.path}: there are no words, which a file without a header cannot say; give some")
    numbers = ["0.5"] * vectors.width
    for place, word in enumerate(vectors.words):
        if not _reads_back(word, numbers) or (not place and word.startswith("\ufeff")):
            raise InputError(
                f"{output.path}: the word {word!r} could not be read back from GloVe's format; "
                "choose the kind folder or fasttext, or rename it"
            )
    first = io.BytesIO()
    write_rows(vectors.first(LOOKED_AT), Output(path=output.path, file=first))
    if width_of(first.getvalue()[:HEAD]) != vectors.width:
        raise InputError(
            f"{output.path}: so many of the first words hold spaces that no reader could tell the width of the vectors; "
            "choose another kind"
        )
    write_rows(vectors, output)


def _reads_back(word: str, numbers: list[str]) -> bool:
    if word and word.isprintable() and " " not in word:
        return True
    try:
        line = " ".join([word, *numbers]).encode()
        return b"\n" not in line and split("", line, len(numbers))[0] == word
    except (InputError, UnicodeEncodeError):
        return False


def _numbers_at_end(fields: list[bytes]) -> int:
    after = fields[1:]
    return next((count for count, field in enumerate(reversed(after)) if not is_number(field)), len(after))
