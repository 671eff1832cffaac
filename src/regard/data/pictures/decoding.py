"""One encoded picture (JPEG, PNG, ...) to an array; by Pillow, which is an optional library."""

from __future__ import annotations

import io
import os
import warnings

import numpy as np

from regard.errors import InputError
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
