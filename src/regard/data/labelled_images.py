"""Images with classes, captions of images, images of single characters, and episodes of few-shot classification."""

from __future__ import annotations

import io
import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np

from regard.data.images import decoded_image, fitted, open_images, read_digits
from regard.data.lines import Line, read_lines
from regard.data.malformed import MalformedRow, MalformedRows, first_fault, malformed_row, read_rows, usable
from regard.data.objects import HUB, objects_of_hub, values_of
from regard.data.tables import columns_of_table, csv_rows, tsv_rows
from regard.errors import InputError, nearest

Part = Literal["train", "test"]

PREFIXES = {"train": "train", "test": "t10k"}
"""The prefix of MNIST's file names for each part."""

HELD_OUT_DIGITS = 360
"""The size of the test part of scikit-learn's digits: the last fifth."""

IMAGE_KEYS, LABEL_KEYS = ("image", "img", "picture"), ("label", "labels", "fine_label")
"""The usual names of image and label in datasets of the hub; the first one that a row has is used."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LabelledImage:
    """An image and its class.

    Arguments:
        image: (Y, X, C) or (Y, X) uint8, or a function without arguments that returns it.
        label: the name of the class.
        name: the name of the image in messages.
    """

    image: np.ndarray | Callable[[], np.ndarray]
    label: str
    name: str


def read_labelled_images(
    place: str | os.PathLike[str] | None, part: Part = "train", *, colour: bool = True
) -> Sequence[LabelledImage]:
    """Read images with their classes.

    | place | what is read | what `part` selects |
    |---|---|---|
    | a folder with `train-images-idx3-ubyte.gz` and so on | MNIST, or a set in its format | files `train-...` or `t10k-...` |
    | another folder, or a zip archive | images in folders named after their classes | nothing: all images are read |
    | `hub:owner/name[:configuration][@split]` | a dataset of the Hugging Face hub | the split, if none is given after `@` |
    | None | scikit-learn's 1,797 digits of 8 x 8 pixels | the first 1,437 (`train`) or the last 360 (`test`) |

    Arguments:
        place: see the table.
        part: `train` or `test`, see the table.
        colour: True to read files as red, green and blue; False for one channel of grey. MNIST's and scikit-learn's digits
            are always grey.

    Raises:
        InputError: if there are no usable images.
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
    """Whether a folder contains files that are named as those in MNIST's format."""
    folder = Path(place)
    return folder.is_dir() and any("idx3-ubyte" in file.name for file in folder.iterdir())


def _arrays(pixels: np.ndarray, labels: np.ndarray, rows: range, where: str) -> list[LabelledImage]:
    return [
        LabelledImage(image=pixels[row], label=str(labels[row]), name=f"{where}, image {row - rows.start}")
        for row in rows
    ]


def _of_folders(place: str, *, colour: bool) -> list[LabelledImage]:
    images = open_images(place)
    found = []
    for name in images:
        label = PurePosixPath(name).parent.name
        if not label:
            raise InputError(
                f"{place}: {name} is not in a folder of a class; sort images into folders named after their classes"
            )
        read: Callable[[], np.ndarray] = lambda name=name: images.read(name, colour=colour)  # noqa: E731
        found.append(LabelledImage(image=read, label=label, name=f"{place}: {name}"))
    return found


def _of_hub(name: str, *, colour: bool) -> Iterator[LabelledImage]:
    for row in objects_of_hub(name):
        if isinstance(row, MalformedRow):
            continue  # rows of a dataset are always objects; only lines of a file can be malformed
        line, values = row
        keys = [next((key for key in known if key in values), known[0]) for known in (IMAGE_KEYS, LABEL_KEYS)]
        parts = values_of(name, line, values, keys)
        if isinstance(parts, MalformedRow):
            raise InputError(
                f"{name}, row {line}: {parts.reason}; give a dataset with an image and a label in each row"
            )
        where = f"{name}, row {line}"
        yield LabelledImage(image=_pixels(parts[0], where, colour=colour), label=str(parts[1]), name=where)


def _pixels(value: Any, where: str, *, colour: bool) -> np.ndarray:
    """The pixels of an image in a dataset, which is encoded bytes or an opened Pillow image."""
    if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
        return decoded_image(value["bytes"], where, colour=colour)
    save = getattr(value, "save", None)
    if save is None:
        raise InputError(f"{where}: the image is a {type(value).__name__}, not an image; give another dataset")
    content = io.BytesIO()
    save(content, format="PNG")
    return decoded_image(content.getvalue(), where, colour=colour)


_HEADERS = (("image", "caption"), ("picture", "caption"), ("image", "comment"))
_NUMBERED = re.compile(r"#\d+$")


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionLine:
    """One caption of an image.

    Arguments:
        image: the name of the image; an image may have several captions.
        text: the caption.
        file, line: the file and the line (from 1) it was read from.
    """

    image: str
    text: str
    file: str
    line: int


def read_captions(
    path: str | os.PathLike[str], *, on_error: str = "skip", malformed: MalformedRows | None = None
) -> Iterator[CaptionLine]:
    r"""The captions in a table of two columns: the image's name and the caption.

    The separator is a tab, as in Flickr8k's own files, where the caption number after the name (`dog.jpg#3`) is removed; or a
    comma, if the file's name ends in .csv or its first line is the header `image,caption`.

    Arguments:
        path: the path of the file, plain or gzip (recognised by content).
        on_error: what to do with a malformed row: `skip` (record it and leave it out) or `stop` (raise `InputError`).
        malformed: where malformed rows are recorded.

    Raises:
        InputError: if the file cannot be read or has no caption; raised by the call or while reading. Also for a malformed row
            if `on_error` is `stop`.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "captions.tsv"
    >>> _ = file.write_text("dog.jpg#0\tA dog runs .\ndog.jpg#1\tA running dog .\n")
    >>> [(caption.image, caption.text) for caption in read_captions(file)]
    [('dog.jpg', 'A dog runs .'), ('dog.jpg', 'A running dog .')]
    """
    name = os.fspath(path)
    needed = "each line needs the name of an image and a caption, with a tab between"
    return usable(_found(name, read_lines(name)), name, needed, on_error, malformed)


def _found(name: str, lines: Iterator[Line]) -> Iterator[CaptionLine | MalformedRow]:
    first = next(lines)
    lines = itertools.chain([first], lines)
    begins = first.content[:100].decode(errors="replace").strip().lower()
    headed = next((header for header in _HEADERS for mark in ",\t" if begins == mark.join(header)), None)
    commas = Path(name.removesuffix(".gz")).suffix.lower() == ".csv" or (headed is not None and "," in begins)
    rows = csv_rows(name, lines) if commas else tsv_rows(name, lines)
    if headed is not None:
        next(rows)

    def read(number: int, cells: list[str]) -> CaptionLine | MalformedRow:
        image, text = _NUMBERED.sub("", cells[0].strip()), cells[1]
        fault = first_fault([("image", image), ("caption", text)])
        if fault is not None:
            return malformed_row(name, number, *fault)
        return CaptionLine(image=image, text=" ".join(text.split()), file=name, line=number)

    return read_rows(columns_of_table(name, rows, (0, 1), header=False), read)


@dataclass(frozen=True, slots=True, eq=False)
class Characters:
    """Images of characters, ordered by class.

    Arguments:
        pixels: (M, side, side) uint8, bright characters on black.
        classes: (M,) int64, the index of each image's class, from 0, in ascending order.
        names: the names of the classes, `GROUP/CLASS`.
    """

    pixels: np.ndarray
    classes: np.ndarray
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.classes)


def alphabets_of(place: str | os.PathLike[str]) -> tuple[str, ...]:
    """The sorted names of the groups of classes in a folder or archive: GROUP in GROUP/CLASS/IMAGE.

    Raises:
        InputError: for images that are not in such folders.
    """
    return tuple(sorted({group for group, _ in map(_group_and_class, open_images(place))}))


def read_characters(
    place: str | os.PathLike[str], alphabets: Sequence[str] | None = None, *, side: int = 28
) -> Characters:
    """Read the characters in a folder or zip archive with Omniglot's layout: ALPHABET/CHARACTER/IMAGE, below any folder.

    Images with a bright edge (dark ink on white paper) are inverted.

    Arguments:
        place: the folder or archive, such as `images_background.zip`.
        alphabets: the alphabets to read; None for all.
        side: height and width that the images are resized to, in pixels.

    Raises:
        InputError: for an unknown alphabet (the message names the most similar one) or an image that cannot be read.
    """
    images = open_images(place)
    by_class: dict[str, list[str]] = {}
    for name in images:
        by_class.setdefault("/".join(_group_and_class(name)), []).append(name)
    known = sorted({name.split("/")[0] for name in by_class})
    for alphabet in alphabets or ():
        if alphabet not in known:
            raise InputError(f"{place}: no alphabet {alphabet!r} in it; {nearest(alphabet, known)}")
    chosen = [name for name in sorted(by_class) if alphabets is None or name.split("/")[0] in alphabets]
    pixels = [
        with_bright_ink(fitted(images.read(name, colour=False), side, side, "pad")[..., 0])
        for character in chosen
        for name in by_class[character]
    ]
    classes = np.repeat(np.arange(len(chosen)), [len(by_class[character]) for character in chosen])
    return Characters(np.stack(pixels), classes, tuple(chosen))


def digit_characters(digits: Sequence[int], *, side: int = 8) -> Characters:
    """Handwritten digits of these classes, from the images of 8 x 8 pixels that come with scikit-learn.

    Arguments:
        digits: the classes, numbers from 0 to 9.
        side: height and width that the images are resized to, in pixels.

    Raises:
        InputError: if scikit-learn is not installed.
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
        raise InputError(f"{name}: images of characters must be in folders, ALPHABET/CHARACTER/IMAGE, as Omniglot's")
    return parts[-3], parts[-2]


def with_bright_ink(image: np.ndarray) -> np.ndarray:
    """A (Y, X) uint8 image with bright ink on black: inverted if most of its edge is bright, as paper is."""
    edge = np.concatenate((image[0], image[-1], image[:, 0], image[:, -1]))
    return 255 - image if np.median(edge) > 127 else image


# Episodes: a few classes, a few images of each with labels that are specific to the episode, and other images to classify.


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One few-shot classification problem, as indices into an array of images.

    Arguments:
        images: (N K + Q,) int64, the indices of the images: N K support images, then Q query images.
        turns: (N K + Q,) int64, the rotation of each image in quarter turns, the same for all images of a class.
        labels: (N K + Q,) int64, the labels in this episode; the last Q are to be predicted.
    """

    images: np.ndarray
    turns: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Episodes:
    """Samples few-shot episodes from images that are ordered by class.

    Arguments:
        classes: (M,) int64, the index of each image's class, in ascending order.
        ways: N, the number of classes in an episode.
        shots: K, the number of labelled images per class.
        turned: whether a class rotated by 90, 180 or 270 degrees counts as a further class.
        asked: Q, the number of query images. The numbers per class differ by at most one.

    >>> episodes = Episodes(np.repeat(np.arange(6), 4), ways=3, shots=1, turned=False)
    >>> episode = episodes.about(5, draw=0)
    >>> int(episode.images[-1]), len(set(episode.labels[:-1].tolist())), int(episode.labels[-1]) in episode.labels[:-1]
    (5, 3, True)
    """

    classes: np.ndarray
    ways: int
    shots: int
    turned: bool
    asked: int = 1

    @property
    def too_few(self) -> str:
        """Why no episode can be sampled, as a clause for a message; empty if episodes can be sampled."""
        counts = np.bincount(self.classes)
        kinds = len(counts) * (4 if self.turned else 1)
        if kinds < self.ways:
            return f"{kinds} classes are too few for episodes of {self.ways}"
        asked = -(-self.asked // self.ways)  # queries of the class of the first query image, including that image
        if (
            self.turned and self.ways > 1
        ):  # a rotation of the same class may be another class of the episode, which must not use the first query image
            asked = max(asked, 1 + -(-(self.asked - 1) // self.ways))
        if counts.min() < self.shots + asked:
            return f"a class has {counts.min()} images, and {self.shots} labelled and {asked} query images are needed"
        return ""

    def about(self, image: int, draw: int) -> Episode:
        """The episode with this image as its first query: a pure function of `image` and `draw`.

        The other classes, the other images of each class, the labels and the order are sampled.

        Arguments:
            image: the index of the first query image.
            draw: a number that selects the random numbers.
        """
        random = np.random.Generator(np.random.Philox(key=[image, draw]))
        turns = 4 if self.turned else 1
        counts = np.bincount(self.classes)
        first = np.cumsum(counts) - counts
        own = int(self.classes[image]) * turns + int(random.integers(turns))
        others = random.choice(len(counts) * turns - 1, size=self.ways - 1, replace=False)
        kinds = np.concatenate(([own], others + (others >= own)))
        of = np.arange(self.asked) % self.ways  # the index in `kinds` of each query image's class
        shown, asked = [], np.full(self.asked, image)
        for place, kind in enumerate(kinds.tolist()):
            there = first[kind // turns] + np.arange(int(counts[kind // turns]))
            further = np.flatnonzero(of == place)[place == 0 :]  # without the first query, which is `image`
            sampled = random.choice(there[there != image], size=self.shots + len(further), replace=False)
            shown.append(sampled[: self.shots])
            asked[further] = sampled[self.shots :]
        labels = random.permutation(self.ways)
        order = random.permutation(self.ways * self.shots)
        return Episode(
            images=np.concatenate((np.concatenate(shown)[order], asked)),
            turns=np.concatenate((np.repeat(kinds % turns, self.shots)[order], kinds[of] % turns)),
            labels=np.concatenate((np.repeat(labels, self.shots)[order], labels[of])),
        )
