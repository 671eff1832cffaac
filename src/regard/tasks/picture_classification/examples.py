"""Pictures with classes, however they were given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.data.labelled_pictures import LabelledPicture
from regard.errors import InputError
from regard.tasks.pictures import Picture, PictureSize, frames_of

Given = Sequence[LabelledPicture | tuple[Picture, str]]
"""Examples in memory: `LabelledPicture`s, or a picture and its class each."""


def listed(examples: Any, what: str) -> list[LabelledPicture]:
    """Examples in memory as `LabelledPicture`s.

    Raises:
        InputError: for what is no list, an empty one, or an example that is none.
    """
    if isinstance(examples, str | np.ndarray) or not isinstance(examples, Sequence) or not examples:
        raise InputError(f"the {what} are {examples!r:.60}; give a list of pictures with their classes")
    return [_example(example, f"example {number}") for number, example in enumerate(examples, start=1)]


def _example(example: Any, name: str) -> LabelledPicture:
    if isinstance(example, LabelledPicture):
        return example
    if not isinstance(example, tuple) or len(example) != 2 or not isinstance(example[1], str):
        raise InputError(f"{name} is {example!r:.60}; give a picture and its class, (picture, 'class')")
    return LabelledPicture(picture=example[0], label=example[1], name=name)


def pixels_of(example: LabelledPicture, size: PictureSize) -> np.ndarray:
    """An example's picture as a model reads it: (1, height, width, channels) uint8.

    Raises:
        InputError: for a picture that cannot be read.
    """
    return frames_of(example.picture, size)
