"""Frames of pictures in one mapped file, beside the store of what is said of them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from regard.data.token_store import AnyPath
from regard.errors import InputError
from regard.files import new_file, write_file


def frames_file(folder: AnyPath) -> Path:
    """Where the frames are that belong to a store's folder."""
    return Path(folder).with_name(f"{Path(folder).name}.frames.npy")


class Frames:
    """Frames mapped from disk, (N, Y, X, C) uint8, each checked when it is first read.

    Arguments:
        file: they are from.
        array: (N, Y, X, C) uint8.
        sums: (N,) uint32, the CRC-32 of each frame; None for a file of before there were any.

    Raises:
        InputError: where frames are read that are not what was written.
    """

    def __init__(self, file: Path, array: np.ndarray, sums: np.ndarray | None) -> None:
        self._file, self._array, self._sums = file, array, sums
        self._checked = np.full(len(array), sums is None)

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, Y, X, C)."""
        return self._array.shape

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, rows: int | slice | np.ndarray) -> np.ndarray:
        if not self._checked[rows].all():
            for number in np.arange(len(self._array))[rows].reshape(-1).tolist():
                if self._sums is not None and zlib.crc32(self._array[number].data) != self._sums[number]:
                    raise InputError(
                        f"{self._file}: is not what was written (the checksum of frame {number} differs); prepare the data again "
                        "in a new folder"
                    )
                self._checked[number] = True
        return self._array[rows]

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self[:], dtype)


def _sums_file(path: Path) -> Path:
    return path.with_name(f"{path.name.removesuffix('.npy')}.sums.bin")


def read_frames(folder: AnyPath) -> Frames:
    """The frames beside a store's folder, read from disk as they are needed.

    Raises:
        InputError: where there are none, or they cannot be read.
    """
    path = frames_file(folder)
    sums = _sums_file(path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        told = np.fromfile(sums, "<u4") if sums.is_file() else None
    except Exception as error:  # numpy reads the header as Python, so that a damaged one raises almost anything
        raise InputError(f"{path}: cannot be read ({error}); prepare the data again in a new folder") from error
    if array.dtype != np.uint8 or array.ndim != 4 or (told is not None and len(told) != len(array)):
        raise InputError(f"{path}: is not what was written; prepare the data again in a new folder")
    return Frames(path, np.asarray(array), told)


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
    sums: list[int] = []
    with new_file(path) as file:
        head = _head(0, shape)
        file.write(head)
        for frames in pictures:
            if frames.dtype != np.uint8 or frames.shape[1:] != shape:
                raise ValueError(f"a picture is {frames.dtype} {frames.shape}, where frames are uint8 {shape}")
            file.write(np.ascontiguousarray(frames).tobytes())
            sums += [zlib.crc32(np.ascontiguousarray(frame).data) for frame in frames]
            count += len(frames)
            yield count - len(frames), count
        file.seek(0, os.SEEK_SET)
        file.write(_head(count, shape))
    write_file(_sums_file(path), np.array(sums, "<u4").tobytes())


def _head(count: int, shape: tuple[int, int, int]) -> bytes:
    """The head of an npy file, as long for any number of frames."""
    described = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, {', '.join(map(str, shape))}), }}"
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + described.ljust(117).encode("latin-1") + b"\n"
