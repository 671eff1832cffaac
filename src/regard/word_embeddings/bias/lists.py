"""Word lists for bias audits: builtin lists, lists from files, association tests, and looking up their vectors."""

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
"""Pairs of words that differ mainly in gender, for a first look."""

OCCUPATIONS: WordSet = (
    *("accountant", "architect", "artist", "baker", "carpenter", "chef", "cleaner", "clerk", "dancer", "dentist"),
    *("doctor", "driver", "economist", "editor", "electrician", "engineer", "farmer", "hairdresser", "journalist"),
    *("judge", "lawyer", "librarian", "manager", "mechanic", "nurse", "painter", "pilot", "plumber", "poet"),
    *("programmer", "receptionist", "scientist", "secretary", "singer", "soldier", "surgeon", "teacher", "writer"),
)
"""Occupations whose English names do not indicate a gender, for a first look."""

NAMED = 8
"""The most words, or sets of words, that a message lists. The JSON output has all words without a vector."""

_BETWEEN = re.compile(r"[\s,;]+")
"""The separator of words on a line."""

LARGEST = 1 << 26
"""The most bytes of a word list."""


def read_word_sets(path: str | PathLike[str], *, say: Callable[[str], None] | None = None) -> tuple[WordSet, ...]:
    """Read pairs or larger sets of words: a JSON list of lists, or one set per line, separated by spaces, commas or semicolons.

    A line that begins with # is a comment. Duplicate sets (in any word order) are kept, because a bias direction counts each,
    and reported.

    Arguments:
        path: the path of the file.
        say: is called with a sentence about duplicate sets; None to issue a Python warning.

    Raises:
        InputError: if the file cannot be read, a set has fewer than two different words, or a line has a # after words.

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
                f"{name}, {where}: is {' '.join(words)!r:.60}; give at least two different words: a line such as woman man, "
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
    """Read words: a JSON list, or one word per line; numbers after a word are ignored. Duplicates are removed.

    A line that begins with # is a comment.

    Raises:
        InputError: if the file cannot be read, has no words, or has two words in an entry.
    """
    name = fspath(path)
    found = []
    for where, entry in _entries(name):
        first, *others = _words_of_entry(entry, f"{name}, {where}")
        second = next((word for word in others if not _is_number(word)), None)
        if second is not None:
            raise InputError(
                f"{name}, {where}: has the words {first!r:.40} and {second!r:.40}; give one word per line, or JSON such as "
                '["nurse", "smith"], and write a compound as the vectors do, such as police_officer'
            )
        found.append(first)
    return tuple(dict.fromkeys(found))


def read_values(path: str | PathLike[str], wanted: str = "a file of JSON") -> list[Any]:
    """The JSON values in a file, which may be several, each on one or more lines.

    Arguments:
        path: the path of the file.
        wanted: the content that messages ask for.

    Raises:
        InputError: if the file cannot be read, is empty, or is not JSON.
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
    """The entries of a JSON list, or the words of each line, each with its location in the file."""
    text = _text(name)
    if text.lstrip()[:1] in ("[", "{"):
        values = read_values(name)
        if len(values) != 1 or not isinstance(values[0], list):
            raise InputError(f"{name}: is not a JSON list; give one list of words, or of lists of words")
        entries = [(f"entry {number}", each) for number, each in enumerate(values[0], start=1)]
    else:
        lines = [(f"line {number}", line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
        split = [(where, _BETWEEN.split(line)) for where, line in lines if not line.startswith("#")]
        entries = [(where, found) for where, words in split if (found := [word for word in words if word])]
        behind = next((where for where, words in entries if "#" in words), None)
        if behind is not None:
            raise InputError(f"{name}, {behind}: has a # after its words; put the comment on its own line")
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
    """The words of an entry, without numbers after them."""
    words = [entry] if isinstance(entry, str) else entry
    if not isinstance(words, list) or not words or not isinstance(words[0], str):
        raise InputError(f"{where}: is {str(entry)!r:.60}; give a word, or a list of words")
    return [word for word in words if isinstance(word, str)]


def _text(name: str) -> str:
    with reading_errors(name, lambda: "its beginning"), open_file(name) as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InputError(f"{name}: is larger than {LARGEST >> 20} MiB, too large for a word list; give another file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: is not UTF-8 text (byte {error.start:,}); give a text file") from None


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
"""The possible keys of the four sets in files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedWords:
    """A named list of words or sentences.

    Arguments:
        name: the name, such as "flowers".
        words: the words; duplicates are removed.

    Raises:
        InputError: for no words, or a word that is not a non-empty text.
    """

    name: str
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        bad = next((word for word in self.words if not isinstance(word, str) or not word.strip()), None)
        if bad is not None:
            raise InputError(f"{self.name}: has the word {bad!r}; give texts that are not empty")
        if not self.words:
            raise InputError(f"{self.name}: has no words; give some")
        object.__setattr__(self, "words", tuple(dict.fromkeys(self.words)))  # the dataclass is frozen


@dataclass(frozen=True, kw_only=True, slots=True)
class AssociationTest:
    """A test of whether two sets of target words differ in their association with two sets of attribute words.

    Arguments:
        name: the name of the test.
        targets: X and Y, such as flowers and insects.
        attributes: A and B, such as pleasant and unpleasant. A positive effect associates X with A and Y with B.

    Raises:
        InputError: for a word in both sets of targets, or in both sets of attributes.

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
        """All words of the four sets, each once."""
        return tuple(dict.fromkeys(word for words in (*self.targets, *self.attributes) for word in words.words))


def read_association_tests(path: str | PathLike[str]) -> list[AssociationTest]:
    """Read association tests from a file of JSON objects, in a list or one after another.

    Each object has `targ1`, `targ2`, `attr1` and `attr2` (or `first_target`, `second_target`, `first_attribute` and
    `second_attribute`), and optionally a `name`. Each of the four is a list of words, or an object with a `category` or `name`,
    the words under `examples` or `words`, and optionally words to `remove`.

    Raises:
        InputError: if the file cannot be read, or an object lacks a set; the message names it.
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


# Looking up the words of lists.


@dataclass(frozen=True)
class Presence:
    """Looks up lists of words in word embeddings and reports missing ones. A zero vector counts as missing.

    Arguments:
        vectors: the word embeddings.
        case: how a word is looked up. `lower`: unchanged, or else in lower case. So the names in a published test are found in
            lower-cased vectors, and "Will" is not confused with "will" if both have a vector.

    >>> vectors = WordVectors(words=("amy", "Will", "will"), matrix=np.eye(3, dtype=np.float32))
    >>> Presence(vectors).of(["Amy", "Will", "Zoe"]), Presence(vectors, "exact").of(["Amy", "Will", "Zoe"])
    (('amy', 'Will'), ('Will',))
    """

    vectors: WordVectors
    case: Case = "lower"

    @property
    def name(self) -> str:
        """The name of the vectors."""
        return self.vectors.name

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(vectors=self.vectors, case=self.case)

    def form(self, word: str) -> str | None:
        """The spelling under which a word has a vector that is not zero, such as "amy" for "Amy"; None if there is none."""
        row = self._lookup.row(word)
        form = word if row is None else self.vectors.words[row]
        found = self.vectors.get(form)
        return form if found is not None and bool(found.any()) else None

    def forms(self, words: Iterable[str]) -> dict[str, str]:
        """The spelling of each word that has a vector; of several words with the same spelling only the first is included."""
        first: dict[str, str] = {}
        found: dict[str, str] = {}
        for word in words:
            form = self.form(word)
            if form is not None and first.setdefault(form, word) == word:
                found[word] = form
        return found

    def of(self, words: Iterable[str]) -> tuple[str, ...]:
        """The spellings of the words that have a vector, in order, each once."""
        return tuple(self.forms(words).values())

    def missing(self, words: Iterable[str]) -> tuple[str, ...]:
        """The words without a vector, unchanged."""
        return tuple(word for word in words if self.form(word) is None)

    def vectors_of(self, words: Sequence[str]) -> Numbers:
        """The unit vectors of words that all have a vector, (n, W) float64."""
        return unit64(self.vectors.of(words).astype(np.float64))


def rows_of(vectors: WordVectors, words: Iterable[str]) -> list[int]:
    """The rows of the words that are in the table (unchanged, or else in lower case), each once.

    >>> rows_of(WordVectors(words=("mary", "she"), matrix=np.eye(2, dtype=np.float32)), ["Mary", "mary", "he"])
    [0]
    """
    lookup = Lookup(vectors=vectors, case="lower")
    return list(dict.fromkeys(row for row in map(lookup.row, words) if row is not None))


def missing_words_note(what: str, missing: Sequence[str], total: int) -> tuple[str, ...]:
    """A sentence about the words of a list that have no vector, listing the first ones; empty if all have a vector.

    >>> missing_words_note("occupations", ["smith"], 3)
    ('occupations: 1 of 3 has no vector: smith',)
    """
    if not missing:
        return ()
    more = f" and {len(missing) - NAMED:,} more" if len(missing) > NAMED else ""
    have = "has" if len(missing) == 1 else "have"
    return (f"{what}: {len(missing):,} of {total:,} {have} no vector: {', '.join(missing[:NAMED])}{more}",)


def unit64(vectors: NDArray[np.floating]) -> Numbers:
    """Vectors (..., W) divided by their norms, in float64; zero vectors stay zero.

    >>> unit64(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    wide = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    return wide / np.where(lengths > 0, lengths, 1.0)
