"""Builtin images with captions: things that have names, drawn where the scene says, so that the place of each is known."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np
import torch
import torch.nn.functional as F

from regard.data.generated import ATTEMPTS, Generated, below, hashed, split_of
from regard.data.images import read_digits
from regard.errors import InputError, nearest

__all__ = ["KINDS", "OBJECTS", "Named", "Scene", "Scenes"]

Kind = Literal["grid", "line", "moving"]
Objects = Literal["digits", "shapes"]
KINDS: tuple[str, ...] = get_args(Kind)
OBJECTS: tuple[str, ...] = get_args(Objects)
ROWS = {2: ("top", "bottom"), 3: ("top", "middle", "bottom")}
MOVES = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}

_MARGIN = 2  # pixels of a cell that its thing leaves free, on both sides together


class Named(NamedTuple):
    """A thing that some words of the caption name, and where it is.

    Arguments:
        words: the first of them and the one after the last, counted from 0.
        frame: in which frame.
        box: top, left, bottom and right in pixels; the last two are just outside.
    """

    words: tuple[int, int]
    frame: int
    box: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """One image, or short sequence of frames, with its caption.

    Arguments:
        frames: (F, Y, X, C) uint8.
        caption: words with spaces between.
        named: what the caption names.
    """

    frames: np.ndarray
    caption: str
    named: tuple[Named, ...]


class Scenes(Generated[Scene]):
    """`size` random scenes of one split; scene i is a pure function of the settings, seed, split and i.

    | kind | what is seen | caption |
    |---|---|---|
    | `grid` | things in some cells of a grid, shifted a little | their names in reading order: `seven three nine` |
    | `line` | a line of handwriting, closely written | its digits: `7 3 9` |
    | `moving` | a thing that moves from frame to frame | its name, and each move: `seven right down right` |

    An arrangement, which thing is in which cell, belongs to "train" (eight tenths), "validation" or "test" (a tenth each) by a
    hash: whatever seeds and sizes, none of one split is ever in another. No two splits share a handwriting either.

    Arguments:
        split: "train", "validation" or "test".
        kind: see the table.
        objects: `digits`, handwritten, or coloured `shapes`; a line is of digits.
        mnist: a folder with MNIST's files to take the digits from; scikit-learn's where None.
        rows, columns: of the grid; a line has one row.
        cell: height and width of a cell in pixels.
        fewest, most: things in a grid or line, drawn uniformly, both ends included.
        frames: of `moving`.
        row_words: of `grid`: whether `top`, `middle` or `bottom` is before the first thing of a row.
        size: number of scenes; they are made when read, so any number costs nothing.
        seed: another seed gives other scenes.

    Raises:
        InputError: for an unknown split or kind, or numbers that make no scene.

    >>> scenes = Scenes("train", objects="shapes", rows=2, columns=2, fewest=1, most=2, size=10)
    >>> scenes[3].frames.shape, scenes[3].caption == Scenes("train", objects="shapes", rows=2, columns=2, fewest=1, most=2,
    ...                                                     size=4)[3].caption
    ((1, 32, 32, 3), True)
    """

    called: ClassVar[str] = "scenes"
    noun: ClassVar[str] = "scene"

    def __init__(
        self,
        split: str = "train",
        *,
        kind: str = "grid",
        objects: str = "digits",
        mnist: str | None = None,
        rows: int = 3,
        columns: int = 3,
        cell: int = 16,
        fewest: int = 3,
        most: int = 3,
        frames: int = 4,
        row_words: bool = False,
        size: int = 20_000,
        seed: int = 0,
    ) -> None:
        super().__init__(split, size=size, seed=seed)
        for name, value, known in (("kind", kind, KINDS), ("objects", objects, OBJECTS)):
            if value not in known:
                raise InputError(f"scenes: {name} is {value!r}; {nearest(value, known)}")
        if kind == "line":
            rows = 1
            if objects != "digits":
                raise InputError("scenes: a line of handwriting is of digits; set objects to digits, or kind to grid")
        if min(rows, columns, frames, fewest) < 1 or cell < 8:
            raise InputError(
                f"scenes: {rows} x {columns} cells of {cell} pixels, {fewest} things or more and {frames} frames "
                "are not all possible; give cells of at least 8 pixels and 1 or more of the others"
            )
        if kind != "moving" and not fewest <= most <= rows * columns:
            raise InputError(
                f"scenes: {fewest} to {most} things in {rows * columns} cells; give fewest <= most, and no more than cells"
            )
        if kind == "moving" and rows * columns < 2:
            raise InputError("scenes: a thing needs two cells to move; raise rows or columns")
        if row_words and rows not in ROWS:
            raise InputError(f"scenes: row_words are known for 2 or 3 rows, not for {rows}; leave them out")
        self.kind, self.objects, self.mnist = kind, objects, mnist
        self.rows, self.columns, self.cell = rows, columns, cell
        self.fewest, self.most = fewest, most
        self.frames = frames if kind == "moving" else 1
        self.row_words = row_words and kind == "grid"
        self.glyphs = _glyphs(objects, cell - _MARGIN, mnist)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(F, Y, X, C) of every scene."""
        return self.frames, self.rows * self.cell, self.columns * self.cell, self.glyphs.channels

    def words(self) -> tuple[str, ...]:
        """Every word that a caption may hold.

        >>> Scenes(kind="line", objects="digits").words()
        ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
        """
        if self.kind == "line":
            return tuple(map(str, range(10)))
        names = [word for name in self.glyphs.names for word in name.split()]
        others = MOVES if self.kind == "moving" else ROWS[self.rows] if self.row_words else ()
        return tuple(dict.fromkeys((*names, *others)))

    def sample(self, rng: Random) -> Scene:
        """A scene.

        Raises:
            InputError: where there are so few arrangements that none was found in this split.
        """
        for _ in range(ATTEMPTS):
            numbers, cells = self._arranged(rng)
            if split_of(f"regard scenes {self.kind} {numbers} {cells}") == self.split:
                return (
                    self._moving(numbers[0], cells, rng) if self.kind == "moving" else self._still(numbers, cells, rng)
                )
        raise InputError(
            f"scenes: no arrangement was found in the split {self.split!r}; there are too few, so give more cells or things"
        )

    def _arranged(self, rng: Random) -> tuple[list[int], list[int]]:
        """Which things, and in which cells: in reading order, or of one thing frame by frame."""
        if self.kind == "moving":
            cells = [below(rng, self.rows * self.columns)]
            while len(cells) < self.frames:
                steps = list(self._neighbours(cells[-1]).values())
                cells.append(steps[below(rng, len(steps))])
            return [below(rng, len(self.glyphs.names))], cells
        count = self.fewest + below(rng, self.most - self.fewest + 1)
        numbers = [below(rng, len(self.glyphs.names)) for _ in range(count)]
        if self.kind == "line":
            return numbers, list(range(count))
        left = list(range(self.rows * self.columns))
        return numbers, sorted(left.pop(below(rng, len(left))) for _ in range(count))

    def _neighbours(self, cell: int) -> dict[str, int]:
        """The neighbouring cells, by the direction."""
        row, column = divmod(cell, self.columns)
        there = {name: (row + down, column + right) for name, (down, right) in MOVES.items()}
        return {
            name: y * self.columns + x for name, (y, x) in there.items() if 0 <= y < self.rows and 0 <= x < self.columns
        }

    def _still(self, numbers: list[int], cells: list[int], rng: Random) -> Scene:
        canvas = np.zeros(self.shape, np.uint8)
        words: list[str] = []
        named: list[Named] = []
        rows_told: set[int] = set()
        edge = below(rng, self.cell // 4)
        for number, cell in zip(numbers, cells, strict=True):
            row, column = divmod(cell, self.columns)
            if self.row_words and row not in rows_told:
                rows_told.add(row)
                words.append(ROWS[self.rows][row])
            name = [str(number)] if self.kind == "line" else self.glyphs.names[number].split()
            left = edge if self.kind == "line" else column * self.cell + below(rng, _MARGIN + 1)
            box = self._put(canvas[0], number, row * self.cell + below(rng, _MARGIN + 1), left, rng)
            edge = box[3] - below(
                rng, self.cell // 4
            )  # the next digit of a line may touch this one, as handwriting does
            named.append(Named((len(words), len(words) + len(name)), 0, box))
            words += name
        return Scene(canvas, " ".join(words), tuple(named))

    def _moving(self, number: int, cells: list[int], rng: Random) -> Scene:
        canvas = np.zeros(self.shape, np.uint8)
        words = self.glyphs.names[number].split()
        spans = [(0, len(words))]
        for before, after in itertools.pairwise(cells):
            spans.append((len(words), len(words) + 1))
            words.append(next(name for name, cell in self._neighbours(before).items() if cell == after))
        state = rng.random()
        named = []
        for frame, (cell, span) in enumerate(zip(cells, spans, strict=True)):
            top, left = (part * self.cell + _MARGIN // 2 for part in divmod(cell, self.columns))
            named.append(Named(span, frame, self._put(canvas[frame], number, top, left, Random(hashed(str(state))))))
        return Scene(canvas, " ".join(words), tuple(named))

    def _put(self, frame: np.ndarray, number: int, top: int, left: int, rng: Random) -> tuple[int, int, int, int]:
        """Draw a thing into a frame, over what is there already; returns its box."""
        drawn = self.glyphs.drawn(number, self.split, rng)
        bottom, right = min(frame.shape[0], top + len(drawn)), min(frame.shape[1], left + len(drawn))
        place = frame[top:bottom, left:right]
        np.maximum(place, drawn[: bottom - top, : right - left], out=place)
        return top, left, bottom, right


@lru_cache(maxsize=8)
def _glyphs(objects: str, side: int, mnist: str | None) -> Glyphs:
    """Kept, because MNIST takes a second to read."""
    return ShapeGlyphs(side) if objects == "shapes" else DigitGlyphs(side, mnist)


# What scenes show: small images of things with names, handwritten digits or coloured shapes.


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
        channels: of an image: 1 for grey ones, 3 for colours.
        side: an image is at most so many pixels high and wide.
    """

    def __init__(self, names: tuple[str, ...], channels: int, side: int) -> None:
        self.names = names
        self.channels = channels
        self.side = side

    @abstractmethod
    def drawn(self, number: int, split: str, rng: Random) -> np.ndarray:
        """An image of a thing, (side, side, channels) uint8 on black; another one each time.

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
