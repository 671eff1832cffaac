"""Checks of numbers that people give: field, value, allowed range, remedy."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Real

from regard.errors import InputError


def whole(field: str, value: object, *, least: int, most: int | None = None) -> None:
    """Raise unless `value` is a whole number of at least `least`, and at most `most` where that is given.

    >>> whole("beam", 4, least=1)
    >>> whole("beam", 0, least=1)
    Traceback (most recent call last):
        ...
    regard.errors.InputError: beam: 0 will not do; give a whole number of at least 1
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{field}: {value!r} will not do; give a whole number of at least {least}")
    if most is not None and value > most:
        raise InputError(f"{field}: {value} will not do; give a whole number of at most {most}")


def number(
    field: str, value: object, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf
) -> None:
    """Raise unless `value` is a finite number, greater than `above`, at least `least` and at most `most`.

    >>> number("top_p", 0, above=0, most=1)
    Traceback (most recent call last):
        ...
    regard.errors.InputError: top_p: 0 will not do; give a finite number above 0 and at most 1
    """
    proper = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if proper and above < value and least <= value <= most:  # type: ignore[operator]
        return
    bounds = [
        f"{words} {bound:g}"
        for words, bound in (("above", above), ("at least", least), ("at most", most))
        if math.isfinite(bound)
    ]
    raise InputError(f"{field}: {value!r} will not do; give a finite number " + " and ".join(bounds))


def one_of(field: str, value: object, choices: Collection[str]) -> None:
    """Raise unless `value` is one of the choices.

    >>> one_of("search_end", "proof", ("proof", "estimate"))
    """
    if value not in choices:
        raise InputError(f"{field}: {value!r} will not do; give one of {', '.join(choices)}")


def truth(field: str, value: object) -> None:
    """Raise unless `value` is true or false.

    >>> truth("sample", True)
    """
    if not isinstance(value, bool):
        raise InputError(f"{field}: {value!r} will not do; give true or false")
