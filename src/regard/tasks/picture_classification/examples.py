"""Pictures with classes, however they were given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.data.labelled_pictures import LabelledPicture
from regard.data.rows import listed as rows_of
from regard.data.rows import parts_of
from regard.errors import InputError
from regard.tasks.pictures import Picture, PictureSize, frames_of

Given = Sequence[LabelledPicture | tuple[Picture, str] | Mapping[str, Any]]
"""Examples in memory: `LabelledPicture`s, or a picture and its class each, by place or by the names of columns."""


def listed(examples: Any, what: str) -> list[LabelledPicture]:
    """Examples in memory as `LabelledPicture`s.

    Raises:
        InputError: for what is no list, an empty one, or an example that is none.
    """
    rows = rows_of(examples, what, "a picture and its class, (picture, 'class')")
    return [_example(example, f"example {number}") for number, example in enumerate(rows, start=1)]


def _example(example: Any, name: str) -> LabelledPicture:
    if isinstance(example, LabelledPicture):
        return example
    wanted = "a picture and its class, (picture, 'class')"
    picture, label = parts_of(example, name, [["picture", "image"], ["label", "class"]], wanted)
    label = str(label) if type(label) is int and isinstance(example, Mapping) else label
    if not isinstance(label, str):
        raise InputError(f"{name} has the class {label!r:.60}; give {wanted}")
    return LabelledPicture(picture=picture, label=label, name=name)


def pixels_of(example: LabelledPicture, size: PictureSize) -> np.ndarray:
    """An example's picture as a model reads it: (1, height, width, channels) uint8.

    Raises:
        InputError: for a picture that cannot be read.
    """
    return frames_of(example.picture, size)
