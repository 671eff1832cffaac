"""The data of image classification: its settings, reading of images with classes, their store, and changes in training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.data.images import Fit
from regard.data.labelled_images import LabelledImage, Part, read_labelled_images
from regard.data.malformed import MalformedRows
from regard.data.rows import parts_of
from regard.data.token_store import Ids, TokenStore
from regard.errors import InputError
from regard.models.config import check
from regard.tasks.examples import Examples, check_amount
from regard.tasks.images import read_frames


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageData:
    """The `data` section of a recipe.

    Arguments:
        train: a folder or zip archive with one folder of images for each class, named after the class; a folder with MNIST's
            files; or `hub:owner/name[:configuration][@split]`, a dataset of the Hugging Face hub.
        validation: the same kinds of path; null = images are held out of `train`.
        validation_share: the share of images to hold out, instead of `validation_size`.
        validation_size: the number of images to hold out, at most a tenth of all.
        builtin: `digits`, the handwritten digits of scikit-learn, instead of files.
        part: of MNIST's files, the hub and builtin digits: `train`, or `test`.
        size: train on only this many images, sampled with the seed from those not held out; null = all.
        height, width: the size in pixels to which every image is converted; null = the size of the first one.
        fit: how an image of other proportions is converted: `crop` cuts off its edges, `pad` adds black bars, `stretch` changes
            its proportions.
        colour: whether images have three channels (red, green and blue); false = one grey channel. MNIST and the builtin
            digits are always grey.
        shift: in training each image is moved by up to this many pixels in each direction, sampled anew each time; the border is
            filled with black.
        flip: whether in training an image is mirrored left to right with probability 1/2.
        on_error: what to do about an image that cannot be read: `skip` leaves it out with a note, `stop` ends with an error.

    Raises:
        InputError: for files together with builtin data, or a number out of range.
    """

    train: str | tuple[str, ...] | None = None
    validation: str | None = None
    validation_share: float | None = None
    validation_size: int | None = 1_000
    builtin: Literal["digits"] | None = None
    part: Part = "train"
    size: int | None = None
    height: int | None = None
    width: int | None = None
    fit: Fit = "pad"
    colour: bool = True
    shift: int = 0
    flip: bool = False
    on_error: Literal["skip", "stop"] = "skip"

    def __post_init__(self) -> None:
        for name in ("train", "validation"):
            if self.builtin is not None and getattr(self, name) is not None:
                raise InputError(f"data.{name} and data.builtin={self.builtin} are both given; choose one of the two")
        check_amount(self)
        for name in ("size", "height", "width"):
            value = getattr(self, name)
            check(value is None or value > 0, f"data.{name}", value, "above 0", "raise it")
        check(self.shift >= 0, "data.shift", self.shift, "0 or more", "2 is usual for digits")

    @property
    def place(self) -> str | None:
        """The folder, archive or dataset to train on; None for builtin digits.

        Raises:
            InputError: if none or several are named.
        """
        if self.builtin is not None:
            return None
        return _one_place(self.train or ())


def _row(row: Any, called: str, number: int, data: Any) -> LabelledImage:
    del number, data
    image, label = parts_of(row, called, [["image", "picture"], ["label", "class"]], WANTED)
    label = str(label) if type(label) is int and isinstance(row, Mapping) else label
    if not isinstance(label, str):
        raise InputError(f"{called} has the class {label!r:.60}; give {WANTED}")
    return LabelledImage(image=image, label=label, name=called)


def _read(data: ImageData, place: str | list[str], malformed: MalformedRows) -> Iterable[LabelledImage]:
    del malformed
    return read_labelled_images(_one_place(place), data.part, colour=data.colour)


def _one_place(places: str | Sequence[str]) -> str:
    places = (places,) if isinstance(places, str) else places
    if len(places) != 1:
        raise InputError(
            f"data.train names {len(places) or 'no'} places of images; name one folder, archive or dataset, or "
            "data.builtin=digits"
        )
    return places[0]


WANTED = "an image and its class, (image, 'class')"

IMAGES = Examples(
    type=LabelledImage,
    rows="images",
    one="example",
    wanted=WANTED,
    file="folder, archive or dataset of images",
    row=_row,
    read=_read,
)


def read_images(data: ImageData, malformed: MalformedRows) -> Iterator[LabelledImage]:
    """The images that `data` names, with their classes; of the builtin digits the test part, which training does not use."""
    del malformed
    part = "test" if data.builtin is not None else data.part
    return iter(read_labelled_images(data.place, part, colour=data.colour))


MOVES = 0x5417
"""Makes these samples independent of other samples with the same row."""


def moved(images: np.ndarray, rows: Sequence[int], draw: int, *, shift: int, flip: bool) -> np.ndarray:
    """Images shifted by up to `shift` pixels in each direction and, with `flip`, half of them mirrored left to right.

    The change to an image is a function of its row and `draw` alone.

    Arguments:
        images: (B, Y, X, C) uint8; not changed.
        rows: the rows of the images in the store.
        draw: a number that differs from epoch to epoch.
        shift: the largest shift in pixels; the border is filled with black.
        flip: whether to mirror.

    Returns:
        (B, Y, X, C) uint8.
    """
    height, width = images.shape[1:3]
    framed = np.pad(images, ((0, 0), (shift, shift), (shift, shift), (0, 0)))
    made = np.empty_like(images)
    for place, row in enumerate(rows):
        generator = np.random.Generator(np.random.Philox(key=[int(row), (draw << 16) ^ MOVES]))
        top, left = generator.integers(0, 2 * shift + 1, size=2)
        part = framed[place, top : top + height, left : left + width]
        made[place] = part[:, ::-1] if flip and generator.integers(2) else part
    return made


LABEL = "label"
"""The only column of a store: the number of each image's class."""

MOST_CLASSES = 1 << 20


class ImageStore(TokenStore):
    """A `TokenStore` of classes with their images: (N, Y, X, C) uint8, which are read from disk when they are needed.

    Arguments:
        folder: the folder of the classes; the images are in a file next to it.
        tokens, offsets: as for `TokenStore`.
    """

    def __init__(self, folder: Path, tokens: dict[str, Ids], offsets: dict[str, np.ndarray]) -> None:
        super().__init__(folder, tokens, offsets)
        self.images = read_frames(folder)

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return (ImageStore.open, (self._folder.absolute(),))
