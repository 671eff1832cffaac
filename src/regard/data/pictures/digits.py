"""Pictures of single handwritten digits: MNIST's, or the small ones that come with scikit-learn."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.pictures.idx import read_idx
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
