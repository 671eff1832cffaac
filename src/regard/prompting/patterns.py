"""Patterns: texts with the names of fields in braces."""

from __future__ import annotations

import re
from collections.abc import Mapping

from regard.errors import InputError, nearest

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def names_in(pattern: str, where: str) -> list[str]:
    """The fields that a pattern asks for, in their order.

    Raises:
        InputError: for a brace that belongs to none.

    >>> names_in("{question} = {answer}", "question")
    ['question', 'answer']
    """
    found = []
    for part in _PART.finditer(pattern):
        name = part[1]
        if part[0] in ("{{", "}}"):
            continue
        if name is None or not name.strip():
            raise InputError(
                f"{where}: {pattern!r} has a brace around no field; write {{{{ or }}}} for the brace itself"
            )
        found.append(name)
    return found


def filled(pattern: str, fields: Mapping[str, object], where: str) -> str:
    """A pattern with the values of fields in it. `{{` and `}}` are the braces themselves.

    Arguments:
        fields: texts or numbers.
        where: what messages call the place.

    Raises:
        InputError: for a field that is not there, with the nearest, or is neither text nor number.

    >>> filled("{a} {{=}} {b}", {"a": "x", "b": 2}, "question")
    'x {=} 2'
    """

    def value(part: re.Match[str]) -> str:
        if part[0] in ("{{", "}}"):
            return part[0][0]
        name = part[1]
        if name not in fields:
            raise InputError(f"{where}: there is no field {name!r}; {nearest(str(name), list(fields))}")
        found = fields[name]
        if isinstance(found, bool) or not isinstance(found, str | int | float):
            raise InputError(
                f"{where}: the field {name!r} is {type(found).__name__}; a pattern takes texts and numbers"
            )
        return str(found)

    names_in(pattern, where)
    return _PART.sub(value, pattern)
