"""Test sets and tables: the lines of their files, and which row of a table a word of them has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from regard.data.lines import is_utf_8, read_lines
from regard.data.malformed import MalformedRow, MalformedRows
from regard.errors import InputError, nearest
from regard.word_embeddings.store import Matrix, WordVectors

Case = Literal["exact", "lower", "ignore"]
CASES: tuple[Case, ...] = get_args(Case)
"""`exact`: the word as it stands; `lower`: or else in small letters; `ignore`: the first in the table that is the same
in capital letters, as gensim does unless told otherwise."""

Unknown = Literal["skip", "zero"]
UNKNOWN: tuple[Unknown, ...] = get_args(Unknown)
"""What becomes of an item with a word that has no vector: `skip` leaves it out and counts it; `zero` takes it as a similarity of
0, or a wrong answer (gensim's `dummy4unknown`)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lookup:
    """A table as a test set looks into it.

    Arguments:
        vectors: the table.
        case: how words are found.
        among: only the first so many words, in most files the commonest; None for all.

    Raises:
        InputError: for a way that does not exist, or no words at all.

    >>> table = WordVectors(words=("Rome", "rome"), matrix=np.eye(2, dtype=np.float32))
    >>> [Lookup(vectors=table, case=case).row("ROME") for case in CASES]
    [None, 1, 0]
    """

    vectors: WordVectors
    case: Case = "ignore"
    among: int | None = None

    def __post_init__(self) -> None:
        known_case(self.case)
        if self.among is not None and self.among < 1:
            raise InputError(f"among is {self.among}; give 1 or more words, or none for all")

    @property
    def size(self) -> int:
        """How many words there are to find."""
        return len(self.vectors) if self.among is None else min(self.among, len(self.vectors))

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """Of each row the first row that counts as the same word, (size,)."""
        if self.case != "ignore":
            return np.arange(self.size)
        return np.fromiter((self._first[word.upper()] for word in self.vectors.words[: self.size]), np.int64, self.size)

    @cached_property
    def members(self) -> Mapping[int, list[int]]:
        """All rows of each group that has more than one."""
        found: dict[int, list[int]] = {}
        for row, group in enumerate(self.groups.tolist()):
            found.setdefault(group, []).append(row)
        return {group: rows for group, rows in found.items() if len(rows) > 1}

    def row(self, word: str) -> int | None:
        """The word's row; None where the table does not have it."""
        if self.case == "ignore":
            return self._first.get(word.upper())
        forms = (word,) if self.case == "exact" else (word, word.lower())
        found = (self.vectors.rows.get(form) for form in forms)
        return next((row for row in found if row is not None and row < self.size), None)

    def vector(self, word: str) -> Matrix | None:
        """The word's row, or what subwords make of a word that the table does not have; None for neither."""
        row = self.row(word)
        if row is not None:
            return np.asarray(self.vectors.matrix[row])
        if self.vectors.subwords is None or word in self.vectors:  # a word beyond the first `among` is left out
            return None
        return self.vectors.subwords.vector(word)

    @cached_property
    def _first(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for row, word in enumerate(self.vectors.words[: self.size]):
            found.setdefault(word.upper(), row)
        return found


def known_case(case: str) -> Case:
    """One of `CASES`, by its name.

    Raises:
        InputError: for another name, with the nearest.
    """
    for known in CASES:
        if case == known:
            return known
    raise InputError(f"there is no case {case!r}; {nearest(case, CASES)}")


def check_unknown(unknown: str) -> None:
    """Refuse what is no way to treat unknown words.

    Raises:
        InputError: with the nearest.
    """
    if unknown not in UNKNOWN:
        raise InputError(f"there is no way {unknown!r} to treat unknown words; {nearest(unknown, UNKNOWN)}")


# Files of test sets.


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


def record_line(malformed: MalformedRows, path: Path, number: int, line: str, reason: str) -> None:
    """Count a line that could not be used, with its beginning."""
    malformed.record(MalformedRow(file=str(path), line=number, reason=reason, detail=repr(line[:60])))


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
