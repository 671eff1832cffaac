"""Where many pictures are: a folder, or a zip archive that stays packed."""

from __future__ import annotations

import os
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from regard.data.pictures.decoding import decoded_picture
from regard.errors import InputError, nearest
from regard.reading import check_regular, read_bytes

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
"""How files that are taken for pictures end, in either case."""

MOST_BYTES = 1 << 28
"""A file in an archive that unpacks to more is refused."""


class PicturePlace(ABC):
    """Pictures by name, read one at a time.

    Arguments:
        path: of the folder or archive.
        names: of the pictures, sorted; parts of a path are joined by `/`, whatever the system.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path = path
        self.names = tuple(sorted(names))
        self._by_last_part: dict[str, str | None] = {}
        for name in self.names:
            last = PurePosixPath(name).name
            # None where several folders have a picture of that name: then the name alone says too little.
            self._by_last_part[last] = None if last in self._by_last_part else name
        self._known = frozenset(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.found(name) is not None

    def found(self, name: str) -> str | None:
        """The full name of a picture that is asked for by it, or by its last part where only one is called so; else None."""
        return name if name in self._known else self._by_last_part.get(name)

    def read(self, name: str, *, colour: bool = True) -> np.ndarray:
        """The pixels of one picture, as `decoded_picture` gives them.

        Raises:
            InputError: where there is none of that name, or it is damaged.
        """
        full = self.found(name)
        if full is None:
            raise InputError(f"{self.path}: no picture {name!r} in it; {nearest(name, list(self.names[:1000]))}")
        return decoded_picture(self._content(full), f"{self.path}: {full}", colour=colour)

    @abstractmethod
    def _content(self, name: str) -> bytes:
        """The bytes of the picture of that full name."""


class _Folder(PicturePlace):
    """All pictures in a folder and the folders in it."""

    def __init__(self, path: Path) -> None:
        files = (file for file in path.rglob("*") if _is_picture(file.relative_to(path)) and file.is_file())
        super().__init__(path, [file.relative_to(path).as_posix() for file in files])

    def _content(self, name: str) -> bytes:
        return read_bytes(self.path / name, "check the file")


class _Archive(PicturePlace):
    """All pictures in a zip archive, which stays open: reading its list of members anew would take longer than a picture."""

    def __init__(self, path: Path) -> None:
        check_regular(path, "give a zip archive, or a folder")
        try:
            self._archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError) as error:
            raise InputError(f"{path}: is no zip archive that can be read ({error}); fetch it again") from None
        members = (member.filename for member in self._archive.infolist() if not member.is_dir())
        super().__init__(path, [name for name in members if _is_picture(PurePosixPath(name))])

    def __reduce__(self) -> tuple[type[_Archive], tuple[Path]]:
        return _Archive, (self.path,)

    def _content(self, name: str) -> bytes:
        size = self._archive.getinfo(name).file_size
        if size > MOST_BYTES:
            raise InputError(f"{self.path}: {name} unpacks to {size:,} bytes, which is too many; leave it out")
        try:
            return self._archive.read(name)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError) as error:
            raise InputError(f"{self.path}: {name} cannot be unpacked ({error}); fetch the archive again") from None


def open_pictures(path: str | os.PathLike[str]) -> PicturePlace:
    """The pictures in a folder (and the folders in it) or in a zip archive, by name; none is read yet.

    Raises:
        InputError: where there is nothing, something else, or no picture in it.
    """
    place = Path(path)
    if place.is_dir():
        found: PicturePlace = _Folder(place)
    elif place.is_file():
        found = _Archive(place)
    else:
        raise InputError(f"{place}: no such folder or archive; give a folder of pictures, or a zip of them")
    if not found:
        raise InputError(f"{place}: holds no pictures; they are told by names such as a.jpg or b.png")
    return found


def _is_picture(name: Path | PurePosixPath) -> bool:
    """Whether a file is taken for a picture; what systems hide beside files, as `._a.jpg` in `__MACOSX`, is not."""
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in name.parts)
    return not hidden and name.suffix.lower() in SUFFIXES
