"""Pictures of single characters by class, and classes by group: Omniglot's alphabets, or handwritten digits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from regard.data.pictures import fitted, open_pictures, read_digits
from regard.errors import InputError, nearest


@dataclass(frozen=True, slots=True, eq=False)
class Characters:
    """Pictures of characters, those of a class next to one another.

    Arguments:
        pixels: (M, side, side) uint8, ink bright on black.
        classes: (M,) int64, which never falls: the number of each picture's class, from 0.
        names: of the classes, `GROUP/CLASS`.
    """

    pixels: np.ndarray
    classes: np.ndarray
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.classes)


def alphabets_of(place: str | os.PathLike[str]) -> tuple[str, ...]:
    """The groups of classes in a folder or archive, sorted: what the folders are called in which those of the classes stand.

    Raises:
        InputError: for pictures that do not lie in folders, GROUP/CLASS/PICTURE.
    """
    return tuple(sorted({group for group, _ in map(_group_and_class, open_pictures(place))}))


def read_characters(
    place: str | os.PathLike[str], alphabets: Sequence[str] | None = None, *, side: int = 28
) -> Characters:
    """The characters in a folder or zip archive laid out as Omniglot's: ALPHABET/CHARACTER/PICTURE, in any folder above.

    Pictures that are bright at their edge, as ink on paper is, are inverted.

    Arguments:
        place: such as `images_background.zip`.
        alphabets: which; all where None.
        side: rows and columns to shrink the pictures to, in pixels.

    Raises:
        InputError: for an alphabet that is not there, with the nearest, or a picture that cannot be read.
    """
    pictures = open_pictures(place)
    by_class: dict[str, list[str]] = {}
    for name in pictures:
        by_class.setdefault("/".join(_group_and_class(name)), []).append(name)
    known = sorted({name.split("/")[0] for name in by_class})
    for alphabet in alphabets or ():
        if alphabet not in known:
            raise InputError(f"{place}: no alphabet {alphabet!r} in it; {nearest(alphabet, known)}")
    chosen = [name for name in sorted(by_class) if alphabets is None or name.split("/")[0] in alphabets]
    pixels = [
        with_bright_ink(fitted(pictures.read(name, colour=False), side, side, "pad")[..., 0])
        for character in chosen
        for name in by_class[character]
    ]
    classes = np.repeat(np.arange(len(chosen)), [len(by_class[character]) for character in chosen])
    return Characters(np.stack(pixels), classes, tuple(chosen))


def digit_characters(digits: Sequence[int], *, side: int = 8) -> Characters:
    """Handwritten digits of these classes, those of 8 x 8 pixels that come with scikit-learn.

    Raises:
        InputError: where scikit-learn is not installed.
    """
    found = read_digits()
    order = [row for digit in digits for row in np.flatnonzero(found.labels == digit).tolist()]
    pixels = np.stack([fitted(found.pixels[row][..., None], side, side)[..., 0] for row in order])
    counts = [int((found.labels == digit).sum()) for digit in digits]
    names = tuple(f"digits/{digit}" for digit in digits)
    return Characters(pixels, np.repeat(np.arange(len(names)), counts), names)


def _group_and_class(name: str) -> tuple[str, str]:
    parts = PurePosixPath(name).parts
    if len(parts) < 3:
        raise InputError(
            f"{name}: pictures of characters lie in folders, ALPHABET/CHARACTER/PICTURE, as Omniglot's do; sort them so"
        )
    return parts[-3], parts[-2]


def with_bright_ink(picture: np.ndarray) -> np.ndarray:
    """A picture, (Y, X) uint8, or its negative where most of its edge is bright, as ink on paper is."""
    edge = np.concatenate((picture[0], picture[-1], picture[:, 0], picture[:, -1]))
    return 255 - picture if np.median(edge) > 127 else picture
