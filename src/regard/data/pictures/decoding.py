"""Encoded pictures (JPEG, PNG, ...) to arrays of one size; by Pillow, which is an optional library."""

from __future__ import annotations

import io
import os
import warnings
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F

from regard.errors import InputError
from regard.models.config import check
from regard.reading import read_bytes

MOST_PIXELS = 1 << 26
"""A picture with more is refused: 67 million pixels take 200 MB, and a small file may unpack to any number."""


def decoded_picture(content: bytes, name: str, *, colour: bool = True) -> np.ndarray:
    r"""The pixels of an encoded picture, upright as its camera meant it: (Y, X, 3) uint8, or (Y, X, 1) without colour.

    What is see-through stands before white.

    Arguments:
        content: the bytes of a JPEG, a PNG, or whatever else Pillow reads.
        name: how messages call it.
        colour: red, green and blue; one channel of grey where false.

    Raises:
        InputError: where Pillow is not installed, or the bytes are no picture, are cut short or unpack to too many pixels.

    >>> from regard.data.pictures import decoded_picture
    >>> decoded_picture(b"text", "notes.jpg")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: notes.jpg: is no picture that can be read; give a JPEG or a PNG
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise InputError(f"{name}: reading pictures needs Pillow: pip install 'regard[pictures]'") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of metadata that nobody asked for, and of sizes, which are judged here
            with Image.open(io.BytesIO(content)) as opened:
                if opened.width * opened.height > MOST_PIXELS:
                    raise InputError(
                        f"{name}: has {opened.width} x {opened.height} pixels, more than {MOST_PIXELS:,}; make it smaller"
                    )
                upright = ImageOps.exif_transpose(opened)
                if upright.has_transparency_data:
                    layer = upright.convert("RGBA")
                    ground = Image.new("RGBA", layer.size, (255, 255, 255, 255))
                    upright = Image.alpha_composite(ground, layer)
                elif upright.mode.startswith(
                    "I;16"
                ):  # 16 bits to a pixel, of which 8 are kept; Pillow would cut them off
                    upright = Image.fromarray((np.asarray(upright) >> 8).astype(np.uint8))
                pixels = np.array(upright.convert("RGB" if colour else "L"))
    except (UnidentifiedImageError, Image.DecompressionBombError):
        raise InputError(f"{name}: is no picture that can be read; give a JPEG or a PNG") from None
    except (OSError, SyntaxError, ValueError) as error:  # Pillow raises all of them for damaged files
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name}: the picture is damaged ({error}); fetch it again") from None
    return pixels if colour else pixels[..., None]


def read_picture(path: str | os.PathLike[str], *, colour: bool = True) -> np.ndarray:
    """The pixels of a picture in a file, as `decoded_picture` gives them.

    Raises:
        InputError: for a file that is not there or cannot be read, and as `decoded_picture`.
    """
    name = os.fspath(path)
    return decoded_picture(read_bytes(path, "give the path of a picture"), name, colour=colour)


# Pictures of any size to one size.


Fit = Literal["crop", "pad", "stretch"]


def fitted(picture: np.ndarray, height: int, width: int, fit: Fit = "crop") -> np.ndarray:
    """A picture at another size, smoothed where it becomes smaller.

    | fit | what becomes of a picture with other proportions |
    |---|---|
    | `crop` | it fills the frame, and what stands over on two sides is cut off |
    | `pad` | all of it is seen, with black beside it |
    | `stretch` | its proportions change |

    Arguments:
        picture: (Y, X, C) uint8.
        height, width: in pixels.
        fit: see the table.

    Returns:
        (height, width, C) uint8.

    >>> fitted(np.full((4, 8, 1), 200, np.uint8), 2, 2, "pad")[..., 0].tolist()
    [[200, 200], [0, 0]]
    """
    check(height > 0 and width > 0, "the size of pictures", (height, width), "at least 1 x 1", "give one")
    if picture.shape[:2] == (height, width):
        return picture
    rows, columns = picture.shape[:2]
    scales = (height / rows, width / columns)
    if fit != "stretch":
        scales = (max(scales),) * 2 if fit == "crop" else (min(scales),) * 2
    inner = max(1, round(rows * scales[0])), max(1, round(columns * scales[1]))
    pixels = torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1).unsqueeze(0).float()
    resized = F.interpolate(pixels, size=inner, mode="bilinear", antialias=True, align_corners=False)
    resized = resized.round().clamp(0, 255).to(torch.uint8)[0].permute(1, 2, 0).numpy()
    return _framed(resized, height, width)


def _framed(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """The middle of a picture, and black where it has nothing."""
    framed = np.zeros((height, width, picture.shape[2]), np.uint8)
    (top, rows, above), (left, columns, before) = (
        (max(0, (size - room) // 2), min(size, room), max(0, (room - size) // 2))
        for size, room in ((picture.shape[0], height), (picture.shape[1], width))
    )
    framed[above : above + rows, before : before + columns] = picture[top : top + rows, left : left + columns]
    return framed


# The same step by step, as the image processors of Hugging Face's library do it with Pillow.


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
