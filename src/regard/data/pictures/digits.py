"""Pictures of single handwritten digits: MNIST's, or the small ones that come with scikit-learn; and MNIST's file format."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.lines import open_file, reading_errors
from regard.errors import InputError

IMAGES, LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"


@dataclass(frozen=True, slots=True, eq=False)
class DigitPictures:
    """Digits and what they are.

    Arguments:
        pixels: (N, Y, X) uint8, ink bright on black.
        labels: (N,) int64, 0 to 9.
    """

    pixels: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)


def read_digits(place: str | os.PathLike[str] | None = None, part: str = "train") -> DigitPictures:
    """Handwritten digits.

    Arguments:
        place: a folder with MNIST's files, such as `train-images-idx3-ubyte.gz`; None for the 1,797 digits of 8 x 8 pixels that
            come with scikit-learn (UCI's "optical recognition of handwritten digits").
        part: how the files begin: `train`, or `t10k`, MNIST's test. scikit-learn's have one part.

    Raises:
        InputError: for files that are missing or do not belong together, or where scikit-learn is not installed.
    """
    if place is None:
        return _of_scikit_learn()
    folder = Path(place)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the one with MNIST's {part}-{IMAGES}.gz")
    pixels, labels = (read_idx(_file(folder, f"{part}-{kind}")) for kind in (IMAGES, LABELS))
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or labels.ndim != 1 or len(pixels) != len(labels):
        raise InputError(
            f"{folder}: {part}-{IMAGES} holds {pixels.shape} and {part}-{LABELS} {labels.shape}; they do not belong together"
        )
    if len(labels) == 0 or labels.min() < 0 or labels.max() > 9:
        raise InputError(f"{folder}: {part}-{LABELS} are not the numbers 0 to 9; give MNIST's files")
    return DigitPictures(pixels, labels.astype(np.int64))


def _file(folder: Path, name: str) -> Path:
    # Some copies write a dot before idx.
    spellings = [spelling for stem in (name, name.replace("-idx", ".idx")) for spelling in (f"{stem}.gz", stem)]
    found = next((folder / spelling for spelling in spellings if (folder / spelling).is_file()), None)
    if found is None:
        raise InputError(f"{folder}: holds no {name}.gz; give a folder with MNIST's four files")
    return found


def _of_scikit_learn() -> DigitPictures:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise InputError(
            "these digits come with scikit-learn: pip install 'regard[eval]'; or name a folder with MNIST's files"
        ) from error
    found = load_digits()
    pixels = np.asarray(found.images) * (255 / 16)  # type: ignore[attr-defined]
    return DigitPictures(pixels.round().astype(np.uint8), np.asarray(found.target, dtype=np.int64))  # type: ignore[attr-defined]


# MNIST's file format: arrays of numbers behind a short head (LeCun, "the IDX file format").


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
