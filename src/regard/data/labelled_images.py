"""Images with a class, with captions, or of single characters; and episodes of few-shot classification."""

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
"""How the files of each part of MNIST begin."""

HELD_OUT_DIGITS = 360
"""The last of scikit-learn's digits, a fifth, are their test part."""

IMAGE_KEYS, LABEL_KEYS = ("image", "img", "picture"), ("label", "labels", "fine_label")
"""What datasets of the hub call the two; the first of each that a row has is taken."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LabelledImage:
    """An image and its class.

    Arguments:
        image: (Y, X, C) or (Y, X) uint8; or what gives it when it is called.
        label: of the class.
        name: how messages call it.
    """

    image: np.ndarray | Callable[[], np.ndarray]
    label: str
    name: str


def read_labelled_images(
    place: str | os.PathLike[str] | None, part: Part = "train", *, colour: bool = True
) -> Sequence[LabelledImage]:
    """Images with their classes.

    | place | what it is | part |
    |---|---|---|
    | a folder with `train-images-idx3-ubyte.gz` and so on | MNIST's, or another set's in its format | `train`, or `test` (t10k) |
    | another folder, or a zip archive | images in folders, each called as their class | all of it |
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
    """Whether a folder holds files in MNIST's format, by their names."""
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
            continue  # a dataset's rows are objects; only a file's lines can be none
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
    """An image of a dataset: encoded bytes, or one that the library has opened by Pillow."""
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
    """One caption.

    Arguments:
        image: the name of the image it is of; several captions may be of one.
        text: the caption.
        file, line: where it was read, from 1.
    """

    image: str
    text: str
    file: str
    line: int


def read_captions(
    path: str | os.PathLike[str], *, on_error: str = "skip", malformed: MalformedRows | None = None
) -> Iterator[CaptionLine]:
    r"""The captions in a table of two columns, the image's name and the caption.

    Tabs part the columns, as in Flickr8k's own files, where the number of the caption follows the name (`dog.jpg#3`) and is left
    out here; or commas, in a file that is called .csv or begins with the header `image,caption`.

    Arguments:
        path: of the file; gzip is recognised.
        on_error: what a malformed row does: `skip` (it is recorded and left out) or `stop`.
        malformed: where malformed rows are recorded.

    Raises:
        InputError: for a file that cannot be read or has no caption, from the call or while reading; or for a malformed row.

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
    """Images of characters, those of a class next to one another.

    Arguments:
        pixels: (M, side, side) uint8, ink bright on black.
        classes: (M,) int64, which never falls: the number of each image's class, from 0.
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
        InputError: for images that do not lie in folders, GROUP/CLASS/IMAGE.
    """
    return tuple(sorted({group for group, _ in map(_group_and_class, open_images(place))}))


def read_characters(
    place: str | os.PathLike[str], alphabets: Sequence[str] | None = None, *, side: int = 28
) -> Characters:
    """The characters in a folder or zip archive laid out as Omniglot's: ALPHABET/CHARACTER/IMAGE, in any folder above.

    Images that are bright at their edge, as ink on paper is, are inverted.

    Arguments:
        place: such as `images_background.zip`.
        alphabets: which; all where None.
        side: rows and columns to shrink the images to, in pixels.

    Raises:
        InputError: for an alphabet that is not there, with the nearest, or an image that cannot be read.
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
        raise InputError(f"{name}: images of characters must be in folders, ALPHABET/CHARACTER/IMAGE, as Omniglot's")
    return parts[-3], parts[-2]


def with_bright_ink(image: np.ndarray) -> np.ndarray:
    """An image, (Y, X) uint8, or its negative where most of its edge is bright, as ink on paper is."""
    edge = np.concatenate((image[0], image[-1], image[:, 0], image[:, -1]))
    return 255 - image if np.median(edge) > 127 else image


# Episodes: a few classes, a few images of each with labels that hold for this episode alone, and others to be classified.


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One problem of learning from a few examples, as places in a store of images.

    Arguments:
        images: (N K + Q,) int64, which images, the Q that are asked about last.
        turns: (N K + Q,) int64, by how many quarters each is turned; all images of a class alike.
        labels: (N K + Q,) int64, the last Q of them those to predict.
    """

    images: np.ndarray
    turns: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Episodes:
    """Samples episodes of images whose classes are next to one another.

    Arguments:
        classes: (M,) int64, which never falls: the number of each image's class.
        ways: N, classes of an episode.
        shots: K, labelled images of each.
        turned: whether a class turned by a quarter, a half or three quarters is another class.
        asked: Q, images asked about, of each class as many as of the others, give or take one.

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
        """What keeps episodes from being sampled, as half a sentence; empty where nothing does."""
        counts = np.bincount(self.classes)
        kinds = len(counts) * (4 if self.turned else 1)
        if kinds < self.ways:
            return f"{kinds} classes are too few for episodes of {self.ways}"
        asked = -(-self.asked // self.ways)  # of the class of the image an episode is about, that image among them
        if (
            self.turned and self.ways > 1
        ):  # the same class turned may be another of the classes, and leaves that image out
            asked = max(asked, 1 + -(-(self.asked - 1) // self.ways))
        if counts.min() < self.shots + asked:
            return f"a class has {counts.min()} images, and {self.shots} to show and {asked} to ask about are wanted"
        return ""

    def about(self, image: int, draw: int) -> Episode:
        """The episode that asks about an image, and about others where `asked` is above 1: a pure function of it and of `draw`.

        The other classes are sampled from all, the images shown and asked about from those of each class, and labels and order
        again.
        """
        random = np.random.Generator(np.random.Philox(key=[image, draw]))
        turns = 4 if self.turned else 1
        counts = np.bincount(self.classes)
        first = np.cumsum(counts) - counts
        own = int(self.classes[image]) * turns + int(random.integers(turns))
        others = random.choice(len(counts) * turns - 1, size=self.ways - 1, replace=False)
        kinds = np.concatenate(([own], others + (others >= own)))
        of = np.arange(self.asked) % self.ways  # which of the kinds each image that is asked about is of
        shown, asked = [], np.full(self.asked, image)
        for place, kind in enumerate(kinds.tolist()):
            there = first[kind // turns] + np.arange(int(counts[kind // turns]))
            further = np.flatnonzero(of == place)[place == 0 :]  # the first of all is `image`
            drawn = random.choice(there[there != image], size=self.shots + len(further), replace=False)
            shown.append(drawn[: self.shots])
            asked[further] = drawn[self.shots :]
        labels = random.permutation(self.ways)
        order = random.permutation(self.ways * self.shots)
        return Episode(
            images=np.concatenate((np.concatenate(shown)[order], asked)),
            turns=np.concatenate((np.repeat(kinds % turns, self.shots)[order], kinds[of] % turns)),
            labels=np.concatenate((np.repeat(labels, self.shots)[order], labels[of])),
        )
