"""Bodies of requests: JSON decoded strictly into a class; errors are sentences that begin with the field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from regard.errors import InputError, nearest
from regard.reading import as_object, parse_json


class WrongBody(InputError):
    """A body that a route cannot use.

    Arguments:
        message: a sentence.
        field: the path of the field it is about; None for the whole body.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def read_body(body: bytes, wanted: type[Any]) -> Any:
    """Decode a JSON object into a struct.

    Arguments:
        body: JSON in UTF-8.
        wanted: the class of the struct.

    Raises:
        WrongBody: for a body that is no JSON object, or that has an unknown field, a field twice, or a value of a wrong kind.

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
        value = _whole(value)  # JSON does not distinguish 2.0 from 2
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
    """The same value, with floats that are whole numbers as integers."""
    if isinstance(value, dict):
        return {name: _whole(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_whole(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _too_large(value: Any, place: str) -> Iterator[str]:
    """The paths of numbers with more than 64 bits."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _too_large(part, f"{place}.{name}".lstrip("."))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _too_large(part, f"{place}[{number}]")
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield place


def _wrong(wanted: type[Any], message: str) -> WrongBody:
    """A message of msgspec as a sentence that begins with the field."""
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
    what = " ".join(what.replace("`", "").split())  # the message may quote the value sent
    return WrongBody(f"{where}: {what[:1].lower()}{what[1:]}; change it", place or None)


def field_names(hint: Any, place: str) -> list[str]:
    """The names of the fields of the object at a path, or of all objects that may be there."""
    structs = list(_structs(hint))
    for name in re.findall(r"[^.\[\]]+(?![^\[]*\])", place):
        fields = [each for struct in structs for each in msgspec.structs.fields(struct) if each.encode_name == name]
        structs = [struct for each in fields for struct in _structs(each.type)]
    return sorted({each.encode_name for struct in structs for each in msgspec.structs.fields(struct)})


def _structs(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """The structs that a value may be, or may contain."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    else:
        for part in get_args(hint):
            yield from _structs(part)
