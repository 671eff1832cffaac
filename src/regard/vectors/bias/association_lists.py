"""What an association test compares: two sets of target words, two of attribute words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.vectors.bias.lists import read_values

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
