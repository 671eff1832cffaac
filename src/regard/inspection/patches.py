"""Images in a view of attention: as PNG, and the grid of patches that queries or keys are."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.layers import Images

SIGNATURE = b"\x89PNG\r\n\x1a\n"

SMALLEST = 240
"""The smallest height or width of a displayed image, in pixels."""

CLASS = "[CLS]"
"""The name of a vector before those of the patches, as in texts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Patches:
    """The tokens of an axis that are patches of an image: a grid, row by row.

    Arguments:
        rows: patches from top to bottom.
        columns: patches from left to right.
        first: the position of the top left patch's token: 1 if a class token is before the patches.

    Raises:
        InputError: a number is not a whole one, or too small.

    >>> Patches(rows=14, columns=14, first=1).last
    196

    """

    rows: int
    columns: int
    first: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, least in (("rows", 1), ("columns", 1), ("first", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"patches: {name} is {value!r}; give a whole number of at least {least}")

    @property
    def last(self) -> int:
        """The position of the bottom right patch's token."""
        return self.first + self.rows * self.columns - 1


def png(image: Any) -> bytes:
    r"""An image as PNG: PNG bytes unchanged, or an array encoded.

    Arguments:
        image: PNG bytes, or an array of shape (Y, X, 3) of uint8: rows from the top, red, green and blue.

    Raises:
        InputError: for anything else.

    >>> png(np.zeros((2, 3, 3), dtype=np.uint8))[:4]
    b'\x89PNG'
    """
    if isinstance(image, bytes | bytearray | memoryview):
        data = bytes(image)
        if not data.startswith(SIGNATURE) or b"IHDR" not in data[:16]:
            raise InputError("image: these bytes are not a PNG; give PNG bytes or a uint8 array of shape (Y, X, 3)")
        return data
    if hasattr(image, "detach"):
        image = image.detach().cpu().numpy()
    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or not array.size:
        raise InputError(
            f"image: {array.dtype} of shape {array.shape}; give PNG bytes or a uint8 array of shape (Y, X, 3)"
        )
    height, width, _ = array.shape
    # Each line begins with the number of its filter: 2 stores the difference to the line above.
    lines = np.empty((height, 1 + 3 * width), dtype=np.uint8)
    flat = array.reshape(height, 3 * width)
    lines[:, 0] = 2
    lines[0, 1:] = flat[0]
    lines[1:, 1:] = flat[1:] - flat[:-1]
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )


def places_named(images: Images, row: int, grid: tuple[int, int], leading: int = 0) -> list[tuple[int, str]]:
    """The positions of one row's real frames, named `patch row,column`, counted from 1, after the frame if there are several.

    Arguments:
        leading: the number of vectors before those of the patches, each named `[CLS]`.

    >>> import torch
    >>> images = Images(torch.zeros(1, 1, 3, 8, 8, dtype=torch.uint8), torch.ones(1, 1, dtype=torch.bool))
    >>> places_named(images, 0, (2, 2))
    [(0, 'patch 1,1'), (1, 'patch 1,2'), (2, 'patch 2,1'), (3, 'patch 2,2')]
    """
    rows, columns = grid
    frames, real = images.valid.shape[1], int(images.lengths[row])
    return [(place, CLASS) for place in range(leading)] + [
        (
            leading + (y * frames + frame) * columns + x,
            f"patch {y + 1},{x + 1}" if frames == 1 else f"patch {frame + 1}:{y + 1},{x + 1}",
        )
        for y in range(rows)
        for frame in range(real)
        for x in range(columns)
    ]


def episode_names(labels: Sequence[str]) -> tuple[str, ...]:
    """The names of an episode's images: their labels, numbered if a label occurs several times, and `asked` for the last image.

    >>> episode_names(["cat", "dog", "cat"])
    ('cat 1', 'dog', 'cat 2', 'asked')
    """
    several = {label for label in labels if labels.count(label) > 1}
    return (
        *(
            f"{label} {labels[: place + 1].count(label)}" if label in several else label
            for place, label in enumerate(labels)
        ),
        "asked",
    )


def shown(images: Images, row: int, grid: tuple[int, int], leading: int = 0) -> tuple[np.ndarray, Patches]:
    """One row's image, with its frames side by side, (Y, X, 3) uint8, and its patches."""
    strip = images.strip(row)
    times = max(1, -(-SMALLEST // max(strip.shape[:2])))
    enlarged = strip.repeat(times, axis=0).repeat(times, axis=1)
    return enlarged, Patches(rows=grid[0], columns=grid[1] * int(images.lengths[row]), first=leading)
