"""An attention view as JSON text, and back."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict
from typing import Any

from regard.errors import InputError
from regard.inspection.patches import Patches
from regard.inspection.view import AttentionMap, AttentionView
from regard.reading import as_object, parse_json

FORMAT_VERSION = 2
FIRST_FIELDS = ("address", "kind", "example", "query_tokens", "key_tokens", "weights")
LATER_FIELDS = ("query_words", "key_words", "query_patches", "key_patches")  # since version 2
HINT = "give what to_json wrote"


def written(view: AttentionView) -> str:
    """The text that `read` gives back an equal view from."""
    maps = [
        {
            "address": item.address,
            "kind": item.kind,
            "example": item.example,
            "query_tokens": item.query_tokens,
            "key_tokens": item.key_tokens,
            "query_words": item.query_words,
            "key_words": item.key_words,
            "query_patches": item.query_patches and asdict(item.query_patches),
            "key_patches": item.key_patches and asdict(item.key_patches),
            "weights": [[[_nine_digits(x) for x in row] for row in head] for head in item.weights],
        }
        for item in view.maps
    ]
    value = {
        "format_version": FORMAT_VERSION,
        "title": view.title,
        "note": view.note,
        "examples": view.examples,
        "images": [image and base64.b64encode(image).decode("ascii") for image in view.images],
        "maps": maps,
    }
    return json.dumps(value)


def read(text: str | bytes) -> AttentionView:
    """The view in a text that this version or an earlier one wrote.

    Raises:
        InputError: the text is not one.

    """
    value = as_object(parse_json(text, "attention view", HINT), "attention view", HINT)
    version = value.get("format_version")
    if version not in (1, FORMAT_VERSION) or isinstance(version, bool):
        raise InputError(
            f"attention view: format_version is {version!r}, this version reads 1 to {FORMAT_VERSION}; "
            "write the view again"
        )
    names = ["format_version", "title", "note", "examples", "maps"]
    fields = _fields(value, names if version == 1 else [*names, "images"], "attention view")
    for name in ("maps", "images"):
        if not isinstance(fields.get(name, []), list):
            raise InputError(f"attention view: {name!r} is not a list; {HINT}")
    maps = [_map(item, f"map {i}", version) for i, item in enumerate(fields["maps"])]
    images = tuple(_image(image, f"image {i}") for i, image in enumerate(fields.get("images", ())))
    return AttentionView(
        title=fields["title"], note=fields["note"], examples=fields["examples"], maps=tuple(maps), images=images
    )


def _map(value: Any, where: str, version: int) -> AttentionMap:
    fields = _fields(value, [*FIRST_FIELDS, *(LATER_FIELDS if version > 1 else ())], where)
    for name in ("query_patches", "key_patches"):
        if fields.get(name) is not None:
            fields[name] = Patches(**_fields(fields[name], ["rows", "columns", "first"], f"{where}: {name}"))
    return AttentionMap(**fields)


def _image(value: Any, where: str) -> bytes | None:
    if value is None:
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InputError(f"{where}: this is not base64; {HINT}") from None


def _nine_digits(weight: float) -> float:
    # Nine digits name a float32 uniquely, and are half as long as the digits of the float64 it would become.
    return float(f"{weight:.9g}")


def _fields(value: Any, names: list[str], where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(names):
        found = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
        raise InputError(f"{where}: has {found or 'nothing'}, needs {', '.join(names)}; {HINT}")
    return {name: value[name] for name in names}
