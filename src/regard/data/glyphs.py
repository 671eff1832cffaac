"""What builtin scenes show: small pictures of things with names, handwritten digits or coloured shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random

import numpy as np
import torch
import torch.nn.functional as F

from regard.data.pictures import read_digits

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COLOURS = {
    "red": (230, 40, 40),
    "green": (40, 190, 60),
    "blue": (60, 90, 250),
    "yellow": (240, 220, 50),
    "white": (240, 240, 240),
}
SHAPES = ("circle", "square", "triangle", "cross")


class Glyphs(ABC):
    """Things to draw, by number.

    Arguments:
        names: of each thing, a word or two.
        channels: of a picture: 1 for grey ones, 3 for colours.
        side: a picture is at most so many pixels high and wide.
    """

    def __init__(self, names: tuple[str, ...], channels: int, side: int) -> None:
        self.names = names
        self.channels = channels
        self.side = side

    @abstractmethod
    def drawn(self, number: int, split: str, rng: Random) -> np.ndarray:
        """A picture of a thing, (side, side, channels) uint8 on black; another one each time.

        Arguments:
            split: no two of `train`, `validation` and `test` get the same handwriting.
        """


class DigitGlyphs(Glyphs):
    """Handwritten digits, each as somebody wrote it: of ten writings of a digit eight are to learn from.

    Arguments:
        side: as for `Glyphs`.
        mnist: a folder with MNIST's files; None for scikit-learn's digits.

    Raises:
        InputError: as `read_digits`.
    """

    def __init__(self, side: int, mnist: str | None = None) -> None:
        super().__init__(DIGITS, 1, side)
        found = read_digits(mnist)
        self._pixels = _resized(found.pixels, side)
        tenths = np.arange(len(found)) % 10
        splits = {"train": tenths < 8, "validation": tenths == 8, "test": tenths == 9}
        self._rows = {
            (split, label): np.flatnonzero((found.labels == label) & chosen)
            for split, chosen in splits.items()
            for label in range(10)
        }

    def drawn(self, number: int, split: str, rng: Random) -> np.ndarray:
        """One of the split's writings of a digit."""
        rows = self._rows[split, number]
        return self._pixels[rows[int(rng.random() * len(rows))]][..., None]


class ShapeGlyphs(Glyphs):
    """Shapes in plain colours, of several sizes; nothing has to be installed or read for them.

    >>> glyphs = ShapeGlyphs(12)
    >>> glyphs.names[:2], glyphs.drawn(0, "train", Random(1)).shape
    (('red circle', 'red square'), (12, 12, 3))
    """

    def __init__(self, side: int) -> None:
        super().__init__(tuple(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES), 3, side)

    def drawn(self, number: int, split: str, rng: Random) -> np.ndarray:
        """The shape, somewhere between seven tenths of the side and all of it."""
        colour, shape = self.names[number].split()
        reach = (0.7 + 0.3 * rng.random()) * self.side / 2
        axis = (np.arange(self.side) + 0.5 - self.side / 2) / reach
        y, x = axis[:, None], axis[None, :]
        inside = {
            "circle": x**2 + y**2 <= 1,
            "square": np.maximum(abs(x), abs(y)) <= 0.9,
            "triangle": (abs(x) <= (y + 1) / 2) & (abs(y) <= 1),
            "cross": (np.minimum(abs(x), abs(y)) <= 0.3) & (np.maximum(abs(x), abs(y)) <= 1),
        }[shape]
        return (inside[..., None] * np.array(COLOURS[colour])).astype(np.uint8)


def _resized(pixels: np.ndarray, side: int) -> np.ndarray:
    """(N, Y, X) uint8 to (N, side, side), a few thousand at a time."""
    parts = []
    for some in np.array_split(pixels, max(1, len(pixels) // 4096)):
        given = torch.from_numpy(some.astype(np.float32)).unsqueeze(1)
        found = F.interpolate(given, size=(side, side), mode="bilinear", antialias=True, align_corners=False)
        parts.append(found.round().clamp(0, 255).to(torch.uint8).squeeze(1).numpy())
    return np.concatenate(parts)
