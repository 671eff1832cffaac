"""Writing so that a kill, a full disk or a torn write never leaves something half new."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from regard.errors import InputError

PARTIAL_PREFIX = ".partial-"
"""How folders begin that were being written when a process died; `clear_partial` removes them."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextlib.contextmanager
def writing_errors(target: Path) -> Iterator[None]:
    """Turn what goes wrong when writing to `target` into one sentence.

    Raises:
        InputError: for a full disk, a missing permission, or another failure of the file system.
    """
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise InputError(_sentence(target, error.errno, error.strerror or str(error))) from error
    except Exception as error:  # safetensors wraps the system's error in its own class, keeping only the text
        text = str(error)
        number = next((n for n in _FULL if os.strerror(n) in text or f"os error {n}" in text), None)
        if number is None and "I/O error" not in text and "IoError" not in text:
            raise
        raise InputError(_sentence(target, number, text)) from error


def _sentence(target: Path, number: int | None, text: str) -> str:
    if number in _FULL:
        return f"{target}: the disk is full; what was saved before is intact, free some space and try again"
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{target}: not allowed to write there ({text.lower()}); choose another folder or change its permissions"
    return f"{target}: cannot be written ({text.lower()}); choose another folder"


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a folder for one process while the block runs; the operating system lets it go when the process ends, however it does.

    The folder is made where it is missing. The lock is on the folder itself, so no file is left behind. Where the system has
    no such locks (Windows, some network file systems) nothing is held.

    Raises:
        InputError: another process, or another block of this one, holds the folder.
    """
    folder = Path(folder)
    with writing_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{folder}: another process is training into this folder; wait until it has ended, or choose another folder"
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def new_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to fill that appears at `target` only when the block ends well, every file in it on the disk.

    Yields:
        A temporary folder beside `target`. If the block raises, it is removed and `target` is untouched.

    Raises:
        InputError: for a full disk or a place that cannot be written to.
    """
    target = Path(target)
    with writing_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=PARTIAL_PREFIX, dir=target.parent))
        try:
            yield partial
            partial.chmod(0o777 & ~umask())
            for path in sorted(partial.rglob("*")):
                if path.is_file():
                    sync(path)
            sync(partial)
            with _set_aside(target):
                partial.rename(target)
                sync(target.parent)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


@contextlib.contextmanager
def _set_aside(target: Path) -> Iterator[None]:
    """What is at `target` under another name inside the block: removed if that ends well, else back in its place."""
    if not target.exists():
        yield
        return
    aside = Path(tempfile.mkdtemp(prefix=PARTIAL_PREFIX, dir=target.parent)) / target.name
    target.rename(aside)
    try:
        yield
    except BaseException:
        aside.rename(target)
        raise
    finally:
        shutil.rmtree(aside.parent, ignore_errors=True)


@contextlib.contextmanager
def new_file(target: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to fill that appears at `target` only when the block ends well, forced to the disk.

    Yields:
        A temporary file beside `target`. If the block raises, it is removed and `target` is untouched. What goes wrong inside
        the block is the block's own: `writing_errors` turns it into a sentence.

    Raises:
        InputError: for a full disk or a place that cannot be written to, such as a missing folder.
    """
    target = Path(target)
    if "\0" in str(target):  # of which the system says so only where the file gets its name
        raise InputError(f"{str(target)!r}: cannot be written (no name has a null character); choose another name")
    partial = target.parent / f"{PARTIAL_PREFIX}{secrets.token_hex(6)}"
    with writing_errors(target):
        # Unlike the files of tempfile it has the permissions of any file that the user writes.
        file = os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb")
    try:
        yield file
        with writing_errors(target):
            file.flush()
            os.fsync(file.fileno())
            file.close()
            partial.replace(target)
            sync(target.parent)
    except BaseException:
        for undo in (file.close, partial.unlink):  # on a full disk closing fails too
            with contextlib.suppress(OSError):
                undo()
        raise


def write_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Put `content` into a file of an existing folder, wholly or not at all.

    Raises:
        InputError: for a full disk or a place that cannot be written to; the old content is intact.
    """
    with writing_errors(Path(path)), new_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def replace_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Put `content` where `path` is, wholly or not at all; its folder is made where needed.

    Raises:
        InputError: for a full disk or a place that cannot be written to; the old content is intact.
    """
    with writing_errors(Path(path)):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content)


def clear_partial(folder: Path) -> None:
    """Remove what a killed process left half written in `folder`."""
    for path in folder.glob(f"{PARTIAL_PREFIX}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Force a file or a folder's list of names to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def umask() -> int:
    """The permissions that new files are not to have."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
