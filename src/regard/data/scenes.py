"""Builtin images with captions: named objects rendered at sampled positions, so that the box of each object is known."""

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

_MARGIN = 2  # pixels of a cell that its object leaves free, on both sides together


class Named(NamedTuple):
    """An object, the words of the caption that name it, and its position.

    Arguments:
        words: [start, end) indices of the words that name it in the caption, from 0.
        frame: the index of its frame, from 0.
        box: (top, left, bottom, right) in pixels; bottom and right are exclusive.
    """

    words: tuple[int, int]
    frame: int
    box: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """One image, or a short sequence of frames, with its caption.

    Arguments:
        frames: (F, Y, X, C) uint8.
        caption: words separated by spaces.
        named: the objects that the caption names, with their positions.
    """

    frames: np.ndarray
    caption: str
    named: tuple[Named, ...]


class Scenes(Generated[Scene]):
    """`size` random scenes of one split; scene i is a pure function of the settings, seed, split and i.

    | kind | image | caption |
    |---|---|---|
    | `grid` | objects in some cells of a grid, slightly shifted | their names in reading order: `seven three nine` |
    | `line` | a line of handwritten digits, close together | its digits: `7 3 9` |
    | `moving` | an object that moves from frame to frame | its name, and each move: `seven right down right` |

    A hash assigns each arrangement (which object is in which cell) to a split: 80% to "train", 10% each to "validation" and
    "test". No arrangement is in two splits, for any seeds and sizes, and no image of a digit is used in two splits.

    Arguments:
        split: "train", "validation" or "test".
        kind: see the table.
        objects: handwritten `digits` or coloured `shapes`; `line` needs `digits`.
        mnist: a folder with MNIST's files, whose digits are used; None for the digits of scikit-learn.
        rows, columns: the number of rows and columns of the grid; a line has one row.
        cell: height and width of a cell in pixels, at least 8.
        fewest, most: the number of objects in a grid or line is sampled uniformly from fewest to most, inclusive.
        frames: the number of frames for `moving`.
        row_words: for `grid`: whether `top`, `middle` or `bottom` precedes the name of the first object in a row.
        size: number of scenes. They are generated when read, so a large number uses no memory.
        seed: another seed gives other scenes.

    Raises:
        InputError: for an unknown split or kind, or numbers that do not allow a scene.

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
                raise InputError("scenes: kind line shows digits only; set objects to digits, or kind to grid")
        if min(rows, columns, frames, fewest) < 1 or cell < 8:
            raise InputError(
                f"scenes: {rows} x {columns} cells of {cell} pixels, {fewest} objects or more and {frames} frames "
                "are not possible; give cells of at least 8 pixels, and at least 1 for each of the others"
            )
        if kind != "moving" and not fewest <= most <= rows * columns:
            raise InputError(
                f"scenes: {fewest} to {most} objects in {rows * columns} cells; give fewest <= most <= number of cells"
            )
        if kind == "moving" and rows * columns < 2:
            raise InputError("scenes: an object needs at least two cells to move; raise rows or columns")
        if row_words and rows not in ROWS:
            raise InputError(f"scenes: row_words exist for 2 or 3 rows, not for {rows}; leave row_words out")
        self.kind, self.objects, self.mnist = kind, objects, mnist
        self.rows, self.columns, self.cell = rows, columns, cell
        self.fewest, self.most = fewest, most
        self.frames = frames if kind == "moving" else 1
        self.row_words = row_words and kind == "grid"
        self.glyphs = _glyphs(objects, cell - _MARGIN, mnist)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(F, Y, X, C), the shape of every scene's frames."""
        return self.frames, self.rows * self.cell, self.columns * self.cell, self.glyphs.channels

    def words(self) -> tuple[str, ...]:
        """All words that can occur in captions.

        >>> Scenes(kind="line", objects="digits").words()
        ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
        """
        if self.kind == "line":
            return tuple(map(str, range(10)))
        names = [word for name in self.glyphs.names for word in name.split()]
        others = MOVES if self.kind == "moving" else ROWS[self.rows] if self.row_words else ()
        return tuple(dict.fromkeys((*names, *others)))

    def sample(self, rng: Random) -> Scene:
        """One random scene of the split.

        Raises:
            InputError: if there are so few arrangements that none was found in this split.
        """
        for _ in range(ATTEMPTS):
            numbers, cells = self._arranged(rng)
            if split_of(f"regard scenes {self.kind} {numbers} {cells}") == self.split:
                return (
                    self._moving(numbers[0], cells, rng) if self.kind == "moving" else self._still(numbers, cells, rng)
                )
        raise InputError(
            f"scenes: no arrangement was found in the split {self.split!r}; there are too few, so give more cells or objects"
        )

    def _arranged(self, rng: Random) -> tuple[list[int], list[int]]:
        """The objects and their cells, in reading order; for `moving`, one object and its cell in each frame."""
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
        """The neighbouring cells of a cell, by direction."""
        row, column = divmod(cell, self.columns)
        there = {name: (row + down, column + right) for name, (down, right) in MOVES.items()}
        return {
            name: y * self.columns + x for name, (y, x) in there.items() if 0 <= y < self.rows and 0 <= x < self.columns
        }

    def _still(self, numbers: list[int], cells: list[int], rng: Random) -> Scene:
        canvas = np.zeros(self.shape, np.uint8)
        words: list[str] = []
        named: list[Named] = []
        rows_named: set[int] = set()
        edge = below(rng, self.cell // 4)
        for number, cell in zip(numbers, cells, strict=True):
            row, column = divmod(cell, self.columns)
            if self.row_words and row not in rows_named:
                rows_named.add(row)
                words.append(ROWS[self.rows][row])
            name = [str(number)] if self.kind == "line" else self.glyphs.names[number].split()
            left = edge if self.kind == "line" else column * self.cell + below(rng, _MARGIN + 1)
            box = self._put(canvas[0], number, row * self.cell + below(rng, _MARGIN + 1), left, rng)
            edge = box[3] - below(rng, self.cell // 4)  # the next digit of a line may touch this one, as in handwriting
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
        """Paint an object into a frame (the brighter pixel wins where objects overlap); returns its box."""
        glyph = self.glyphs.sampled(number, self.split, rng)
        bottom, right = min(frame.shape[0], top + len(glyph)), min(frame.shape[1], left + len(glyph))
        place = frame[top:bottom, left:right]
        np.maximum(place, glyph[: bottom - top, : right - left], out=place)
        return top, left, bottom, right


@lru_cache(maxsize=8)
def _glyphs(objects: str, side: int, mnist: str | None) -> Glyphs:
    """The images of the objects; cached, because reading MNIST takes a second."""
    return ShapeGlyphs(side) if objects == "shapes" else DigitGlyphs(side, mnist)


# The objects in scenes: small images of handwritten digits or coloured shapes, with names.


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
    """Small images of named objects, by the object's index.

    Arguments:
        names: the name of each object, one or two words.
        channels: the number of channels: 1 for grey, 3 for colour.
        side: height and width of an image in pixels.
    """

    def __init__(self, names: tuple[str, ...], channels: int, side: int) -> None:
        self.names = names
        self.channels = channels
        self.side = side

    @abstractmethod
    def sampled(self, number: int, split: str, rng: Random) -> np.ndarray:
        """A random image of an object on black, (side, side, channels) uint8.

        Arguments:
            number: the index of the object.
            split: `train`, `validation` or `test`; they have different images of digits.
            rng: random number generator.
        """


class DigitGlyphs(Glyphs):
    """Images of handwritten digits: 80% of them are used in `train`, 10% each in `validation` and `test`.

    Arguments:
        side: height and width of an image in pixels.
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

    def sampled(self, number: int, split: str, rng: Random) -> np.ndarray:
        """A random one of the split's images of a digit."""
        rows = self._rows[split, number]
        return self._pixels[rows[int(rng.random() * len(rows))]][..., None]


class ShapeGlyphs(Glyphs):
    """Shapes in plain colours and random sizes. They need no files and no other packages.

    >>> glyphs = ShapeGlyphs(12)
    >>> glyphs.names[:2], glyphs.sampled(0, "train", Random(1)).shape
    (('red circle', 'red square'), (12, 12, 3))
    """

    def __init__(self, side: int) -> None:
        super().__init__(tuple(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES), 3, side)

    def sampled(self, number: int, split: str, rng: Random) -> np.ndarray:
        """The shape in a random size, from 70% to 100% of the side."""
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
    """Resize (N, Y, X) uint8 images to (N, side, side) uint8, a few thousand at a time."""
    parts = []
    for some in np.array_split(pixels, max(1, len(pixels) // 4096)):
        given = torch.from_numpy(some.astype(np.float32)).unsqueeze(1)
        found = F.interpolate(given, size=(side, side), mode="bilinear", antialias=True, align_corners=False)
        parts.append(found.round().clamp(0, 255).to(torch.uint8).squeeze(1).numpy())
    return np.concatenate(parts)
