"""What a loss of power leaves of a folder: what was forced to the disk, and of the rest nothing.

`Power` stands before `os.fsync`. At each call it keeps what then would be found after a loss of power, in two ways: as a file
system may do it that keeps only what it was asked to keep (a file's bytes as they were when the file was forced to the disk,
a folder's names as they were when the folder was), and as one that keeps all names at once (a file whose bytes were not forced to
the disk is then empty).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

WAYS = ("bytes and names", "bytes")
"""What is lost where it was not forced to the disk."""


class Power:
    """Watches a folder, and writes down what a loss of power would leave of it.

    Arguments:
        root: the folder; what it holds now is on the disk.
        images: where to write what is left, a folder for each call of fsync and each of the `WAYS`.
        note: asked at each call, for what must not be lost any more; written with the images.
    """

    def __init__(self, root: Path, images: Path, note: Callable[[], str]) -> None:
        self.root, self.images, self.note = root, images, note
        self.count = 0
        self._bytes: dict[int, Path] = {}
        self._names: dict[int, dict[str, int]] = {}
        (images / "bytes").mkdir(parents=True)
        for path in (root, *root.rglob("*")):
            self._keep(path, path.stat())

    def watch(self) -> None:
        """From now on, in this process."""
        real = os.fsync

        def fsync(descriptor: int) -> None:
            real(descriptor)
            place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if place == self.root or place.is_relative_to(self.root):
                self._keep(place, os.fstat(descriptor))
                for way in WAYS:
                    self._write(self.root, self.images / f"{self.count} {way}", way)
                (self.images / f"{self.count} note").write_text(self.note())
                self.count += 1

        os.fsync = fsync

    def _keep(self, place: Path, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            self._names[found.st_ino] = {entry.name: entry.inode() for entry in os.scandir(place)}
        elif place.is_file():
            kept = self.images / "bytes" / f"{found.st_ino} {self.count}"
            shutil.copyfile(place, kept)
            self._bytes[found.st_ino] = kept

    def _write(self, folder: Path, image: Path, way: str) -> None:
        """Write what is left of a folder as it stands there, by its names or by those that were forced to the disk."""
        self._write_inode(folder.stat().st_ino, folder, image, way, {path.stat().st_ino: path for path in _all(folder)})

    def _write_inode(self, inode: int, place: Path | None, image: Path, way: str, there: dict[int, Path]) -> None:
        folder = place is not None and place.is_dir()
        if folder or inode in self._names:
            image.mkdir()
            names = self._names.get(inode, {})
            if way == "bytes" and place is not None:
                names = {entry.name: entry.inode() for entry in os.scandir(place)}
            for name, child in names.items():
                self._write_inode(child, there.get(child), image / name, way, there)
        elif inode in self._bytes:
            shutil.copyfile(self._bytes[inode], image)
        else:
            image.touch()


def _all(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.exists()]
