"""Writing so that a kill, a full disk or a torn write never leaves something half new."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from regard.errors import InputError

PARTIAL_PREFIX = ".partial-"
"""How folders begin that were being written when a process died; `clear_partial` removes them."""

_ASIDE_PREFIX = ".before-"

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
        found = re.search(r"os error (\d+)|code: (\d+)", text)
        number = int(found[1] or found[2]) if found else next((n for n in _FULL if os.strerror(n) in text), None)
        if number is None and "I/O error" not in text and "IoError" not in text:
            raise
        raise InputError(_sentence(target, number, text)) from error


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn what goes wrong with a file below `folder`, or with a disk, into one sentence; other errors are left as they are.

    Raises:
        InputError: as `writing_errors`, naming the file where the system does.
    """
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        name = error.filename
        below = isinstance(name, str | bytes) and Path(os.path.abspath(os.fsdecode(name))).is_relative_to(
            folder.absolute()
        )
        if not below and error.errno not in (*_FULL, errno.EROFS, errno.EIO):
            raise
        place = Path(os.fsdecode(name)) if below else folder
        raise InputError(_sentence(place, error.errno, error.strerror or str(error))) from error


def _sentence(target: Path, number: int | None, text: str) -> str:
    if number in _FULL:
        return f"{target}: the disk is full; what was saved before is intact, free some space and try again"
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{target}: not allowed to write there ({text.lower()}); choose another folder or change its permissions"
    return f"{target}: cannot be written ({text.lower()}); choose another folder"


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[Callable[[], None]]:
    """Hold a folder for one process while the block runs; the operating system lets it go when the process ends, however it does.

    The folder is made where it is missing. The lock is on the folder itself, so no file is left behind. Where the system has
    no such locks (Windows, some network file systems) nothing is held.

    Yields:
        A function to call before writing into the folder: it raises `InputError` where the folder at this path is not the one
        that is held any more, because somebody removed or moved it.

    Raises:
        InputError: another process, or another block of this one, holds the folder.
    """
    folder = Path(folder)
    with writing_errors(folder):
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        if made:
            sync(folder.parent)
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        yield lambda: None
        return
    descriptor = os.open(folder, os.O_RDONLY)
    held = os.fstat(descriptor)

    def check() -> None:
        try:
            same = os.path.samestat(held, folder.stat())
        except OSError:
            same = False
        if not same:
            raise InputError(
                f"{folder}: was removed, moved or replaced by another folder while it was written to; nothing more is written "
                "there; a folder that was moved can be resumed where it is now"
            )

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
        yield check
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def scratch_folder(parent: str | os.PathLike[str], prefix: str) -> Iterator[Path]:
    """A folder for this process alone in `parent`, gone when the block ends.

    A killed process leaves its own behind; whoever makes the next one of the same prefix removes it. It is known by
    nobody holding its lock, so where the system has no locks (see `locked`) it stays.
    """
    for left in Path(parent).iterdir():
        if left.name.startswith(prefix) and left.is_dir() and not left.is_symlink():
            with _held(left) as free:
                if free:
                    shutil.rmtree(left, ignore_errors=True)
    with contextlib.ExitStack() as stack:
        while True:
            path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            if stack.enter_context(_held(path)) is not False and path.is_dir():
                break  # else another process took it for one that was left
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[bool | None]:
    """Hold the lock of a folder; whether it was free, None where there are no locks."""
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield None
        return
    try:
        free: bool | None = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            free = False
        except OSError:
            free = None
        yield free
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def new_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to fill that appears at `target` only when the block ends well, every file in it on the disk.

    A folder that is there already changes places with it at once, so that a kill leaves the one or the other; where the file
    system cannot do that, the old one has another name for a moment and comes back with the next call.

    Yields:
        A temporary folder next to `target`. If the block raises, it is removed and `target` is untouched.

    Raises:
        InputError: for a full disk, a place that cannot be written to, or one where a file is.
    """
    target = Path(target)
    if target.name in ("", ".."):
        raise InputError(f"{target}: is where you are, or above, and cannot be replaced; give the folder a name")
    if target.is_symlink():
        target = Path(os.path.realpath(target))  # what it points to
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: is a file, and a folder would take its place; choose another name")
    own = f"{zlib.crc32(os.fsencode(target.name)):08x}-"
    with writing_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _bring_back(target, own)
        with scratch_folder(target.parent, PARTIAL_PREFIX + own) as partial:
            yield partial
            partial.chmod(0o777 & ~umask())
            for path in sorted(partial.rglob("*")):
                if path.is_file() or path.is_dir():
                    sync(path)
            sync(partial)
            _put(partial, target, own)


def _put(partial: Path, target: Path, own: str) -> None:
    """Give a folder its name; what had it is then under the other name, or gone."""
    if not target.exists():
        partial.rename(target)
        sync(target.parent)
    elif _exchanged(partial, target):
        try:
            sync(target.parent)
        except BaseException:
            _exchanged(partial, target)
            raise
    else:
        aside = Path(tempfile.mkdtemp(prefix=_ASIDE_PREFIX + own, dir=target.parent)) / target.name
        target.rename(aside)
        try:
            partial.rename(target)
            sync(target.parent)
        except BaseException:
            if not target.exists():
                aside.rename(target)
            raise
        finally:
            shutil.rmtree(aside.parent, ignore_errors=True)


def _bring_back(target: Path, own: str) -> None:
    """Where a kill left a folder under its other name, give it back its own."""
    for left in target.parent.glob(f"{_ASIDE_PREFIX}{own}*"):
        with contextlib.suppress(OSError):
            if not target.exists():
                (left / target.name).rename(target)
        shutil.rmtree(left, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Let two folders change places, in one step; False where the system cannot."""
    library = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    names = os.fsencode(one), os.fsencode(other)
    if hasattr(library, "renameat2"):  # Linux
        here, exchange = -100, 2
        code = library.renameat2(here, names[0], here, names[1], exchange)
    elif hasattr(library, "renamex_np"):  # macOS
        code = library.renamex_np(*names, 2)
    else:
        return False
    if code == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number), str(other))


@contextlib.contextmanager
def new_file(target: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to fill that appears at `target` only when the block ends well, forced to the disk.

    Yields:
        A temporary file next to `target`. If the block raises, it is removed and `target` is untouched. What goes wrong inside
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
    """Put `content` into a file of an existing folder, completely or not at all.

    Raises:
        InputError: for a full disk or a place that cannot be written to; the old content is intact.
    """
    with writing_errors(Path(path)), new_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def replace_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Put `content` where `path` is, completely or not at all; its folder is made where needed.

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


def own_cache(name: str) -> Path | None:
    """A folder of the package's in the user's cache (XDG_CACHE_HOME, else ~/.cache); None where none is this user's alone."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
        folder = base / "regard" / name
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        for place, forbidden in ((folder.parent, 0o022), (folder, 0o077)):
            place.mkdir(exist_ok=True, mode=0o700)
            found = place.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & forbidden:
                return None
    except (OSError, RuntimeError):  # no home, not even in the system's list of users
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


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


def recipe_folder() -> Path:
    """The folder of the recipes that come with the package; in a clone that is installed editable, the clone's own."""
    packaged = Path(__file__).parent / "recipes"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "recipes"
