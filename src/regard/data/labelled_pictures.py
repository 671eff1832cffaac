"""Pictures with a class: folders named by class, MNIST's files, a dataset of the hub, scikit-learn's digits."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np

from regard.data.malformed import MalformedRow
from regard.data.objects import HUB, objects_of_hub, values_of
from regard.data.pictures import decoded_picture, open_pictures, read_digits
from regard.errors import InputError

Part = Literal["train", "test"]

PREFIXES = {"train": "train", "test": "t10k"}
"""How the files of each part of MNIST begin."""

HELD_OUT_DIGITS = 360
"""The last of scikit-learn's digits, a fifth, are their test part."""

PICTURE_KEYS, LABEL_KEYS = ("image", "img", "picture"), ("label", "labels", "fine_label")
"""What datasets of the hub call the two; the first of each that a row has is taken."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LabelledPicture:
    """A picture and its class.

    Arguments:
        picture: (Y, X, C) or (Y, X) uint8; or what gives it when it is called.
        label: of the class.
        name: how messages call it.
    """

    picture: np.ndarray | Callable[[], np.ndarray]
    label: str
    name: str


def read_labelled_pictures(
    place: str | os.PathLike[str] | None, part: Part = "train", *, colour: bool = True
) -> Sequence[LabelledPicture]:
    """Pictures with their classes.

    | place | what it is | part |
    |---|---|---|
    | a folder with `train-images-idx3-ubyte.gz` and so on | MNIST's, or another set's in its format | `train`, or `test` (t10k) |
    | another folder, or a zip archive | pictures in folders, each called as their class | all of it |
    | `hub:owner/name[:configuration][@split]` | a dataset of the Hugging Face hub | the split that is named, else of that name |
    | None | scikit-learn's 1,797 digits of 8 x 8 pixels | the first 1,437, or the last 360 |

    Arguments:
        place: see the table.
        part: what to learn from, or what to test on.
        colour: whether files are read as red, green and blue; one channel of grey where false. MNIST's and scikit-learn's digits
            are grey in any case.

    Raises:
        InputError: where there is nothing that can be used.
    """
    if place is None:
        found = read_digits()
        rows = (
            range(len(found) - HELD_OUT_DIGITS) if part == "train" else range(len(found) - HELD_OUT_DIGITS, len(found))
        )
        return _arrays(found.pixels, found.labels, rows, "digits")
    name = os.fspath(place)
    if name.startswith(HUB):
        return list(_of_hub(name if "@" in name else f"{name}@{part}", colour=colour))
    if has_idx_files(name):
        found = read_digits(name, PREFIXES[part])
        return _arrays(found.pixels, found.labels, range(len(found)), f"{name}: {PREFIXES[part]}")
    return _of_folders(name, colour=colour)


def has_idx_files(place: str | os.PathLike[str]) -> bool:
    """Whether a folder holds files in MNIST's format, told by their names."""
    folder = Path(place)
    return folder.is_dir() and any("idx3-ubyte" in file.name for file in folder.iterdir())


def _arrays(pixels: np.ndarray, labels: np.ndarray, rows: range, where: str) -> list[LabelledPicture]:
    return [
        LabelledPicture(picture=pixels[row], label=str(labels[row]), name=f"{where}, picture {row - rows.start}")
        for row in rows
    ]


def _of_folders(place: str, *, colour: bool) -> list[LabelledPicture]:
    pictures = open_pictures(place)
    found = []
    for name in pictures:
        label = PurePosixPath(name).parent.name
        if not label:
            raise InputError(
                f"{place}: {name} lies in no folder of a class; sort pictures into folders called as their classes"
            )
        read: Callable[[], np.ndarray] = lambda name=name: pictures.read(name, colour=colour)  # noqa: E731
        found.append(LabelledPicture(picture=read, label=label, name=f"{place}: {name}"))
    return found


def _of_hub(name: str, *, colour: bool) -> Iterator[LabelledPicture]:
    for row in objects_of_hub(name):
        if isinstance(row, MalformedRow):
            continue  # a dataset's rows are objects; only a file's lines can be none
        line, values = row
        keys = [next((key for key in known if key in values), known[0]) for known in (PICTURE_KEYS, LABEL_KEYS)]
        parts = values_of(name, line, values, keys)
        if isinstance(parts, MalformedRow):
            raise InputError(
                f"{name}, row {line}: {parts.reason}; give a dataset with an image and a label in each row"
            )
        where = f"{name}, row {line}"
        yield LabelledPicture(picture=_pixels(parts[0], where, colour=colour), label=str(parts[1]), name=where)


def _pixels(value: Any, where: str, *, colour: bool) -> np.ndarray:
    """A picture of a dataset: encoded bytes, or one that the library has opened by Pillow."""
    if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
        return decoded_picture(value["bytes"], where, colour=colour)
    save = getattr(value, "save", None)
    if save is None:
        raise InputError(f"{where}: the image is a {type(value).__name__}, not a picture; give another dataset")
    content = io.BytesIO()
    save(content, format="PNG")
    return decoded_picture(content.getvalue(), where, colour=colour)
