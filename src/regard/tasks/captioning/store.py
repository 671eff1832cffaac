"""Captions as token ids in a store, beside the frames of their pictures in one mapped file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.scenes import Named
from regard.data.token_store import Ids, TokenStore
from regard.tasks.pictures import read_frames

TARGET, FRAMES, NAMED = "target", "frames", "named"
"""The columns. `target`: the caption's ids. `frames`: the first frame of its picture and the one after the last. `named`: for
each thing that it names the tokens that do (the first, and the one after the last), the frame, and the box in pixels."""

LARGE = 1 << 32
NUMBERS = 7
"""In `named`, for each thing."""


def columns(vocabulary: int) -> dict[str, int]:
    """The columns of a store, for a vocabulary of so many tokens."""
    return {TARGET: vocabulary, FRAMES: LARGE, NAMED: LARGE}


class CaptionStore(TokenStore):
    """A `TokenStore` of captions that knows their pictures: frames (N, Y, X, C) uint8, read from disk as they are needed.

    Arguments:
        folder: of the ids; the frames are in a file beside it, which `write_frames` made.
        tokens, offsets: as for `TokenStore`.
    """

    def __init__(self, folder: Path, tokens: dict[str, Ids], offsets: dict[str, np.ndarray]) -> None:
        super().__init__(folder, tokens, offsets)
        self.frames = read_frames(folder)

    def picture(self, row: int) -> np.ndarray:
        """The frames of a caption's picture, (F, Y, X, C) uint8, nothing copied."""
        first, after = self.span(row)
        return self.frames[first:after]

    def span(self, row: int) -> tuple[int, int]:
        """The frames of a caption's picture by number: the first, and the one after the last. No two pictures share one."""
        first, after = self.sequence(FRAMES, row).tolist()
        return first, after

    def named(self, row: int) -> list[Named]:
        """What a caption names, told by tokens, and where it is."""
        numbers = self.sequence(NAMED, row).astype(np.int64).reshape(-1, NUMBERS).tolist()
        return [
            Named((first, after), frame, (top, left, bottom, right))
            for first, after, frame, top, left, bottom, right in numbers
        ]

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return (CaptionStore.open, (self._folder.absolute(),))


def numbers_of(named: Sequence[Named]) -> list[int]:
    """What is named, as the column `named` has it."""
    return [number for each in named for number in (*each.words, each.frame, *each.box)]
