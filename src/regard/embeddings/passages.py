"""The passages of text files: what is found when a folder is searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from regard.errors import InputError

LENGTH = 800
"""Characters after which a passage ends with the line; about as many as an encoder of sentences reads."""

SHORT = 60
"""Characters below which a paragraph goes with the next one, as a heading does."""

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
    r"""The passages of a text: paragraphs, between empty lines, a short one with the next.

    Long ones are cut after a line, very long lines between words. What has neither a letter nor a digit is none.

    >>> text = "Heading\n\n" + "words " * 12 + "\n\nthe end"
    >>> [(passage.line, passage.start, passage.end) for passage in passages_of(text)]
    [(1, 0, 80), (5, 83, 90)]
    """
    found: Passage | None = None
    place = 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if not line.strip():
            if found is not None and found.end - found.start >= SHORT:
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


def files_of(folder: Path, patterns: Sequence[str] = PATTERNS) -> list[Path]:
    """The text files in a folder and all folders in it, in the order of their names; what begins with a dot is left out.

    Raises:
        InputError: where there is no such folder, or no such file in it.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give a folder of text files")
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
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check its permissions") from None
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
