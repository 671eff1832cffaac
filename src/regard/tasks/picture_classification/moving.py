"""What becomes of a picture in training: moved a little, or mirrored, anew each time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOVES = 0x5417
"""Sets these draws apart from others of the same row."""


def moved(pictures: np.ndarray, rows: Sequence[int], draw: int, *, shift: int, flip: bool) -> np.ndarray:
    """Pictures moved by up to `shift` pixels each way and, with `flip`, half of them mirrored left to right.

    What happens to a picture is a function of its row and `draw` alone.

    Arguments:
        pictures: (B, Y, X, C) uint8; not changed.
        rows: their numbers in the store.
        draw: a number that differs from epoch to epoch.
        shift: in pixels; what comes in is black.
        flip: whether to mirror.

    Returns:
        (B, Y, X, C) uint8.
    """
    height, width = pictures.shape[1:3]
    framed = np.pad(pictures, ((0, 0), (shift, shift), (shift, shift), (0, 0)))
    made = np.empty_like(pictures)
    for place, row in enumerate(rows):
        generator = np.random.Generator(np.random.Philox(key=[int(row), (draw << 16) ^ MOVES]))
        top, left = generator.integers(0, 2 * shift + 1, size=2)
        part = framed[place, top : top + height, left : left + width]
        made[place] = part[:, ::-1] if flip and generator.integers(2) else part
    return made
