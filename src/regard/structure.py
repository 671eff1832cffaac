"""Dataclasses from JSON and YAML values, strictly: what is unknown, missing or of another type is one clear error."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from types import MappingProxyType
from typing import Any, TypeVar

from regard.errors import InputError, nearest
from regard.parts import Choice

D = TypeVar("D")

LARGEST_WHOLE = (1 << 63) - 1
"""The largest whole number of a setting: the largest that the libraries beneath take."""


def renamed(**names: str) -> Callable[[type[D]], type[D]]:
    """A decorator for a dataclass some of whose fields had other names in an earlier release, given as old="new".

    Files (`from_mapping`) may use either name. In Python an old name still works as a keyword and as an attribute, with a
    `DeprecationWarning`.

    >>> @renamed(deviation="init_std")
    ... @dataclasses.dataclass(frozen=True)
    ... class Size:
    ...     init_std: float = 0.02
    >>> from_mapping(Size, {"deviation": 0.1}, "config.json")
    Size(init_std=0.1)
    """

    def decorate(kind: type[D]) -> type[D]:
        known = {**getattr(kind, "renamed_fields", {}), **names}
        init = kind.__init__

        def warn(old: str) -> None:
            message = f"{kind.__name__}.{old} is called {known[old]}; use that name"
            warnings.warn(message, DeprecationWarning, stacklevel=3)

        @wraps(init)
        def accepting(self: Any, *args: Any, **settings: Any) -> None:
            for old in known.keys() & settings.keys():
                if known[old] in settings:
                    raise InputError(
                        f"{kind.__name__}: {old} is the old name of {known[old]}, which is given too; give one"
                    )
                warn(old)
                settings[known[old]] = settings.pop(old)
            init(self, *args, **settings)

        def attribute(old: str) -> property:
            def read(self: Any) -> Any:
                warn(old)
                return getattr(self, known[old])

            return property(read, doc=f"The old name of `{known[old]}`.")

        for old in known:
            setattr(kind, old, attribute(old))
        kind.__init__ = accepting  # type: ignore[method-assign]
        kind.renamed_fields = MappingProxyType(known)  # type: ignore[attr-defined]
        return kind

    return decorate


def from_mapping(kind: type[D], values: Mapping[str, Any], where: str) -> D:
    """The dataclass `kind` with its fields taken from `values`, nested dataclasses included.

    Arguments:
        kind: a dataclass.
        values: one entry per field; fields with a default may be left out.
        where: how messages call the place, such as a file's name or a dotted key.

    Raises:
        InputError: for what is no mapping, a missing or unknown key (naming the nearest), or a value of the wrong type.

    >>> @dataclasses.dataclass
    ... class Size:
    ...     width: int
    >>> from_mapping(Size, {"widht": 3}, "model")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: model: unknown key 'widht'; did you mean 'width'?
    """
    if not isinstance(values, Mapping):  # a JSON value that was to be an object
        raise InputError(f"{where} is {values!r}; it must be a mapping of settings")
    known = {part.name: part for part in dataclasses.fields(kind) if part.init}  # type: ignore[arg-type]
    hints = _hints(kind)
    renamed_fields: Mapping[str, str] = getattr(kind, "renamed_fields", {})
    settings: dict[str, Any] = {}
    for given, value in values.items():
        key = renamed_fields.get(given, given)
        if key != given and key in values:
            raise InputError(f"{where}: {given} is the old name of {key}, which is given too; remove {given}")
        if key not in known:
            raise InputError(f"{where}: unknown key {key!r}; {nearest(str(key), sorted(known))}")
        settings[key] = coerced(value, hints[key], f"{where}.{key}")
    missing = [
        name
        for name, part in known.items()
        if name not in settings and part.default is dataclasses.MISSING and part.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise InputError(f"{where}: missing {', '.join(missing)}; add what is missing")
    return kind(**settings)


@lru_cache(maxsize=512)
def _hints(kind: type[Any]) -> dict[str, Any]:
    """Kept, because to read annotations that are text takes a millisecond."""
    return typing.get_type_hints(kind, include_extras=True)


def coerced(value: Any, hint: Any, where: str) -> Any:
    """`value` as the type that `hint` asks for: an int may stand for a float, a list for a tuple, nothing else bends.

    Raises:
        InputError: naming the place, the value and the type wanted.

    >>> coerced(1, float, "dropout"), coerced([1, 2], tuple[int, ...], "sizes")
    (1.0, (1, 2))
    """
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is object:
        return value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if isinstance(value, hint):
            return value
        if isinstance(value, Mapping):
            return from_mapping(hint, value, where)
        raise InputError(f"{where} is {_shown(value)}; it must be a mapping of settings")
    if origin is typing.Annotated:
        choice = options[1]
        return choice.checked(value, where) if isinstance(choice, Choice) else coerced(value, options[0], where)
    if origin is typing.Literal:
        if value in options:
            return value
        wanted = " or ".join(map(repr, options))
        raise InputError(f"{where} is {_shown(value)}; choose {wanted}")
    if origin in (typing.Union, types.UnionType):
        nested = [option for option in options if dataclasses.is_dataclass(option) or typing.get_origin(option) is dict]
        if nested and isinstance(value, Mapping):
            return coerced(value, nested[0], where)
        for option in options:
            try:
                return coerced(value, option, where)
            except InputError:
                continue
        for kind in (float, int):
            if kind in options and type(value) is kind:  # of the right kind, and out of range
                return coerced(value, kind, where)
        raise InputError(f"{where} is {_shown(value)}; it must be {_spoken(hint)}{_quoted(value, hint)}")
    if origin is tuple and isinstance(value, list | tuple):
        if options[1:] != (Ellipsis,) and len(options) != len(value):
            raise InputError(f"{where} is {_shown(value)}; it must be a list of {len(options)}")
        kinds = options[:1] * len(value) if options[1:] == (Ellipsis,) else options
        return tuple(coerced(part, kind, where) for part, kind in zip(value, kinds, strict=True))
    if origin is dict and isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, options[0]):  # YAML reads the word no, which is also Norwegian, as false
                raise InputError(f"{where}: the key {key!r} is not {_spoken(options[0])}; put it in quotes")
        return {key: coerced(part, options[1], f"{where}.{key}") for key, part in value.items()}
    if hint is types.NoneType and value is None:
        return None
    if hint is float and (number := _number(value)) is not None:
        if math.isfinite(number):
            return number
        raise InputError(f"{where} is {_shown(value)}; it must be a finite number")
    kind = origin or hint
    if isinstance(kind, type) and isinstance(value, kind) and not (isinstance(value, bool) and kind is int):
        # A subclass of int stands for a size that is not known yet, which no user gives.
        if type(value) is int and not -LARGEST_WHOLE <= value <= LARGEST_WHOLE:
            raise InputError(f"{where} is {_shown(value)}; whole numbers go up to {LARGEST_WHOLE:,}")
        return value
    raise InputError(f"{where} is {_shown(value)}; it must be {_spoken(hint)}{_quoted(value, hint)}")


def finite(value: Any) -> Any:
    """The same JSON value with null for the numbers that JSON has no word for: NaN and the infinities.

    >>> finite({"loss": float("nan"), "parts": [1.0, float("inf")]})
    {'loss': None, 'parts': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {key: finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(value: Any) -> str:
    """A value as a message shows it: of what is long the beginning."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**60:
        return "a number of more than 60 digits"
    shown = repr(value)
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


def _number(value: Any) -> float | None:
    """A number as a float, also one that YAML gave as text, as it does 1e-3 without a point; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):  # a whole number of hundreds of digits has no float
        return None if isinstance(value, str) else math.inf


def _quoted(value: Any, hint: Any) -> str:
    """What to do where text was meant and YAML, which reads the words yes, no, on and off so, gave true or false."""
    text = isinstance(value, bool) and (hint is str or str in typing.get_args(hint))
    return "; YAML reads yes, no, on and off as true and false, so put such a name in quotes" if text else ""


def _spoken(hint: Any) -> str:
    names = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        types.NoneType: "null",
        dict: "a mapping",
    }
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_spoken(option) for option in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return "a list"
    if dataclasses.is_dataclass(hint):
        return "a mapping of settings"
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    return names.get(typing.get_origin(hint) or hint, str(hint))
