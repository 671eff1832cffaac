"""Frames of pictures in one mapped file, beside the store of what is said of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from regard.data.token_store import AnyPath
from regard.errors import InputError
from regard.files import new_file


def frames_file(folder: AnyPath) -> Path:
    """Where the frames are that belong to a store's folder."""
    return Path(folder).with_name(f"{Path(folder).name}.frames.npy")


def read_frames(folder: AnyPath) -> np.ndarray:
    """The frames beside a store's folder, (N, Y, X, C) uint8, read from disk as they are needed.

    Raises:
        InputError: where there are none, or they cannot be read.
    """
    path = frames_file(folder)
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy reads the header as Python, so that a damaged one raises almost anything
        raise InputError(f"{path}: cannot be read ({error}); prepare the data again in a new folder") from error


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
