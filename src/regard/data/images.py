"""Images as uint8 arrays: encoded files (with Pillow, which is optional), MNIST's idx files, folders and zip archives."""

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
"""Images with more pixels are refused. This many take 150 MB, and several times that during decoding, and even a small file can
decompress to more. Most cameras produce fewer."""


def decoded_image(
    content: bytes, name: str, *, colour: bool = True, formats: tuple[str, ...] | None = None
) -> np.ndarray:
    r"""The pixels of an encoded image, rotated upright by its EXIF orientation.

    Transparent images are composited over white.

    Arguments:
        content: the bytes of a JPEG, a PNG, or another format that Pillow reads.
        name: the name of the image in messages.
        colour: True for red, green and blue; False for one channel of grey.
        formats: Pillow's names of the formats that are accepted; None for all except PostScript, which would start another
            program.

    Returns:
        (Y, X, 3) uint8; (Y, X, 1) if `colour` is False.

    Raises:
        InputError: if Pillow is not installed, or the bytes are not an image, are truncated, or decode to too many pixels.

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
            warnings.simplefilter("ignore")  # about metadata that is not used, and about sizes, which are checked here
            with Image.open(io.BytesIO(content), formats=formats) as opened:
                if opened.format == "EPS":  # Pillow would run Ghostscript on it
                    raise InputError(
                        f"{name}: is PostScript, which only another program could render; give a JPEG or a PNG"
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
    except Exception as error:  # Pillow's decoders raise many kinds of errors for damaged bytes
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{name}: the image is damaged ({reason:.300}); fetch it again") from None
    return pixels if colour else pixels[..., None]


ROWS_AT_ONCE = 256


def _pixels(image: Any, mode: str) -> np.ndarray:
    """The pixels of a Pillow image in mode `RGB` or `L`, converted a few rows at a time to limit memory use."""
    from PIL import Image

    transparent = image.has_transparency_data
    pixels = np.empty((image.height, image.width, 3)[: 3 if mode == "RGB" else 2], np.uint8)
    for top in range(0, image.height, ROWS_AT_ONCE):
        bottom = min(top + ROWS_AT_ONCE, image.height)
        rows = image.crop((0, top, image.width, bottom))
        if transparent:
            rows = rows.convert("RGBA")
            rows = Image.alpha_composite(Image.new("RGBA", rows.size, (255, 255, 255, 255)), rows)
        elif rows.mode.startswith("I;16"):  # 16 bits per pixel: keep the upper 8; Pillow would clip the values instead
            rows = Image.fromarray((np.asarray(rows) >> 8).astype(np.uint8))
        pixels[top:bottom] = np.asarray(rows.convert(mode))
    return pixels


def read_image(path: str | os.PathLike[str], *, colour: bool = True) -> np.ndarray:
    """The pixels of an image file, as `decoded_image` returns them.

    Raises:
        InputError: if the file is missing or unreadable, and as `decoded_image`.
    """
    name = os.fspath(path)
    return decoded_image(read_bytes(path, "give the path of an image"), name, colour=colour)


# Resizing images of any size to one size.


Fit = Literal["crop", "pad", "stretch"]


def fitted(image: np.ndarray, height: int, width: int, fit: Fit = "crop") -> np.ndarray:
    """An image resized by bilinear interpolation, with antialiasing when it becomes smaller.

    | fit | how an image with another aspect ratio is resized |
    |---|---|
    | `crop` | it fills the frame, and two of its sides are cropped |
    | `pad` | it is shown whole, with black borders |
    | `stretch` | its aspect ratio changes |

    Arguments:
        image: (Y, X, C) uint8.
        height, width: the new size in pixels.
        fit: see the table.

    Returns:
        (height, width, C) uint8.

    Raises:
        InputError: for a size below 1 x 1.

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
    """The centre of an image at this size, padded with black where the image is smaller."""
    framed = np.zeros((height, width, image.shape[2]), np.uint8)
    (top, rows, above), (left, columns, before) = (
        (max(0, (size - room) // 2), min(size, room), max(0, (room - size) // 2))
        for size, room in ((image.shape[0], height), (image.shape[1], width))
    )
    framed[above : above + rows, before : before + columns] = image[top : top + rows, left : left + columns]
    return framed


# Resizing and cropping with Pillow, as Hugging Face's image processors do it.


Filter = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
FILTERS: tuple[Filter, ...] = get_args(Filter)
"""Pillow's resampling filters; the index of each is its number in Pillow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSteps:
    """Resizing, then centre cropping; both are optional.

    Arguments:
        size: (height, width) that every image is resized to; or (shorter side,), which keeps the aspect ratio; in pixels.
            Empty for no resizing.
        resample: the resampling filter.
        crop: (height, width) of the centre crop in pixels, padded with black if the image is smaller. Empty for no crop.

    >>> ImageSteps(size=(2, 2), resample="box")(np.array([[[0], [4]], [[8], [8]]], np.uint8).repeat(2, 1))[..., 0].tolist()
    [[0, 4], [8, 8]]
    """

    size: tuple[int, ...] = ()
    resample: Filter = "bilinear"
    crop: tuple[int, ...] = ()

    def __call__(self, image: np.ndarray) -> np.ndarray:
        """Resize and crop a (Y, X, C) uint8 image; returns (height, width, C) uint8.

        Raises:
            InputError: if the image has to be resized and Pillow is not installed.
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
            # If the difference is odd, the extra black pixel is added before the image, or the extra image pixel is cut after it.
            before = -((size - room) // 2) if size < room else 0
            black = [(0, 0)] * 3
            black[axis] = (before, max(0, room - size - before))
            start = max(0, (size - room) // 2)
            image = np.pad(image, black).take(range(start, start + room), axis=axis)
        return image


IMAGES, LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"


@dataclass(frozen=True, slots=True, eq=False)
class DigitImages:
    """Images of digits and their labels.

    Arguments:
        pixels: (N, Y, X) uint8, bright digits on black.
        labels: (N,) int64, 0 to 9.
    """

    pixels: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)


def read_digits(place: str | os.PathLike[str] | None = None, part: str = "train") -> DigitImages:
    """Read images of handwritten digits with their labels.

    Arguments:
        place: a folder with MNIST's files, such as `train-images-idx3-ubyte.gz`; None for the 1,797 digits of 8 x 8 pixels that
            come with scikit-learn (UCI's "optical recognition of handwritten digits").
        part: the prefix of the file names: `train`, or `t10k` for MNIST's test set. Ignored if `place` is None.

    Raises:
        InputError: if files are missing or do not belong together, or scikit-learn is not installed.
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


# MNIST's file format: an array of numbers after a short header (LeCun, "the IDX file format").


TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""NumPy's dtype for each value of the file's third byte."""

MOST_IDX_BYTES = 1 << 31
"""The most bytes of the numbers in an idx file, uncompressed."""


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    r"""The array in an idx file, plain or gzip (recognised by content).

    The format: two zero bytes, one byte for the type, one for the number of axes; the length of each axis as a big-endian
    32-bit integer; then the numbers in row-major order.

    Returns:
        The array, in the byte order of this machine.

    Raises:
        InputError: if the file is missing, is not an idx file, or has more or fewer numbers than its header declares.

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
            raise InputError(f"{name}: is not an idx file; give one such as MNIST's train-images-idx3-ubyte.gz")
        sizes = stream.read(4 * head[3])
        if len(sizes) < 4 * head[3]:
            raise InputError(f"{name}: ends within its header; fetch it again")
        shape = struct.unpack(f">{head[3]}I", sizes)
        dtype = np.dtype(TYPES[head[2]])
        count = math.prod(shape)
        wanted = count * dtype.itemsize
        if not 0 < wanted <= MOST_IDX_BYTES:
            many = "which is too many" if wanted else "which is none"
            raise InputError(f"{name}: its header declares {count:,} numbers, {many}; fetch it again")
        content = bytearray()  # read in pieces, because `read` allocates all that is asked for at once
        while len(content) <= wanted and (piece := stream.read(min(wanted + 1 - len(content), 1 << 22))):
            content += piece
    if len(content) != wanted:
        more = "more" if len(content) > wanted else "fewer"
        raise InputError(f"{name}: holds {more} numbers than the {count:,} its header declares; fetch it again")
    return np.frombuffer(content, dtype).reshape(shape).astype(dtype.newbyteorder("="))


SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
"""The suffixes of files that are taken for images, in lower or upper case."""

MOST_BYTES = 1 << 28
"""The most bytes of one file in an archive, uncompressed; larger ones are refused."""


class ImagePlace(ABC):
    """A folder or archive of images, which are read one at a time by name.

    Arguments:
        path: the path of the folder or archive.
        names: the names of the images, relative to `path`, with `/` as separator on every system.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path = path
        self.names = tuple(sorted(names))
        self._by_last_part: dict[str, str | None] = {}
        for name in self.names:
            last = PurePosixPath(name).name
            # None if images in several folders have this name: then the name alone is ambiguous.
            self._by_last_part[last] = None if last in self._by_last_part else name
        self._known = frozenset(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.found(name) is not None

    def found(self, name: str) -> str | None:
        """The full name of the image with this full name, or with this file name if only one image has it; else None."""
        return name if name in self._known else self._by_last_part.get(name)

    def read(self, name: str, *, colour: bool = True) -> np.ndarray:
        """The pixels of one image, as `decoded_image` returns them.

        Raises:
            InputError: if there is no image with this name, or it is damaged.
        """
        full = self.found(name)
        if full is None:
            raise InputError(f"{self.path}: no image {name!r} in it; {nearest(name, list(self.names[:1000]))}")
        return decoded_image(self._content(full), f"{self.path}: {full}", colour=colour)

    @abstractmethod
    def _content(self, name: str) -> bytes:
        """The bytes of the image with this full name."""


class _Folder(ImagePlace):
    """All images in a folder and its subfolders."""

    def __init__(self, path: Path) -> None:
        files = (file for file in path.rglob("*") if _is_image(file.relative_to(path)) and file.is_file())
        super().__init__(path, [file.relative_to(path).as_posix() for file in files])

    def _content(self, name: str) -> bytes:
        return read_bytes(self.path / name, "check the file")


class _Archive(ImagePlace):
    """All images in a zip archive. It stays open, because reading its directory again takes longer than reading an image."""

    def __init__(self, path: Path) -> None:
        check_regular(path, "give a zip archive, or a folder")
        try:
            self._archive = zipfile.ZipFile(path)
        except Exception as error:  # zipfile raises many kinds of errors for a damaged directory
            raise InputError(f"{path}: is not a readable zip archive ({error}); fetch it again") from None
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
            # zipfile decompresses bzip2 and LZMA data at once, however much there is and whatever size the archive declares.
            raise InputError(
                f"{self.path}: {name} uses a compression method that is not read; pack the archive with deflate"
            )
        try:
            return self._archive.read(name)
        except Exception as error:  # zipfile raises many kinds of errors for a damaged header
            raise InputError(f"{self.path}: {name} cannot be unpacked ({error}); fetch the archive again") from None


def open_images(path: str | os.PathLike[str]) -> ImagePlace:
    """Open a folder (with its subfolders) or a zip archive of images; only the names are read.

    Raises:
        InputError: if the path does not exist, is not a folder or zip archive, or contains no images.
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
    """Whether a file is taken for an image. Hidden files of operating systems, such as `._a.jpg` in `__MACOSX`, are not."""
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in name.parts)
    return not hidden and name.suffix.lower() in SUFFIXES
