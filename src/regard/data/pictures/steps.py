"""Pictures of any size to one size, step by step, as the image processors of Hugging Face's library do it with Pillow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from regard.errors import InputError

Filter = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
FILTERS: tuple[Filter, ...] = get_args(Filter)
"""Pillow's ways of resizing, each at the place that is its number there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureSteps:
    """Resizing, then cutting out the middle; either may be left out.

    Arguments:
        size: height and width that every picture is resized to; or one number, of pixels along the shorter side, and then
            proportions stay; empty = pictures are not resized.
        resample: how they are resized.
        crop: height and width of the middle that is cut out, with black where a picture is smaller; empty = all of it stays.

    >>> PictureSteps(size=(2, 2), resample="box")(np.array([[[0], [4]], [[8], [8]]], np.uint8).repeat(2, 1))[..., 0].tolist()
    [[0, 4], [8, 8]]
    """

    size: tuple[int, ...] = ()
    resample: Filter = "bilinear"
    crop: tuple[int, ...] = ()

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """(Y, X, C) uint8 to (height, width, C) uint8.

        Raises:
            InputError: where a picture is to be resized and Pillow is not installed.
        """
        return self._cut(self._resized(picture) if self.size else picture)

    def _resized(self, picture: np.ndarray) -> np.ndarray:
        try:
            from PIL import Image
        except ImportError as error:
            raise InputError("resizing pictures needs Pillow: pip install 'regard[pictures]'") from error
        height, width = picture.shape[:2]
        if len(self.size) == 2:
            height, width = self.size
        else:
            (side,), short = self.size, min(height, width)
            height, width = (side if each == short else int(side * each / short) for each in (height, width))
        plain = Image.fromarray(picture[..., 0] if picture.shape[2] == 1 else picture)
        made = np.array(plain.resize((width, height), resample=FILTERS.index(self.resample)))
        return made[..., None] if made.ndim == 2 else made

    def _cut(self, picture: np.ndarray) -> np.ndarray:
        if not self.crop:
            return picture
        for axis, room in enumerate(self.crop):
            size = picture.shape[axis]
            # Where a picture is smaller the odd pixel of black goes before it, and where it is larger that of the picture behind.
            before = -((size - room) // 2) if size < room else 0
            black = [(0, 0)] * 3
            black[axis] = (before, max(0, room - size - before))
            start = max(0, (size - room) // 2)
            picture = np.pad(picture, black).take(range(start, start + room), axis=axis)
        return picture
