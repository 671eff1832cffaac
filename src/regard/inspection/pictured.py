"""What of a run that read pictures is shown: the picture, enlarged where it is small, and where in it each place is."""

from __future__ import annotations

import numpy as np

from regard.inspection.patches import Patches
from regard.layers import Pictures

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
