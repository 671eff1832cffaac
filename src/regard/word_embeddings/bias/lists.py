"""Word lists for audits: built-in ones, files of one's own, the lists of association tests, and which words have vectors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.lines import open_file, reading_errors
from regard.errors import InputError
from regard.reading import json_value_at
from regard.word_embeddings.evaluation.similarity import Case, Lookup
from regard.word_embeddings.store import WordVectors

WordSet = tuple[str, ...]
Numbers = NDArray[np.float64]

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

NAMED = 8
"""Words, or sets of them, that a sentence names; JSON has all that have no vector."""

_BETWEEN = re.compile(r"[\s,;]+")
"""What is between words on a line of text."""

LARGEST = 1 << 26
"""Bytes; a larger file is no word list."""


def read_word_sets(path: str | PathLike[str], *, say: Callable[[str], None] | None = None) -> tuple[WordSet, ...]:
    """Pairs, or larger sets, of words: a JSON list of lists, or a set a line, its words between spaces, commas or semicolons.

    A line of text that begins with # is a comment. Sets that are given again, in whatever order, are kept and said: a direction
    counts each.

    Arguments:
        path: of the file.
        say: gets a sentence about sets that are given again; None for a Python warning.

    Raises:
        InputError: for a file that cannot be read, a set of fewer than two words, or a # behind words.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "pairs.json"
    >>> _ = file.write_text('[["woman", "man"], ["she", "he"]]')
    >>> read_word_sets(file)
    (('woman', 'man'), ('she', 'he'))
    """
    name = fspath(path)
    sets: list[WordSet] = []
    first: dict[frozenset[str], str] = {}
    again: list[str] = []
    for where, entry in _entries(name):
        words = _words_of_entry(entry, f"{name}, {where}")
        if len(set(words)) < 2:
            raise InputError(
                f"{name}, {where}: is {' '.join(words)!r:.60}; give two words or more that differ: a line such as woman man, "
                'or JSON such as [["woman", "man"], ["she", "he"]]'
            )
        sets.append(tuple(dict.fromkeys(words)))
        same = first.setdefault(frozenset(words), where)
        if same != where:
            again.append(f"{' '.join(sets[-1])} ({where}, as {same})")
    if again:
        more = f" and {len(again) - NAMED:,} more" if len(again) > NAMED else ""
        sentence = f"{name}: {len(again):,} of {len(sets):,} sets are given again: {', '.join(again[:NAMED])}{more}"
        if say is None:
            warnings.warn(sentence, stacklevel=2)
        else:
            say(sentence)
    return tuple(sets)


def read_words(path: str | PathLike[str]) -> WordSet:
    """Words: a JSON list of them, or a word a line; numbers after a word are not read. Each once.

    A line of text that begins with # is a comment.

    Raises:
        InputError: for a file that cannot be read, has no words, or two words in an entry.
    """
    name = fspath(path)
    found = []
    for where, entry in _entries(name):
        first, *others = _words_of_entry(entry, f"{name}, {where}")
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
        lines = [(f"line {number}", line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
        split = [(where, _BETWEEN.split(line)) for where, line in lines if not line.startswith("#")]
        entries = [(where, found) for where, words in split if (found := [word for word in words if word])]
        behind = next((where for where, words in entries if "#" in words), None)
        if behind is not None:
            raise InputError(f"{name}, {behind}: has a # behind its words; give a comment a line of its own")
    if not entries:
        raise InputError(f"{name}: has no words; give a JSON list, or a line for each entry")
    return entries


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _words_of_entry(entry: Any, where: str) -> list[str]:
    """The words of an entry; numbers of JSON that are behind them are left out."""
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


# Association tests: two sets of target words, two of attribute words.

KEYS: tuple[tuple[str, ...], ...] = (
    ("targ1", "first_target"),
    ("targ2", "second_target"),
    ("attr1", "first_attribute"),
    ("attr2", "second_attribute"),
)
"""What the four sets are called in files, one way or another."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedWords:
    """Some words, or sentences, under a name.

    Arguments:
        name: such as "flowers".
        words: each once; one said twice is kept once.

    Raises:
        InputError: for none, or what is no text.
    """

    name: str
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        bad = next((word for word in self.words if not isinstance(word, str) or not word.strip()), None)
        if bad is not None:
            raise InputError(f"{self.name}: has the word {bad!r}; give texts that are not empty")
        if not self.words:
            raise InputError(f"{self.name}: has no words; give some")
        object.__setattr__(self, "words", tuple(dict.fromkeys(self.words)))  # frozen for everybody else


@dataclass(frozen=True, kw_only=True, slots=True)
class AssociationTest:
    """Whether two sets of targets differ in how near they are to two sets of attributes.

    Arguments:
        name: of the test.
        targets: X and Y, such as flowers and insects.
        attributes: A and B, such as pleasant and unpleasant; a positive effect is X with A.

    Raises:
        InputError: for a word in both sets of targets, or in both of attributes.

    >>> test = AssociationTest(
    ...     name="flowers",
    ...     targets=(NamedWords(name="flowers", words=("rose", "lily")), NamedWords(name="insects", words=("ant", "wasp"))),
    ...     attributes=(NamedWords(name="pleasant", words=("love",)), NamedWords(name="unpleasant", words=("pain",))))
    >>> test.words
    ('rose', 'lily', 'ant', 'wasp', 'love', 'pain')
    """

    name: str
    targets: tuple[NamedWords, NamedWords]
    attributes: tuple[NamedWords, NamedWords]

    def __post_init__(self) -> None:
        for one, other in (self.targets, self.attributes):
            both = next((word for word in one.words if word in set(other.words)), None)
            if both is not None:
                raise InputError(
                    f"test {self.name!r}: {both!r:.60} is both among {one.name} and {other.name}; leave it out of one"
                )

    @property
    def words(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys(word for words in (*self.targets, *self.attributes) for word in words.words))


def read_association_tests(path: str | PathLike[str]) -> list[AssociationTest]:
    """Tests from a file of JSON objects, one after another or in a list.

    Each has `targ1`, `targ2`, `attr1` and `attr2` (or `first_target` ... `second_attribute`), which are lists of words, or
    objects with a `category` or `name`, the `examples` or `words`, and perhaps words to `remove`; and perhaps a `name`.

    Raises:
        InputError: for a file that cannot be read, or an object that lacks a set, naming it.
    """
    values = read_values(path, "JSON objects with the lists targ1, targ2, attr1 and attr2")
    objects = [each for value in values for each in (value if isinstance(value, list) else [value])]
    stem = Path(path).name.split(".")[0]
    names = [stem] if len(objects) == 1 else [f"{stem} {number}" for number in range(1, len(objects) + 1)]
    return [_test(each, name, str(path)) for each, name in zip(objects, names, strict=True)]


def _test(values: Any, name: str, path: str) -> AssociationTest:
    if not isinstance(values, Mapping):
        raise InputError(f"{path}: {name} is {str(values)!r:.60}; give an object with targ1, targ2, attr1 and attr2")
    first, second, one, other = (_set(values, keys, f"{path}, {name}") for keys in KEYS)
    called = values.get("name")
    name = called if isinstance(called, str) and called else name
    return AssociationTest(name=name, targets=(first, second), attributes=(one, other))


def _set(values: Mapping[str, Any], keys: Sequence[str], where: str) -> NamedWords:
    key = next((key for key in keys if key in values), None)
    if key is None:
        raise InputError(f"{where}: has no {keys[0]}; give targ1, targ2, attr1 and attr2")
    found, name, removed = values[key], key, []
    if isinstance(found, Mapping):
        name = str(found.get("category", found.get("name", key)))
        removed = found.get("remove", [])
        found = found.get("examples", found.get("words"))
    if not isinstance(found, list) or not isinstance(removed, list):
        raise InputError(f"{where}: {key} is {str(found)!r:.60}; give a list of words")
    try:
        return NamedWords(name=name, words=tuple(word for word in found if word not in removed))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


# Which words of a list have a vector, and those vectors.


@dataclass(frozen=True)
class Presence:
    """Vectors, asked for lists of words some of which they may lack; a vector of zeros has no direction, and counts as none.

    Arguments:
        vectors: of words.
        case: how a word is found. `lower`: as it is written, or else in lower case, so that the names of a published test are
            found in lower-cased vectors, and "Will" is not taken for "will" where both have a vector.

    >>> vectors = WordVectors(words=("amy", "Will", "will"), matrix=np.eye(3, dtype=np.float32))
    >>> Presence(vectors).of(["Amy", "Will", "Zoe"]), Presence(vectors, "exact").of(["Amy", "Will", "Zoe"])
    (('amy', 'Will'), ('Will',))
    """

    vectors: WordVectors
    case: Case = "lower"

    @property
    def name(self) -> str:
        """Of the vectors."""
        return self.vectors.name

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(vectors=self.vectors, case=self.case)

    def form(self, word: str) -> str | None:
        """The form of the word that has a vector other than zero, such as "amy" for "Amy"; None where none has."""
        row = self._lookup.row(word)
        form = word if row is None else self.vectors.words[row]
        found = self.vectors.get(form)
        return form if found is not None and bool(found.any()) else None

    def forms(self, words: Iterable[str]) -> dict[str, str]:
        """The form of each word that has a vector, by the word; of several words with one form only the first."""
        first: dict[str, str] = {}
        found: dict[str, str] = {}
        for word in words:
            form = self.form(word)
            if form is not None and first.setdefault(form, word) == word:
                found[word] = form
        return found

    def of(self, words: Iterable[str]) -> tuple[str, ...]:
        """The forms of those that have a vector, in their order, each once."""
        return tuple(self.forms(words).values())

    def missing(self, words: Iterable[str]) -> tuple[str, ...]:
        """Those that have none, as they were written."""
        return tuple(word for word in words if self.form(word) is None)

    def vectors_of(self, words: Sequence[str]) -> Numbers:
        """The unit word embeddings that all have one, (n, W) float64."""
        return unit64(self.vectors.of(words).astype(np.float64))


def rows_of(vectors: WordVectors, words: Iterable[str]) -> list[int]:
    """The rows of those words that are in the table itself, each once: as they are written, or else in lower case.

    >>> rows_of(WordVectors(words=("mary", "she"), matrix=np.eye(2, dtype=np.float32)), ["Mary", "mary", "he"])
    [0]
    """
    lookup = Lookup(vectors=vectors, case="lower")
    return list(dict.fromkeys(row for row in map(lookup.row, words) if row is not None))


def said_missing(what: str, missing: Sequence[str], total: int) -> tuple[str, ...]:
    """A sentence about those words of a list that have no vector, with the first of their names; none where all have one.

    >>> said_missing("occupations", ["smith"], 3)
    ('occupations: 1 of 3 has no vector: smith',)
    """
    if not missing:
        return ()
    more = f" and {len(missing) - NAMED:,} more" if len(missing) > NAMED else ""
    have = "has" if len(missing) == 1 else "have"
    return (f"{what}: {len(missing):,} of {total:,} {have} no vector: {', '.join(missing[:NAMED])}{more}",)


def unit64(vectors: NDArray[np.floating]) -> Numbers:
    """Vectors (..., W) divided by their lengths, in float64; those of zeros stay.

    >>> unit64(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    wide = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    return wide / np.where(lengths > 0, lengths, 1.0)
