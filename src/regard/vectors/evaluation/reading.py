"""Lines of test sets, and where such files are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from regard.data.lines import is_utf_8, read_lines
from regard.data.malformed import MalformedRow, MalformedRows
from regard.errors import InputError


class Text(NamedTuple):
    """A line that is not empty, without the space around it."""

    number: int
    text: str


def text_lines(path: Path, malformed: MalformedRows) -> Iterator[Text]:
    """The lines of a file that hold something, comments (#) left out; those that are no text are counted.

    Raises:
        InputError: for a file that cannot be read.
    """
    for line in read_lines(path):
        if line.too_long or not is_utf_8(line):
            reason = "line too long" if line.too_long else "not UTF-8"
            malformed.record(MalformedRow(file=str(path), line=line.number, reason=reason))
            continue
        text = line.content.decode()
        if text.strip() and not text.startswith("#"):
            yield Text(line.number, text)


def fields(line: str) -> list[str]:
    r"""The columns of a line: between tabs, else commas or semicolons, else spaces.

    >>> fields("New York\tcity\t3"), fields("a,b,1"), fields("a  b 1")
    (['New York', 'city', '3'], ['a', 'b', '1'], ['a', 'b', '1'])
    """
    for separator in ("\t", ",", ";"):
        if line.count(separator) >= 2:
            return [field.strip() for field in line.split(separator)]
    return line.split()


def set_name(path: Path) -> str:
    """What tables call a test set: its file's name without the endings.

    >>> set_name(Path("sets/EN-RG-65.txt.gz"))
    'EN-RG-65'
    """
    name = path.name.removesuffix(".gz")
    return Path(name).stem or name


def set_files(paths: Iterable[Path]) -> list[Path]:
    """Files as they are given; of a folder every *.txt (or .txt.gz), by name.

    Raises:
        InputError: for a folder without such files.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(each for each in path.iterdir() if each.is_file() and each.name.endswith((".txt", ".txt.gz")))
        if not inside:
            raise InputError(f"{path}: holds no *.txt; give a file, or a folder with test sets")
        found += inside
    return found
