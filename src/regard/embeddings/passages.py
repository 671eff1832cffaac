"""The passages of text files: what is found when a folder is searched."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from regard.errors import InputError, nearest
from regard.reading import json_value, read_bytes

LENGTH = 800
"""Characters after which a passage ends with the line; about as many as an encoder of sentences reads."""

HEADING = re.compile(r"#{1,6} [^\n]*|[^\n]+\n([=\-~^*#])\1{2,}")
"""A heading of Markdown or reStructuredText: it goes with the paragraph below. Other paragraphs stand alone, however short."""

TABLES = {".csv": ",;", ".tsv": "\t", ".jsonl": ""}
"""Files of rows by their suffix, with the separators that their columns may have: each row is a passage."""

Unit = Literal["paragraph", "line"]
UNITS: tuple[Unit, ...] = ("paragraph", "line")
"""What a passage of a text is; a row of a table is always one."""

LONGEST = 2 * LENGTH
"""Of one passage: a line that is longer is cut between words."""

PATTERNS = ("*.txt", "*.md", "*.rst")
"""Names of the files that are searched."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A part of a text file.

    Arguments:
        line: of its first character, from 1.
        start, end: in characters of the file, the latter excluded.
    """

    line: int
    start: int
    end: int


def passages_of(text: str) -> Iterator[Passage]:
    r"""The passages of a text: its paragraphs, between empty lines, a heading with the paragraph below it.

    Long ones are cut after a line, very long lines between words. What has neither a letter nor a digit is none.

    >>> text = "# Heading\n\n" + "words " * 12 + "\n\nthe end"
    >>> [(passage.line, passage.start, passage.end) for passage in passages_of(text)]
    [(1, 0, 82), (5, 85, 92)]
    """
    found: Passage | None = None
    place = 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if not line.strip():
            if found is not None and not HEADING.fullmatch(text, found.start, found.end):
                yield from _parts(text, found)
                found = None
        else:
            end = place + len(line.rstrip())
            if found is None:
                found = Passage(line=number, start=place, end=end)
            else:
                found = Passage(line=found.line, start=found.start, end=end)
            if found.end - found.start >= LENGTH:
                yield from _parts(text, found)
                found = None
        place += len(line)
    yield from _parts(text, found)


def _parts(text: str, passage: Passage | None) -> Iterator[Passage]:
    if passage is None:
        return
    start, line = passage.start, passage.line
    while passage.end - start > LONGEST:
        cut = text.rfind(" ", start, start + LONGEST)
        cut = cut if cut > start else start + LONGEST
        yield from _one(text, Passage(line=line, start=start, end=cut))
        line += text.count("\n", start, cut)
        start = cut
    yield from _one(text, Passage(line=line, start=start, end=passage.end))


def _one(text: str, passage: Passage) -> Iterator[Passage]:
    if any(map(str.isalnum, text[passage.start : passage.end])):
        yield passage


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """What a file says, and its passages.

    Arguments:
        text: of the file; of a table the texts of its rows, one below the other.
        passages: parts of that text; `line` is always that of the file.
    """

    text: str
    passages: tuple[Passage, ...]

    def text_of(self, passage: Passage) -> str:
        """The passage's text."""
        return self.text[passage.start : passage.end]


def read_document(path: Path, unit: Unit = "paragraph", column: str = "text") -> Document | None:
    """A file and its passages; None where it is no UTF-8 text.

    Arguments:
        path: of a text, or of a table (.csv, .tsv, .jsonl) of which every row is a passage.
        unit: what a passage of a text is.
        column: of a table, that holds the text; ignored for JSON Lines that are plain strings.

    Raises:
        InputError: for a file that cannot be read, a table without the column, or a row that is none.
    """
    text = read_text(path)
    if text is None:
        return None
    if path.suffix.lower() in TABLES:
        return _document_of_rows(_rows(text, path, column))
    if unit == "paragraph":
        return Document(text=text, passages=tuple(passages_of(text)))
    return _document_of_rows(enumerate(io.StringIO(text), start=1))


def _document_of_rows(rows: Iterable[tuple[int, str]]) -> Document:
    parts: list[str] = []
    passages: list[Passage] = []
    place = 0
    for line, row in rows:
        words = row.strip()
        if any(map(str.isalnum, words)):
            passages.append(Passage(line=line, start=place, end=place + len(words)))
            parts.append(words)
            place += len(words) + 1
    return Document(text="\n".join(parts), passages=tuple(passages))


def _rows(text: str, path: Path, column: str) -> Iterator[tuple[int, str]]:
    """The first line and the text of each row of a table."""
    if path.suffix.lower() == ".jsonl":
        for number, line in enumerate(io.StringIO(text), start=1):
            if not line.strip():
                continue
            try:
                row = json_value(line)
            except ValueError as error:
                raise InputError(
                    f"{path}, line {number}: is not JSON ({error}); give one object or string a line"
                ) from None
            if isinstance(row, dict) and column not in row:
                raise InputError(_no_column(path, column, [str(name) for name in row], number))
            found = row[column] if isinstance(row, dict) else row
            if not isinstance(found, str):
                raise InputError(f"{path}, line {number}: {column!r} is no text; give a string")
            yield number, found
        return
    header = text.split("\n", 1)[0]
    separator = max(TABLES[path.suffix.lower()], key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        names = [name.strip() for name in next(reader, [])]
        if column not in names:
            raise InputError(_no_column(path, column, names, 1))
        place, line = names.index(column), reader.line_num + 1
        for row in reader:
            if row and len(row) != len(names):
                raise InputError(f"{path}, line {line}: has {len(row)} columns where the header has {len(names)}")
            if row:
                yield line, row[place]
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: is no table that can be read ({error})") from None


def _no_column(path: Path, column: str, names: list[str], line: int) -> str:
    known = nearest(column, names) if names else "the file is empty"
    return f"{path}, line {line}: has no column {column!r}; say which holds the text with --text: {known}"


def files_of(folder: Path, patterns: Sequence[str] = PATTERNS) -> list[Path]:
    """The text files in a folder and all folders in it, in the order of their names; what begins with a dot is left out.

    Of a file it is the file alone, whatever its name.

    Raises:
        InputError: where there is no such folder or file, or no such file in the folder.
    """
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give a folder of text files, or one file")
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and any(fnmatchcase(path.name, pattern) for pattern in patterns)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    if not found:
        raise InputError(f"{folder}: holds no file called {' or '.join(patterns)}; say which with --files")
    return found


def read_text(path: Path) -> str | None:
    """The content of a text file, line ends as they are; None where it is no UTF-8 text."""
    content = read_bytes(path, "check its permissions, or leave it out with --files")
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
