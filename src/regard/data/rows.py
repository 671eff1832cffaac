"""Checks of rows that a user gives in memory, shared by all tasks.

A row is a tuple, whose parts are identified by position, or a mapping, such as a row of the library `datasets`, whose parts are
identified by column name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from regard.data.malformed import MalformedRow, malformed_row, short, text_fault
from regard.data.objects import values_of
from regard.errors import InputError

T = TypeVar("T")


def listed(given: Any, what: str, wanted: str) -> list[Any]:
    """The rows of a list, a generator, a pandas table or a `datasets.Dataset`, as a list.

    Arguments:
        given: the container of rows.
        what: the name of the rows in messages, such as "training examples".
        wanted: the form of a row, for messages, such as "(source, target)".

    Raises:
        InputError: for a single text or mapping, for a value that contains no rows, and for an empty container.

    >>> listed(({"text": word} for word in ("a", "b")), "texts", "a text")
    [{'text': 'a'}, {'text': 'b'}]
    """
    if hasattr(given, "to_dict") and hasattr(
        given, "columns"
    ):  # a pandas table; iterating over it would yield column names
        given = given.to_dict("records")
    if isinstance(given, Mapping) and given and all(hasattr(each, "column_names") for each in given.values()):
        splits = ", ".join(map(str, given))
        raise InputError(
            f"the {what} are several splits ({splits}); give one of them, such as data[{next(iter(given))!r}]"
        )
    if hasattr(given, "with_format") and getattr(given, "features", None):
        given = _with_names(given)
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(f"the {what} are {given!r:.60}; give a list of examples, each {wanted}")
    rows = list(given)
    if not rows:
        raise InputError(f"the {what} are {given!r:.60}; give a list of examples, each {wanted}")
    return rows


def _with_names(dataset: Any) -> Iterator[dict[str, Any]]:
    """The rows of a `datasets.Dataset` as plain values, with class numbers (`ClassLabel`) replaced by class names."""
    names = {}
    for column, feature in dataset.features.items():
        of_each = getattr(feature, "feature", None)  # tags: a list of classes
        found = getattr(feature if of_each is None else of_each, "names", None)
        if found is not None:
            names[column] = list(found)

    def named(value: Any, of: list[str]) -> Any:
        if isinstance(value, list):
            return [named(each, of) for each in value]
        return of[value] if isinstance(value, int) and 0 <= value < len(of) else value  # -1 means no class

    for row in dataset.with_format(None):
        yield {column: named(value, names[column]) if column in names else value for column, value in row.items()}


def parts_of(row: Any, where: str, names: Sequence[Sequence[str]], wanted: str) -> tuple[Any, ...]:
    """The parts of one row, in the order of `names`.

    Arguments:
        row: a tuple or list with exactly these parts; or a mapping that has each part under one of its names (other keys are
            ignored).
        where: the name of the row in messages, such as "example 3".
        names: for each part its possible keys in a mapping; "a.b" means key "b" of the mapping under "a".
        wanted: the form of a row, for messages, such as "(source, target)".

    Raises:
        InputError: for a row of another type or with another number of parts, and for a mapping without a part's key.

    >>> parts_of({"id": 7, "target": "un", "source": "one"}, "pair 1", [["source"], ["target"]], "(source, target)")
    ('one', 'un')
    """
    if isinstance(row, Mapping):
        content = dict(row)
        keys = [next((key for key in each if key in content), each[0]) for each in names]
        found = values_of(where, 1, content, keys)
        if isinstance(found, MalformedRow):
            keys_of_each = ", ".join(" or ".join(map(repr, each)) for each in names)
            raise InputError(
                f"{where} has the columns {short(list(content))}; give {wanted}, or a mapping with {keys_of_each}"
            )
        return tuple(found)
    if isinstance(row, tuple | list) and len(row) == len(names):
        return tuple(row)
    count = f", which has {len(row)} parts" if isinstance(row, tuple | list) else ""
    raise InputError(f"{where} is {short(row)}{count}; give {wanted}, or a mapping by the names of columns")


def sound(found: T | MalformedRow, wanted: str) -> T:
    """The result of reading a row, unless the row is malformed.

    Raises:
        InputError: for a malformed row, naming it.
    """
    if isinstance(found, MalformedRow):
        raise InputError(f"{dataclasses.replace(found, unit='row')}; give {wanted}, or leave the row out")
    return found


def texts_of_rows(given: Any, what: str) -> Iterator[str]:
    """The texts of rows that are texts or mappings with a text under "text"; empty texts are skipped, as empty lines are.

    Raises:
        InputError: for a row that is neither, and if no text is left.
    """
    wanted = 'a text, or a mapping with "text"'
    some = False
    for number, row in enumerate(listed(given, what, wanted), start=1):
        text = parts_of(row, f"text {number}", [["text"]], wanted)[0] if isinstance(row, Mapping) else row
        if isinstance(text, str) and not text.strip():
            continue
        fault = text_fault("text", text)
        if fault is not None:
            sound(malformed_row(what, number, *fault), wanted)
        some = True
        yield str(text)
    if not some:
        raise InputError(f"the {what} are all empty; give some text")
