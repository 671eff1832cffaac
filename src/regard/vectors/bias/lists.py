"""Word lists for audits: a few that every textbook has, and files of one's own."""

from __future__ import annotations

from collections.abc import Iterator
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

LARGEST = 1 << 26
"""Bytes; a larger file is no word list."""


def read_word_sets(path: str | PathLike[str]) -> tuple[WordSet, ...]:
    """Pairs, or larger sets, of words: a JSON list of lists, or lines with the words of a set between spaces.

    Raises:
        InputError: for a file that cannot be read, or a set of fewer than two words.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "pairs.json"
    >>> _ = file.write_text('[["woman", "man"], ["she", "he"]]')
    >>> read_word_sets(file)
    (('woman', 'man'), ('she', 'he'))
    """
    name = fspath(path)
    found = [_words(each, f"{name}, set {number}") for number, each in enumerate(_entries(name), start=1)]
    for number, words in enumerate(found, start=1):
        if len(set(words)) < 2:
            raise InputError(f"{name}, set {number}: is {' '.join(words)!r}; give two words or more that differ")
    return tuple(tuple(dict.fromkeys(words)) for words in found)


def read_words(path: str | PathLike[str]) -> WordSet:
    """Words: a JSON list of them, or of lists that begin with one, or lines of text; each once.

    Raises:
        InputError: for a file that cannot be read, or has no words.
    """
    return tuple(dict.fromkeys(_words(each, f"{fspath(path)}, entry {n}")[0] for n, each in _numbered(fspath(path))))


def read_values(path: str | PathLike[str]) -> list[Any]:
    """The JSON values of a file, one after another, each on one line or on several.

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
            raise InputError(f"{name}, line {line}: is not JSON ({error}); give a file of JSON") from None
        values.append(value)
    if not values:
        raise InputError(f"{name}: is empty; give a file of JSON")
    return values


def _numbered(name: str) -> Iterator[tuple[int, Any]]:
    return enumerate(_entries(name), start=1)


def _entries(name: str) -> list[Any]:
    """The entries of a JSON list, or the words of each line."""
    text = _text(name).strip()
    if text[:1] in ("[", "{"):
        values = read_values(name)
        if len(values) != 1 or not isinstance(values[0], list):
            raise InputError(f"{name}: is no JSON list; give one list of words, or of lists of words")
        entries = values[0]
    else:
        entries = [line.split() for line in text.splitlines() if line.strip()]
    if not entries:
        raise InputError(f"{name}: has no words; give a JSON list, or a line for each entry")
    return entries


def _words(entry: Any, where: str) -> list[str]:
    """The words of an entry; numbers that stand behind them are left out."""
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
