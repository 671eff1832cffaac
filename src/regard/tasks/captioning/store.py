"""Captions as token ids in a store, beside the frames of their pictures in one mapped file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from regard.data.scenes import Named
from regard.data.token_store import AnyPath, TokenStore
from regard.errors import InputError
from regard.files import new_file

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

    def __init__(self, folder: Path, tokens: dict[str, np.ndarray], offsets: dict[str, np.ndarray]) -> None:
        super().__init__(folder, tokens, offsets)
        path = frames_file(folder)
        try:
            self.frames: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be read ({error}); prepare the data again in a new folder") from error

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


def frames_file(folder: AnyPath) -> Path:
    """Where the frames are that belong to a store's folder."""
    return Path(folder).with_name(f"{Path(folder).name}.frames.npy")


def numbers_of(named: Sequence[Named]) -> list[int]:
    """What is named, as the column `named` has it."""
    return [number for each in named for number in (*each.words, each.frame, *each.box)]


def write_frames(
    folder: AnyPath, pictures: Iterator[np.ndarray], shape: tuple[int, int, int]
) -> Iterator[tuple[int, int]]:
    """Write pictures, one by one as they are asked for, into the file beside a store's folder.

    Arguments:
        pictures: (F, Y, X, C) uint8 each.
        shape: (Y, X, C), of every frame.

    Yields:
        The span of each picture, once it is written. The file appears when all are.
    """
    path = frames_file(folder)
    count = 0
    with new_file(path) as file:
        head = _head(0, shape)
        file.write(head)
        for frames in pictures:
            if frames.dtype != np.uint8 or frames.shape[1:] != shape:
                raise ValueError(f"a picture is {frames.dtype} {frames.shape}, where frames are uint8 {shape}")
            file.write(np.ascontiguousarray(frames).tobytes())
            count += len(frames)
            yield count - len(frames), count
        file.seek(0, os.SEEK_SET)
        file.write(_head(count, shape))


def _head(count: int, shape: tuple[int, int, int]) -> bytes:
    """The head of an npy file, as long for any number of frames."""
    described = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, {', '.join(map(str, shape))}), }}"
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + described.ljust(117).encode("latin-1") + b"\n"
