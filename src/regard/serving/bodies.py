"""Bodies of requests: JSON read strictly into a class, and what is wrong with one as a sentence that begins with the field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from regard.errors import InputError, nearest
from regard.reading import as_object, parse_json


class WrongBody(InputError):
    """A body is not what a route reads.

    Arguments:
        message: a sentence.
        field: that it is about, by its whole path; None for the body.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def read_body(body: bytes, wanted: type[Any]) -> Any:
    """A JSON object as a struct.

    Raises:
        WrongBody: for what is no JSON object, has a field that there is not, or one twice, or a value that there may not be.

    >>> class Sum(msgspec.Struct, forbid_unknown_fields=True):
    ...     terms: list[int]
    >>> read_body(b'{"terms": [1, 2]}', Sum)
    Sum(terms=[1, 2])
    >>> read_body(b'{"term": [1, 2]}', Sum)
    Traceback (most recent call last):
        ...
    regard.serving.bodies.WrongBody: the body: there is no field 'term'; did you mean 'terms'?
    """
    names = [field.encode_name for field in msgspec.structs.fields(wanted) if field.required]
    advice = f"send an object with {' and '.join(map(repr, names))}" if names else "send an object"
    try:
        value = as_object(parse_json(body, "the body", advice), "the body", advice)
    except InputError as error:
        raise WrongBody(str(error)) from None
    try:
        found = msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        if "got `float`" not in str(error):
            raise _wrong(wanted, str(error)) from None
        value = _whole(value)  # 2.0 is a whole number in JSON, as 2 is
        try:
            found = msgspec.convert(value, wanted)
        except msgspec.ValidationError as other:
            raise _wrong(wanted, str(other)) from None
    try:
        msgspec.msgpack.encode(value)  # as it is sent on to the engine
    except OverflowError:
        place = next(_too_large(value, ""))
        raise WrongBody(f"{place}: is a number of more than 64 bits; change it", place) from None
    return found


def _whole(value: Any) -> Any:
    """The same with whole numbers for floats that are some."""
    if isinstance(value, dict):
        return {name: _whole(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_whole(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _too_large(value: Any, place: str) -> Iterator[str]:
    """Where a number is of more than 64 bits."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _too_large(part, f"{place}.{name}".lstrip("."))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _too_large(part, f"{place}[{number}]")
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield place


def _wrong(wanted: type[Any], message: str) -> WrongBody:
    """A message of msgspec's as a sentence that begins with the field."""
    what, _, path = message.partition(" - at ")
    place = path.rpartition("`$")[2].rstrip("`").lstrip(".")
    where = place or "the body"
    if name := re.fullmatch("Object contains unknown field `(.*)`", what, re.DOTALL):
        return WrongBody(
            f"{where}: there is no field {name[1]!r:.80}; {nearest(name[1], field_names(wanted, place))}",
            ".".join(filter(None, (place, name[1][:80]))),
        )
    if name := re.fullmatch("Object missing required field `(.*)`", what):
        return WrongBody(f"{where}: the field {name[1]!r} is missing; add it", ".".join(filter(None, (place, name[1]))))
    if "matching regex" in what:
        return WrongBody(f"{where}: is empty; give a text", place or None)
    what = " ".join(what.replace("`", "").split())  # it may quote what was sent
    return WrongBody(f"{where}: {what[:1].lower()}{what[1:]}; change it", place or None)


def field_names(hint: Any, place: str) -> list[str]:
    """The names of the fields of the object at a place, or of all that it may be."""
    structs = list(_structs(hint))
    for name in re.findall(r"[^.\[\]]+(?![^\[]*\])", place):
        fields = [each for struct in structs for each in msgspec.structs.fields(struct) if each.encode_name == name]
        structs = [struct for each in fields for struct in _structs(each.type)]
    return sorted({each.encode_name for struct in structs for each in msgspec.structs.fields(struct)})


def _structs(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """The objects that a value may be, or a part of a list."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    else:
        for part in get_args(hint):
            yield from _structs(part)
