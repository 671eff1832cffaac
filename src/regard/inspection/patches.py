"""Tokens that are patches of an image, and the image they come from."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.layers import Pictures

SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Patches:
    """Which tokens of a side are patches of a picture: a grid, read row by row.

    Arguments:
        rows: patches from top to bottom.
        columns: patches from left to right.
        first: the position of the top left patch's token: 1 where a CLS token stands before the patches.

    Raises:
        InputError: a number is not a whole one, or too small.

    >>> Patches(rows=14, columns=14, first=1).last
    196

    """

    rows: int
    columns: int
    first: int = 0

    def __post_init__(self) -> None:
        """Check that there is a grid."""
        for name, least in (("rows", 1), ("columns", 1), ("first", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"patches: {name} is {value!r}; give a whole number of at least {least}")

    @property
    def last(self) -> int:
        """The position of the bottom right patch's token."""
        return self.first + self.rows * self.columns - 1


def png(image: Any) -> bytes:
    r"""A picture as PNG: bytes of one as they are, an array encoded.

    Arguments:
        image: PNG bytes, or an array of shape (Y, X, 3) of uint8: rows from the top, red, green and blue.

    Raises:
        InputError: it is neither.

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


SMALLEST = 240
"""Pixels that a picture that is shown has at least from top to bottom, or from left to right."""


CLASS = "class"
"""What a vector before those of the places is called."""


def places_named(pictures: Pictures, row: int, grid: tuple[int, int], leading: int = 0) -> list[tuple[int, str]]:
    """Every place of one row's real frames, with a name: `row,column`, counted from 1, after the frame where there are several.

    Arguments:
        leading: how many vectors stand before those of the places, each called `class`.

    >>> import torch
    >>> pictures = Pictures(torch.zeros(1, 1, 3, 8, 8, dtype=torch.uint8), torch.ones(1, 1, dtype=torch.bool))
    >>> places_named(pictures, 0, (2, 2))
    [(0, '1,1'), (1, '1,2'), (2, '2,1'), (3, '2,2')]
    """
    rows, columns = grid
    frames, real = pictures.valid.shape[1], int(pictures.lengths[row])
    return [(place, CLASS) for place in range(leading)] + [
        (
            leading + (y * frames + frame) * columns + x,
            f"{y + 1},{x + 1}" if frames == 1 else f"{frame + 1}:{y + 1},{x + 1}",
        )
        for y in range(rows)
        for frame in range(real)
        for x in range(columns)
    ]


def shown(pictures: Pictures, row: int, grid: tuple[int, int], leading: int = 0) -> tuple[np.ndarray, Patches]:
    """One row's picture, its frames side by side, (Y, X, 3) uint8, and the patches that its places are."""
    strip = pictures.strip(row)
    times = max(1, -(-SMALLEST // max(strip.shape[:2])))
    enlarged = strip.repeat(times, axis=0).repeat(times, axis=1)
    return enlarged, Patches(rows=grid[0], columns=grid[1] * int(pictures.lengths[row]), first=leading)
