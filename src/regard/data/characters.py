"""Pictures of single characters by class, classes by group (Omniglot's alphabets, handwritten digits), and episodes of few."""

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


# Episodes: a few classes, a few pictures of each with labels that hold for this episode alone, and others to be told.


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One problem of learning from a few examples, as places in a store of pictures.

    Arguments:
        pictures: (N K + Q,) int64, which pictures, the Q that are asked about last.
        turns: (N K + Q,) int64, by how many quarters each is turned; all pictures of a class alike.
        labels: (N K + Q,) int64, the last Q of them what is to be told.
    """

    pictures: np.ndarray
    turns: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Episodes:
    """Draws episodes of pictures whose classes stand next to one another.

    Arguments:
        classes: (M,) int64, which never falls: the number of each picture's class.
        ways: N, classes of an episode.
        shots: K, labelled pictures of each.
        turned: whether a class turned by a quarter, a half or three quarters is another class.
        asked: Q, pictures asked about, of each class as many as of the others, give or take one.

    >>> episodes = Episodes(np.repeat(np.arange(6), 4), ways=3, shots=1, turned=False)
    >>> episode = episodes.about(5, draw=0)
    >>> int(episode.pictures[-1]), len(set(episode.labels[:-1].tolist())), int(episode.labels[-1]) in episode.labels[:-1]
    (5, 3, True)
    """

    classes: np.ndarray
    ways: int
    shots: int
    turned: bool
    asked: int = 1

    @property
    def too_few(self) -> str:
        """What keeps episodes from being drawn, as half a sentence; empty where nothing does."""
        counts = np.bincount(self.classes)
        kinds = len(counts) * (4 if self.turned else 1)
        if kinds < self.ways:
            return f"{kinds} classes are too few for episodes of {self.ways}"
        asked = -(-self.asked // self.ways)  # of the class of the picture an episode is about, that picture among them
        if self.turned and self.ways > 1:  # the same class turned stands beside it, and leaves that picture out
            asked = max(asked, 1 + -(-(self.asked - 1) // self.ways))
        if counts.min() < self.shots + asked:
            return f"a class has {counts.min()} pictures, and {self.shots} to show and {asked} to ask about are wanted"
        return ""

    def about(self, picture: int, draw: int) -> Episode:
        """The episode that asks about a picture, and about others where `asked` is above 1: a pure function of it and of `draw`.

        The other classes are drawn from all, the pictures shown and asked about from those of each class, and labels and order
        anew.
        """
        random = np.random.Generator(np.random.Philox(key=[picture, draw]))
        turns = 4 if self.turned else 1
        counts = np.bincount(self.classes)
        first = np.cumsum(counts) - counts
        own = int(self.classes[picture]) * turns + int(random.integers(turns))
        others = random.choice(len(counts) * turns - 1, size=self.ways - 1, replace=False)
        kinds = np.concatenate(([own], others + (others >= own)))
        of = np.arange(self.asked) % self.ways  # which of the kinds each picture that is asked about is of
        shown, asked = [], np.full(self.asked, picture)
        for place, kind in enumerate(kinds.tolist()):
            there = first[kind // turns] + np.arange(int(counts[kind // turns]))
            further = np.flatnonzero(of == place)[place == 0 :]  # the first of all is `picture`
            drawn = random.choice(there[there != picture], size=self.shots + len(further), replace=False)
            shown.append(drawn[: self.shots])
            asked[further] = drawn[self.shots :]
        labels = random.permutation(self.ways)
        order = random.permutation(self.ways * self.shots)
        return Episode(
            pictures=np.concatenate((np.concatenate(shown)[order], asked)),
            turns=np.concatenate((np.repeat(kinds % turns, self.shots)[order], kinds[of] % turns)),
            labels=np.concatenate((np.repeat(labels, self.shots)[order], labels[of])),
        )
