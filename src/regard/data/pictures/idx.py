"""MNIST's file format: arrays of numbers behind a short head (LeCun, "the IDX file format")."""

from __future__ import annotations

import os
import struct

import numpy as np

from regard.data.lines import open_file, reading_errors
from regard.errors import InputError

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""By the third byte of the file, how one number is stored."""

MOST_BYTES = 1 << 34


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    r"""The array in an idx file, plain or gzip (told by content).

    Two zero bytes, one for the type, one for the number of axes; the length of each axis as a big-endian 32-bit number; the
    numbers themselves, the last axis fastest.

    Raises:
        InputError: for a file that is not there, is no idx file, or is longer or shorter than its head says.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
    >>> _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    >>> read_idx(file).tolist()
    [7, 2, 1]
    """
    name = os.fspath(path)
    with reading_errors(name, lambda: "the array"), open_file(name) as stream:
        head = stream.read(4)
        if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in TYPES or not 1 <= head[3] <= 8:
            raise InputError(f"{name}: is no idx file; give one such as MNIST's train-images-idx3-ubyte.gz")
        sizes = stream.read(4 * head[3])
        if len(sizes) < 4 * head[3]:
            raise InputError(f"{name}: ends within its head; fetch it again")
        shape = struct.unpack(f">{head[3]}I", sizes)
        dtype = np.dtype(TYPES[head[2]])
        count = 1
        for size in shape:
            count *= size
        if count * dtype.itemsize > MOST_BYTES:
            raise InputError(f"{name}: says it holds {count:,} numbers, which is too many; fetch it again")
        content = stream.read(count * dtype.itemsize + 1)
    if len(content) != count * dtype.itemsize:
        more = "more" if len(content) > count * dtype.itemsize else "fewer"
        raise InputError(f"{name}: holds {more} numbers than the {count:,} its head says; fetch it again")
    return np.frombuffer(content, dtype).reshape(shape).astype(dtype.newbyteorder("="))
