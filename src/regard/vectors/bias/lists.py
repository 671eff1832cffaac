"""Word lists for audits: a few that every textbook has, and files of one's own."""

from __future__ import annotations

import re
from os import PathLike, fspath
from typing import Any

from regard.data.lines import open_file, reading_errors
from regard.errors import InputError
from regard.reading import json_value_at

WordSet = tuple[str, ...]

GENDER_PAIRS: tuple[WordSet, ...] = (
    ("woman", "man"),
    ("she", "he"),
    ("her", "his"),
    ("girl", "boy"),
    ("mother", "father"),
    ("daughter", "son"),
    ("female", "male"),
    ("herself", "himself"),
)
"""Pairs of words that differ in gender and little else; for a first look."""

OCCUPATIONS: WordSet = (
    *("accountant", "architect", "artist", "baker", "carpenter", "chef", "cleaner", "clerk", "dancer", "dentist"),
    *("doctor", "driver", "economist", "editor", "electrician", "engineer", "farmer", "hairdresser", "journalist"),
    *("judge", "lawyer", "librarian", "manager", "mechanic", "nurse", "painter", "pilot", "plumber", "poet"),
    *("programmer", "receptionist", "scientist", "secretary", "singer", "soldier", "surgeon", "teacher", "writer"),
)
"""Occupations whose English names do not tell a gender; for a first look."""

_BETWEEN = re.compile(r"[\s,;]+")
"""What stands between words on a line of text."""

LARGEST = 1 << 26
"""Bytes; a larger file is no word list."""


def read_word_sets(path: str | PathLike[str]) -> tuple[WordSet, ...]:
    """Pairs, or larger sets, of words: a JSON list of lists, or a set a line, its words between spaces, commas or semicolons.

    Raises:
        InputError: for a file that cannot be read, or a set of fewer than two words.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "pairs.json"
    >>> _ = file.write_text('[["woman", "man"], ["she", "he"]]')
    >>> read_word_sets(file)
    (('woman', 'man'), ('she', 'he'))
    """
    name = fspath(path)
    sets = []
    for where, entry in _entries(name):
        words = _words(entry, f"{name}, {where}")
        if len(set(words)) < 2:
            raise InputError(
                f"{name}, {where}: is {' '.join(words)!r:.60}; give two words or more that differ: a line such as woman man, "
                'or JSON such as [["woman", "man"], ["she", "he"]]'
            )
        sets.append(tuple(dict.fromkeys(words)))
    return tuple(sets)


def read_words(path: str | PathLike[str]) -> WordSet:
    """Words: a JSON list of them, or a word a line; numbers after a word are not read. Each once.

    Raises:
        InputError: for a file that cannot be read, has no words, or two words in an entry.
    """
    name = fspath(path)
    found = []
    for where, entry in _entries(name):
        first, *others = _words(entry, f"{name}, {where}")
        second = next((word for word in others if not _is_number(word)), None)
        if second is not None:
            raise InputError(
                f"{name}, {where}: has the words {first!r:.40} and {second!r:.40}; give one word a line, or JSON such as "
                '["nurse", "smith"], and a word of several parts as the vectors have it, such as police_officer'
            )
        found.append(first)
    return tuple(dict.fromkeys(found))


def read_values(path: str | PathLike[str], wanted: str = "a file of JSON") -> list[Any]:
    """The JSON values of a file, one after another, each on one line or on several.

    Arguments:
        path: of the file.
        wanted: what an error asks for.

    Raises:
        InputError: for a file that cannot be read, or is no JSON.
    """
    name = fspath(path)
    text, place, values = _text(name), 0, []
    while (place := _next(text, place)) < len(text):
        try:
            value, place = json_value_at(text, place)
        except ValueError as error:
            line = text.count("\n", 0, place) + 1
            raise InputError(f"{name}, line {line}: is not JSON ({error}); give {wanted}") from None
        values.append(value)
    if not values:
        raise InputError(f"{name}: is empty; give {wanted}")
    return values


def _entries(name: str) -> list[tuple[str, Any]]:
    """The entries of a JSON list, or the words of each line, each with where it stands."""
    text = _text(name)
    if text.lstrip()[:1] in ("[", "{"):
        values = read_values(name)
        if len(values) != 1 or not isinstance(values[0], list):
            raise InputError(f"{name}: is no JSON list; give one list of words, or of lists of words")
        entries = [(f"entry {number}", each) for number, each in enumerate(values[0], start=1)]
    else:
        lines = text.splitlines()
        split = [(f"line {number}", _BETWEEN.split(line.strip())) for number, line in enumerate(lines, start=1)]
        entries = [(where, found) for where, words in split if (found := [word for word in words if word])]
    if not entries:
        raise InputError(f"{name}: has no words; give a JSON list, or a line for each entry")
    return entries


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _words(entry: Any, where: str) -> list[str]:
    """The words of an entry; numbers of JSON that stand behind them are left out."""
    words = [entry] if isinstance(entry, str) else entry
    if not isinstance(words, list) or not words or not isinstance(words[0], str):
        raise InputError(f"{where}: is {str(entry)!r:.60}; give a word, or a list of words")
    return [word for word in words if isinstance(word, str)]


def _text(name: str) -> str:
    with reading_errors(name, lambda: "its beginning"), open_file(name) as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InputError(f"{name}: is larger than {LARGEST >> 20} MiB, and a word list is not; give another file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: is no UTF-8 text (byte {error.start:,}); give a text file") from None


def _next(text: str, place: int) -> int:
    while place < len(text) and (text[place].isspace() or text[place] == "\x1e"):
        place += 1
    return place
