"""Images as uint8 arrays: encoded files (by Pillow, which is optional), MNIST's idx files, folders and zip archives."""

from __future__ import annotations

import io
import math
import os
import struct
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F

from regard.data.lines import open_file, reading_errors
from regard.errors import InputError, nearest
from regard.models.config import check
from regard.reading import check_regular, read_bytes

MOST_PIXELS = 50_000_000
"""An image with more is refused: so many take 150 MB, and several times that while they are decoded; a small file may unpack to
any number. The largest of most cameras have fewer."""


def decoded_image(
    content: bytes, name: str, *, colour: bool = True, formats: tuple[str, ...] | None = None
) -> np.ndarray:
    r"""The pixels of an encoded image, upright as its camera meant it: (Y, X, 3) uint8, or (Y, X, 1) without colour.

    What is see-through is before white.

    Arguments:
        content: the bytes of a JPEG, a PNG, or whatever else Pillow reads.
        name: how messages call it.
        colour: red, green and blue; one channel of grey where false.
        formats: those that are read, by Pillow's names; None for all but PostScript, which would start another program.

    Raises:
        InputError: where Pillow is not installed, or the bytes are no image, are cut short or unpack to too many pixels.

    >>> from regard.data.images import decoded_image
    >>> decoded_image(b"text", "notes.jpg")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: notes.jpg: is not a readable image; give a JPEG or a PNG
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise InputError(f"{name}: reading images needs Pillow: pip install 'regard[images]'") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of metadata that nobody asked for, and of sizes, which are judged here
            with Image.open(io.BytesIO(content), formats=formats) as opened:
                if opened.format == "EPS":  # which Pillow hands to Ghostscript
                    raise InputError(
                        f"{name}: is PostScript, a program that another would have to run; give a JPEG or a PNG"
                    )
                if opened.width * opened.height > MOST_PIXELS:
                    raise InputError(
                        f"{name}: has {opened.width} x {opened.height} pixels, more than {MOST_PIXELS:,}; make it smaller"
                    )
                ImageOps.exif_transpose(opened, in_place=True)
                pixels = _pixels(opened, "RGB" if colour else "L")
    except (UnidentifiedImageError, Image.DecompressionBombError):
        raise InputError(f"{name}: is not a readable image; give a JPEG or a PNG") from None
    except InputError:
        raise
    except Exception as error:  # Pillow's decoders raise whatever damaged bytes come to
        said = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{name}: the image is damaged ({said:.300}); fetch it again") from None
    return pixels if colour else pixels[..., None]


ROWS_AT_ONCE = 256


def _pixels(image: Any, mode: str) -> np.ndarray:
    """The pixels of Pillow's image in its mode `RGB` or `L`, some rows at a time: a large one would be held several times."""
    from PIL import Image

    transparent = image.has_transparency_data
    pixels = np.empty((image.height, image.width, 3)[: 3 if mode == "RGB" else 2], np.uint8)
    for top in range(0, image.height, ROWS_AT_ONCE):
        bottom = min(top + ROWS_AT_ONCE, image.height)
        rows = image.crop((0, top, image.width, bottom))
        if transparent:
            rows = rows.convert("RGBA")
            rows = Image.alpha_composite(Image.new("RGBA", rows.size, (255, 255, 255, 255)), rows)
        elif rows.mode.startswith("I;16"):  # 16 bits to a pixel, of which 8 are kept; Pillow would cut them off
            rows = Image.fromarray((np.asarray(rows) >> 8).astype(np.uint8))
        pixels[top:bottom] = np.asarray(rows.convert(mode))
    return pixels


def read_image(path: str | os.PathLike[str], *, colour: bool = True) -> np.ndarray:
    """The pixels of an image in a file, as `decoded_image` gives them.

    Raises:
        InputError: for a file that is not there or cannot be read, and as `decoded_image`.
    """
    name = os.fspath(path)
    return decoded_image(read_bytes(path, "give the path of an image"), name, colour=colour)


# Images of any size to one size.


Fit = Literal["crop", "pad", "stretch"]


def fitted(image: np.ndarray, height: int, width: int, fit: Fit = "crop") -> np.ndarray:
    """An image at another size, smoothed where it becomes smaller.

    | fit | what becomes of an image with other proportions |
    |---|---|
    | `crop` | it fills the frame, and what is over on two sides is cut off |
    | `pad` | all of it is seen, with black around it |
    | `stretch` | its proportions change |

    Arguments:
        image: (Y, X, C) uint8.
        height, width: in pixels.
        fit: see the table.

    Returns:
        (height, width, C) uint8.

    >>> fitted(np.full((4, 8, 1), 200, np.uint8), 2, 2, "pad")[..., 0].tolist()
    [[200, 200], [0, 0]]
    """
    check(height > 0 and width > 0, "the size of images", (height, width), "at least 1 x 1", "give one")
    if image.shape[:2] == (height, width):
        return image
    rows, columns = image.shape[:2]
    scales = (height / rows, width / columns)
    if fit != "stretch":
        scales = (max(scales),) * 2 if fit == "crop" else (min(scales),) * 2
    inner = max(1, round(rows * scales[0])), max(1, round(columns * scales[1]))
    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1).unsqueeze(0).float()
    resized = F.interpolate(pixels, size=inner, mode="bilinear", antialias=True, align_corners=False)
    resized = resized.round().clamp(0, 255).to(torch.uint8)[0].permute(1, 2, 0).numpy()
    return _framed(resized, height, width)


def _framed(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """The middle of an image, and black where it has nothing."""
    framed = np.zeros((height, width, image.shape[2]), np.uint8)
    (top, rows, above), (left, columns, before) = (
        (max(0, (size - room) // 2), min(size, room), max(0, (room - size) // 2))
        for size, room in ((image.shape[0], height), (image.shape[1], width))
    )
    framed[above : above + rows, before : before + columns] = image[top : top + rows, left : left + columns]
    return framed


# The same step by step, as the image processors of Hugging Face's library do it with Pillow.


Filter = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
FILTERS: tuple[Filter, ...] = get_args(Filter)
"""Pillow's ways of resizing, each at the place that is its number there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSteps:
    """Resizing, then cutting out the middle; either may be left out.

    Arguments:
        size: height and width that every image is resized to; or one number, of pixels along the shorter side, and then
            proportions stay; empty = images are not resized.
        resample: how they are resized.
        crop: height and width of the middle that is cut out, with black where an image is smaller; empty = all of it stays.

    >>> ImageSteps(size=(2, 2), resample="box")(np.array([[[0], [4]], [[8], [8]]], np.uint8).repeat(2, 1))[..., 0].tolist()
    [[0, 4], [8, 8]]
    """

    size: tuple[int, ...] = ()
    resample: Filter = "bilinear"
    crop: tuple[int, ...] = ()

    def __call__(self, image: np.ndarray) -> np.ndarray:
        """(Y, X, C) uint8 to (height, width, C) uint8.

        Raises:
            InputError: where an image is to be resized and Pillow is not installed.
        """
        return self._cut(self._resized(image) if self.size else image)

    def _resized(self, image: np.ndarray) -> np.ndarray:
        try:
            from PIL import Image
        except ImportError as error:
            raise InputError("resizing images needs Pillow: pip install 'regard[images]'") from error
        height, width = image.shape[:2]
        if len(self.size) == 2:
            height, width = self.size
        else:
            (side,), short = self.size, min(height, width)
            height, width = (side if each == short else int(side * each / short) for each in (height, width))
        plain = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
        made = np.array(plain.resize((width, height), resample=FILTERS.index(self.resample)))
        return made[..., None] if made.ndim == 2 else made

    def _cut(self, image: np.ndarray) -> np.ndarray:
        if not self.crop:
            return image
        for axis, room in enumerate(self.crop):
            size = image.shape[axis]
            # Where an image is smaller the odd pixel of black goes before it, and where it is larger that of the image behind.
            before = -((size - room) // 2) if size < room else 0
            black = [(0, 0)] * 3
            black[axis] = (before, max(0, room - size - before))
            start = max(0, (size - room) // 2)
            image = np.pad(image, black).take(range(start, start + room), axis=axis)
        return image


IMAGES, LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"


@dataclass(frozen=True, slots=True, eq=False)
class DigitImages:
    """Digits and what they are.

    Arguments:
        pixels: (N, Y, X) uint8, ink bright on black.
        labels: (N,) int64, 0 to 9.
    """

    pixels: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)


def read_digits(place: str | os.PathLike[str] | None = None, part: str = "train") -> DigitImages:
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
    return DigitImages(pixels, labels.astype(np.int64))


def _file(folder: Path, name: str) -> Path:
    # Some copies write a dot before idx.
    spellings = [spelling for stem in (name, name.replace("-idx", ".idx")) for spelling in (f"{stem}.gz", stem)]
    found = next((folder / spelling for spelling in spellings if (folder / spelling).is_file()), None)
    if found is None:
        raise InputError(f"{folder}: holds no {name}.gz; give a folder with MNIST's four files")
    return found


def _of_scikit_learn() -> DigitImages:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise InputError(
            "these digits come with scikit-learn: pip install 'regard[eval]'; or name a folder with MNIST's files"
        ) from error
    found = load_digits()
    pixels = np.asarray(found.images) * (255 / 16)  # type: ignore[attr-defined]
    return DigitImages(pixels.round().astype(np.uint8), np.asarray(found.target, dtype=np.int64))  # type: ignore[attr-defined]


# MNIST's file format: arrays of numbers behind a short head (LeCun, "the IDX file format").


TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""By the third byte of the file, how one number is stored."""

MOST_IDX_BYTES = 1 << 31
"""Of an idx file, unpacked."""


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    r"""The array in an idx file, plain or gzip (recognised by content).

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
        count = math.prod(shape)
        wanted = count * dtype.itemsize
        if not 0 < wanted <= MOST_IDX_BYTES:
            many = "which is too many" if wanted else "which is none"
            raise InputError(f"{name}: says it holds {count:,} numbers, {many}; fetch it again")
        content = bytearray()  # piece by piece, for room is made at once for as much as is asked for
        while len(content) <= wanted and (piece := stream.read(min(wanted + 1 - len(content), 1 << 22))):
            content += piece
    if len(content) != wanted:
        more = "more" if len(content) > wanted else "fewer"
        raise InputError(f"{name}: holds {more} numbers than the {count:,} its head says; fetch it again")
    return np.frombuffer(content, dtype).reshape(shape).astype(dtype.newbyteorder("="))


SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
"""How files that are taken for images end, in either case."""

MOST_BYTES = 1 << 28
"""A file in an archive that unpacks to more is refused."""


class ImagePlace(ABC):
    """Images by name, read one at a time.

    Arguments:
        path: of the folder or archive.
        names: of the images, sorted; parts of a path are joined by `/`, for any system.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path = path
        self.names = tuple(sorted(names))
        self._by_last_part: dict[str, str | None] = {}
        for name in self.names:
            last = PurePosixPath(name).name
            # None where several folders have an image of that name: then the name alone says too little.
            self._by_last_part[last] = None if last in self._by_last_part else name
        self._known = frozenset(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.found(name) is not None

    def found(self, name: str) -> str | None:
        """The full name of an image that is asked for by it, or by its last part where only one is called so; else None."""
        return name if name in self._known else self._by_last_part.get(name)

    def read(self, name: str, *, colour: bool = True) -> np.ndarray:
        """The pixels of one image, as `decoded_image` gives them.

        Raises:
            InputError: where there is none of that name, or it is damaged.
        """
        full = self.found(name)
        if full is None:
            raise InputError(f"{self.path}: no image {name!r} in it; {nearest(name, list(self.names[:1000]))}")
        return decoded_image(self._content(full), f"{self.path}: {full}", colour=colour)

    @abstractmethod
    def _content(self, name: str) -> bytes:
        """The bytes of the image of that full name."""


class _Folder(ImagePlace):
    """All images in a folder and the folders in it."""

    def __init__(self, path: Path) -> None:
        files = (file for file in path.rglob("*") if _is_image(file.relative_to(path)) and file.is_file())
        super().__init__(path, [file.relative_to(path).as_posix() for file in files])

    def _content(self, name: str) -> bytes:
        return read_bytes(self.path / name, "check the file")


class _Archive(ImagePlace):
    """All images in a zip archive, which stays open: reading its list of members again would take longer than an image."""

    def __init__(self, path: Path) -> None:
        check_regular(path, "give a zip archive, or a folder")
        try:
            self._archive = zipfile.ZipFile(path)
        except Exception as error:  # the library raises whatever a damaged list comes to
            raise InputError(f"{path}: is no zip archive that can be read ({error}); fetch it again") from None
        members = (member.filename for member in self._archive.infolist() if not member.filename.endswith(("/", "\\")))
        super().__init__(path, [name for name in members if _is_image(PurePosixPath(name))])

    def __reduce__(self) -> tuple[type[_Archive], tuple[Path]]:
        return _Archive, (self.path,)

    def _content(self, name: str) -> bytes:
        member = self._archive.getinfo(name)
        if member.file_size > MOST_BYTES:
            raise InputError(
                f"{self.path}: {name} unpacks to {member.file_size:,} bytes, which is too many; leave it out"
            )
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # The library unpacks whatever a few bytes of bzip2 or LZMA come to at once, whatever size the archive says.
            raise InputError(f"{self.path}: {name} is packed in a way that is not read; pack the archive by deflating")
        try:
            return self._archive.read(name)
        except Exception as error:  # the library raises whatever a damaged header comes to
            raise InputError(f"{self.path}: {name} cannot be unpacked ({error}); fetch the archive again") from None


def open_images(path: str | os.PathLike[str]) -> ImagePlace:
    """The images in a folder (and the folders in it) or in a zip archive, by name; none is read yet.

    Raises:
        InputError: where there is nothing, something else, or no image in it.
    """
    place = Path(path)
    if place.is_dir():
        found: ImagePlace = _Folder(place)
    elif place.is_file():
        found = _Archive(place)
    else:
        raise InputError(f"{place}: no such folder or archive; give a folder of images, or a zip of them")
    if not found:
        raise InputError(f"{place}: holds no images, which have names such as a.jpg or b.png")
    return found


def _is_image(name: Path | PurePosixPath) -> bool:
    """Whether a file is taken for an image; what systems hide next to files, as `._a.jpg` in `__MACOSX`, is not."""
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in name.parts)
    return not hidden and name.suffix.lower() in SUFFIXES
