"""Conversion of given images to model inputs, files of frames, and the predicted class of an image."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.images import Fit, ImageSteps, fitted, read_image
from regard.data.token_store import AnyPath
from regard.errors import InputError
from regard.files import new_file, write_file
from regard.reading import check_regular

ImageInput = str | os.PathLike[str] | np.ndarray | Sequence[Any] | Callable[[], np.ndarray]
"""An image: a path; an array (Y, X, C) or (Y, X) uint8, or (F, Y, X, C) for F frames; a list of paths or arrays as frames; or a
function without arguments that returns such an array, so that it need not be in memory before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSize:
    """The size to which every image is converted.

    Arguments:
        height, width: in pixels.
        channels: 3 for red, green and blue, 1 for grey.
        frames: the maximum number of frames of a sequence; 1 for images.
        fit: how images of other proportions are converted; see `regard.data.images.fitted`.
        steps: the conversion steps of a folder of Hugging Face's, instead of `fit`; None if it has none.
    """

    height: int
    width: int
    channels: int = 3
    frames: int = 1
    fit: Fit = "crop"
    steps: ImageSteps | None = None

    def as_steps(self) -> ImageSteps | None:
        """The same conversion (except for rounding) as steps of Hugging Face's; None for padding and non-square crops."""
        if self.steps is not None:
            return self.steps
        if self.fit == "crop" and self.height == self.width:
            return ImageSteps(size=(self.height,), crop=(self.height, self.width))
        return ImageSteps(size=(self.height, self.width)) if self.fit == "stretch" else None

    def settings(self) -> dict[str, Any]:
        """The values for regard.json; `steps` only if there are some, so that earlier versions can read them."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageClassification:
    """The prediction of a classifier or a few-shot learner for an image.

    Arguments:
        label: the most probable class.
        probability: the probability of that class.
        probabilities: the probability of every class: in the order of a classifier, or sorted by name for a few-shot learner.
    """

    label: str
    probability: float
    probabilities: dict[str, float]

    @classmethod
    def of(cls, names: Sequence[str], shares: Sequence[float]) -> ImageClassification:
        """The prediction from the probability of each class."""
        best = max(range(len(names)), key=shares.__getitem__)
        return cls(label=names[best], probability=shares[best], probabilities=dict(zip(names, shares, strict=True)))


def frames_of(image: ImageInput, size: ImageSize) -> np.ndarray:
    """Convert an image to a model's input: (F, height, width, channels) uint8.

    Raises:
        InputError: for a file that is not an image, an array of another dtype or shape, too many frames, or steps that give
            another size.
    """
    frames = frames_as_given(image, colour=size.channels == 3)
    if not 1 <= len(frames) <= size.frames:
        raise InputError(
            f"a sequence of {len(frames)} frames was given, and the model reads up to {size.frames}; "
            + ("give one image at a time" if size.frames == 1 else "leave some out")
        )
    return np.stack([_sized(_channelled(frame, size.channels), size) for frame in frames])


def _sized(frame: np.ndarray, size: ImageSize) -> np.ndarray:
    if size.steps is None:
        return fitted(frame, size.height, size.width, size.fit)
    made = size.steps(frame)
    if made.shape[:2] != (size.height, size.width):
        raise InputError(
            f"an image of {frame.shape[0]} x {frame.shape[1]} pixels becomes {made.shape[0]} x {made.shape[1]} by the steps of "
            f"the model's folder, and the model reads {size.height} x {size.width}; give images of that size"
        )
    return made


def frames_as_given(image: ImageInput, *, colour: bool) -> list[np.ndarray]:
    """The frames of an image in their own size, (Y, X, C) uint8 each.

    Raises:
        InputError: for a file that is not an image, or an array of another dtype or shape.
    """
    if callable(image):
        image = image()
    if isinstance(image, np.ndarray):
        if image.dtype != np.uint8 or image.ndim not in (2, 3, 4) or not image.size:
            raise InputError(
                f"an image is an array of {image.dtype} and shape {image.shape}; give uint8 of shape (Y, X, C), or "
                "(F, Y, X, C) for frames"
            )
        return list(image) if image.ndim == 4 else [image if image.ndim == 3 else image[..., None]]
    if isinstance(image, list | tuple):
        return [frame for part in image for frame in frames_as_given(part, colour=colour)]
    if isinstance(image, str | os.PathLike):
        return [read_image(image, colour=colour)]
    raise InputError(f"an image is a {type(image).__name__}; give a file, or an array of uint8")


def _channelled(frame: np.ndarray, channels: int) -> np.ndarray:
    """A frame with the model's number of channels: grey is repeated in all channels, and colours are converted to luma."""
    given = frame.shape[2]
    if given == channels:
        return frame
    if given == 1:
        return np.repeat(frame, channels, axis=2)
    if given == 3 and channels == 1:
        # The weights of ITU-R 601, as in Pillow.
        return (frame @ np.array([0.299, 0.587, 0.114])).round().astype(np.uint8)[..., None]
    raise InputError(f"an image has {given} channels; give red, green and blue, or one of grey")


# All frames of a data set are in one mapped file, next to the token store of their labels or captions.


def frames_file(folder: AnyPath) -> Path:
    """The path of the frames that belong to a store's folder."""
    return Path(folder).with_name(f"{Path(folder).name}.frames.npy")


class Frames:
    """Frames mapped from disk, (N, Y, X, C) uint8; the checksum of each frame is verified when it is first read.

    Arguments:
        file: the path of the file, for messages.
        array: (N, Y, X, C) uint8.
        sums: (N,) uint32, the CRC-32 of each frame; None for old files without checksums.

    Raises:
        InputError: on reading a frame whose checksum differs.
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
                        f"{self._file}: is not what was written (the checksum of frame {number} differs); prepare the data "
                        "again in a new folder"
                    )
                self._checked[number] = True
        return self._array[rows]

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self[:], dtype)


def _sums_file(path: Path) -> Path:
    return path.with_name(f"{path.name.removesuffix('.npy')}.sums.bin")


def read_frames(folder: AnyPath) -> Frames:
    """The frames next to a store's folder, mapped from disk.

    Raises:
        InputError: if there are none, or they cannot be read.
    """
    path = frames_file(folder)
    sums = _sums_file(path)
    advice = "prepare the data again in a new folder"
    check_regular(path, advice)
    if sums.exists():
        check_regular(sums, advice)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        known = np.fromfile(sums, "<u4") if sums.is_file() else None
    except Exception as error:  # numpy parses the header as Python, so a damaged one can raise almost any error
        raise InputError(f"{path}: cannot be read ({error}); {advice}") from error
    is_array = (
        isinstance(array, np.ndarray) and array.dtype == np.uint8 and array.ndim == 4
    )  # not several, as of an .npz
    if not is_array or (known is not None and len(known) != len(array)):
        raise InputError(f"{path}: is not what was written; {advice}")
    return Frames(path, np.asarray(array), known)


def write_frames(
    folder: AnyPath, images: Iterator[np.ndarray], shape: tuple[int, int, int]
) -> Iterator[tuple[int, int]]:
    """Write images one by one, while the generator is iterated, into the file next to a store's folder.

    Arguments:
        images: (F, Y, X, C) uint8 each.
        shape: (Y, X, C), the shape of every frame.

    Yields:
        The frames of each image (the first, and the one after the last) after it is written. The file appears at the end.
    """
    path = frames_file(folder)
    count = 0
    sums: list[int] = []
    with new_file(path) as file:
        head = _head(0, shape)
        file.write(head)
        for frames in images:
            if frames.dtype != np.uint8 or frames.shape[1:] != shape:
                raise ValueError(f"an image is {frames.dtype} {frames.shape}, where frames are uint8 {shape}")
            file.write(np.ascontiguousarray(frames).tobytes())
            sums += [zlib.crc32(np.ascontiguousarray(frame).data) for frame in frames]
            count += len(frames)
            yield count - len(frames), count
        file.seek(0, os.SEEK_SET)
        file.write(_head(count, shape))
    write_file(_sums_file(path), np.array(sums, "<u4").tobytes())


def _head(count: int, shape: tuple[int, int, int]) -> bytes:
    """The header of an npy file, with the same length for any number of frames."""
    described = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, {', '.join(map(str, shape))}), }}"
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + described.ljust(117).encode("latin-1") + b"\n"
