"""The compiled kernels of `kernels/`: those that a wheel brought, or built once by the machine's own compiler and kept.

    ~/.cache/regard/kernels/   decoding-NAME.so, decoding-NAME.sha256, decoding-NAME.lock; sometimes decoding-NAME.failed

A library that is built is code that every later process runs. So the folder has to be this user's alone, a file is taken only if
it is this user's and is what its digest says, and what was just built is first tried in a child process, where a crash harms
nobody.

Where there is no compiler, or what it builds does not compute what it ought to, everything still works without them, slower, and
`kernels()` says why in a sentence.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import hashlib
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.files import own_cache, sync
from regard.quantization import interface, variants


@dataclass(frozen=True, slots=True)
class Kernels:
    """The compiled library, or why there is none.

    Arguments:
        library: its functions; None where there is none.
        why: a sentence, where there is none.
    """

    library: ctypes.CDLL | None
    why: str = ""

    def slowness(self, bits: int) -> str:
        """Why a model with weights of so many bits is no faster for it, as a sentence; empty where it is."""
        return "" if self.library is not None else f"{self.why}: weights of {bits} bits are no faster than bfloat16"


@functools.cache
def kernels() -> Kernels:
    """The kernels for this processor, built at the first call and kept in the user's cache for the next process.

    A warning says where there is no folder of the user's own to keep them in: they are then built by every process.
    """
    return built_kernels()


def built_kernels() -> Kernels:
    """As `kernels`, looked for again at each call."""
    runtime = _openmp()
    if runtime is None:
        return Kernels(None, NO_RUNTIME)
    ready = variants.shipped(variants.SHIPPED)
    if ready is not None:
        with contextlib.suppress(OSError, AttributeError):  # such as a place from which nothing may be run
            return Kernels(interface.opened(str(ready), str(runtime)))
    compiler = _compiler()
    if compiler is None:
        return Kernels(None, NO_COMPILER)
    building = Building(compiler=compiler, runtime=runtime, source=variants.SOURCE, name=_name(compiler))
    folder = own_cache("kernels")
    if folder is None:
        warnings.warn(
            "the kernels for int8 and int4 weights are built again by each process: the cache (XDG_CACHE_HOME, else ~/.cache) "
            "has no folder regard/kernels that belongs to this user and that nobody else may write to or read (mode 0700)",
            UserWarning,
            stacklevel=2,
        )
    try:
        return Kernels(building.loaded(folder))
    except NotBuilt as error:
        return Kernels(None, str(error))


def found_kernels() -> dict[str, str | None]:
    """Whether there are kernels already, and by what they would be built; nothing is built or loaded.

    Returns:
        `state`: "compiled", "to be built" or "none"; `why`: half a sentence where there are none, else empty; `compiler`: its
        path; `library`: the path of the compiled one. None for what is not there.
    """
    compiler = _compiler()
    found: dict[str, str | None] = {"state": "none", "why": "", "compiler": compiler, "library": None}
    if _openmp() is None:
        return found | {"why": NO_RUNTIME}
    ready = variants.shipped(variants.SHIPPED)
    folder = own_cache("kernels")
    if ready is None and folder is not None and compiler is not None:
        built = folder / f"{_name(compiler)}.so"
        ready = built if _is_sound(built) else None
    if ready is not None:
        return found | {"state": "compiled", "library": str(ready)}
    if compiler is None:
        return found | {"why": NO_COMPILER}
    try:
        if folder is not None:
            _refuse_again((folder / f"{_name(compiler)}.so").with_suffix(".failed"))
    except NotBuilt as error:
        return found | {"why": str(error)}
    return found | {"state": "to be built"}


NO_COMPILER = "there is no C++ compiler (g++ or clang++)"
NO_RUNTIME = "this PyTorch brings no OpenMP library that a compiled kernel could share"


def _compiler() -> str | None:
    found = next(filter(None, map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))), None)
    return None if found is None else os.path.abspath(found)


def _name(compiler: str) -> str:
    """What stands for the sources, the compiler and the processor; for another one with the same home it is another name."""
    marks = (*variants.source_sums(), compiler, *NATIVE, *variants.LINKED, platform.machine(), variants.processor())
    digest = hashlib.sha256(b"\0".join(map(os.fsencode, marks))).hexdigest()
    return f"decoding-{digest[:24]}"


def _openmp() -> Path | None:
    """The OpenMP library that PyTorch computes with."""
    root = Path(torch.__file__).parent
    found = [path for place in ("lib", "../torch.libs") for path in sorted(glob.glob(f"{root}/{place}/libgomp*"))]
    return Path(found[0]).resolve() if found else None


# Building the library, and keeping it where nobody else can put anything.

NATIVE = (*variants.FLAGS, "-march=native")
"""For the compiler."""

PATIENCE = 120.0
"""Seconds after which a compiler, or a test of what it built, that has not ended is given up."""

REMEMBERED = 86_400.0
"""Seconds for which a compiler that hung, or built what does not work, is not tried again: each try costs the user's time."""

LARGEST = 1 << 24
"""Bytes: more than a library or what a compiler says ever has."""


class NotBuilt(Exception):
    """Why there are no kernels, as half a sentence; `lasting` where trying again would come to the same and take long."""

    def __init__(self, why: str, *, lasting: bool = False) -> None:
        super().__init__(why)
        self.lasting = lasting


@dataclass(frozen=True, kw_only=True, slots=True)
class Building:
    """How the library is built.

    Arguments:
        compiler: the path of g++ or clang++.
        runtime: PyTorch's OpenMP library.
        source: the C++ file.
        name: of the library, which stands for its source, compiler and processor.
    """

    compiler: str
    runtime: Path
    source: Path
    name: str

    def loaded(self, folder: Path | None) -> ctypes.CDLL:
        """The library, from `folder` where it is there and sound, else built and kept there; not kept where None.

        Raises:
            NotBuilt: where that does not come to a library that works.
        """
        try:
            if folder is None:
                with tempfile.TemporaryDirectory(prefix="regard-", ignore_cleanup_errors=True) as scratch:
                    return self._opened(self._made(Path(scratch)))  # which stays in memory when the file is gone
            library = folder / f"{self.name}.so"
            if not _is_sound(library):
                with _alone(library.with_suffix(".lock")):
                    if not _is_sound(library):  # another process may have built it meanwhile
                        self._keep(library)
            return self._opened(library)
        except (OSError, AttributeError) as error:
            raise NotBuilt(f"the kernels could not be loaded ({_printable(str(error))})") from error

    def _keep(self, library: Path) -> None:
        """Build the library and put it in its place with its digest, forced to disk."""
        folder, failed = library.parent, library.with_suffix(".failed")
        _refuse_again(failed)
        for left in folder.glob(f"{self.name}-*"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f"{self.name}-", dir=folder, ignore_cleanup_errors=True) as scratch:
            try:
                made = self._made(Path(scratch))
            except NotBuilt as error:
                if error.lasting:
                    _write(failed, str(error).encode())
                raise
            digest = made.with_suffix(".sha256")
            _write(digest, hashlib.sha256(made.read_bytes()).hexdigest().encode())
            made.chmod(0o700)
            sync(made)
            made.replace(library)
            digest.replace(library.with_suffix(".sha256"))
            sync(folder)
        failed.unlink(missing_ok=True)

    def _made(self, scratch: Path) -> Path:
        """The library, built in an empty folder and tried."""
        parts = scratch / "decoding.o", scratch / "decoding.so"
        self._run([self.compiler, *NATIVE, "-c", str(self.source), "-o", str(parts[0])], scratch)
        self._run([self.compiler, str(parts[0]), *variants.LINKED, "-o", str(parts[1])], scratch)
        _try(parts[1], self.runtime, scratch)
        return parts[1]

    def _opened(self, library: Path) -> ctypes.CDLL:
        return interface.opened(str(library), str(self.runtime))

    def _run(self, command: Sequence[str], scratch: Path) -> None:
        name = Path(self.compiler).name
        code, said = _ended(command, scratch, f"{name} has not ended")
        if code:
            lines = said.splitlines() or [f"it ended with {code}"]
            raise NotBuilt(f"{name} did not build the kernels ({next((x for x in lines if 'error' in x), lines[-1])})")


def _is_sound(library: Path) -> bool:
    """Whether a library is this user's, whole, and what its digest says."""
    try:
        told = _own_bytes(library.with_suffix(".sha256"))
        return hashlib.sha256(_own_bytes(library)).hexdigest().encode() == told
    except OSError:
        return False


def _own_bytes(path: Path) -> bytes:
    """What a file holds that only this user can have written.

    Raises:
        OSError: where it is missing, a link, not a plain file, somebody else's, or open to be written by others.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
        if not own or found.st_size > LARGEST:
            raise PermissionError(f"{path} is not a file of this user alone")
        return file.read()


def _write(path: Path, content: bytes) -> None:
    """A new file, forced to disk."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _refuse_again(failed: Path) -> None:
    with contextlib.suppress(OSError):
        why, age = _own_bytes(failed), time.time() - failed.stat().st_mtime
        if 0 <= age < REMEMBERED:
            raise NotBuilt(f"{_printable(why.decode(errors='replace'))}; remove {failed} to try again")


def _try(library: Path, runtime: Path, scratch: Path) -> None:
    """Let a child process compute with a library what is known.

    Raises:
        NotBuilt: where it crashes, comes to something else, or does not end.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        raise NotBuilt("there is no Python interpreter to try the kernels in before they are used")
    command = [sys.executable, "-I", "-S", interface.__file__, str(library), str(runtime)]
    code, said = _ended(command, scratch, "the kernels' test has not ended", OMP_NUM_THREADS="2")
    if code < 0:
        what = signal.strsignal(-code) or f"signal {-code}"
        raise NotBuilt(f"the kernels that were built crash ({what.lower()})", lasting=True)
    if code:
        raise NotBuilt(f"the kernels that were built do not work ({(said.splitlines() or ['?'])[-1]})", lasting=True)


def _ended(command: Sequence[str], scratch: Path, late: str, **environment: str) -> tuple[int, str]:
    """How a command ends, and what it says; with all that it started it is ended where that takes too long.

    What it says goes to a file: a pipe that a child of it holds open would be waited for.
    """
    said = scratch / "said"
    settings = os.environ | {"LC_ALL": "C", "TMPDIR": str(scratch)} | environment
    with said.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=scratch,
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    began = time.monotonic()
    try:
        while process.poll() is None:
            if time.monotonic() - began > PATIENCE:
                raise NotBuilt(f"{late} after {PATIENCE:g} seconds", lasting=True)
            if said.stat().st_size > LARGEST:
                raise NotBuilt(f"{Path(command[0]).name} writes without end", lasting=True)
            time.sleep(0.01)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, _printable(said.read_bytes()[:LARGEST].decode(errors="replace"))


def _printable(text: str) -> str:
    """Lines without what a terminal would obey, and not too long."""
    lines = ("".join(x if x.isprintable() else "?" for x in line).strip()[:200] for line in text.splitlines())
    return "\n".join(line for line in lines if line)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock that one process has at a time and its death frees; nothing where the file system has none.

    Raises:
        NotBuilt: where another process holds it for too long.
    """
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    began = time.monotonic()
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() - began > 3 * PATIENCE:
                    raise NotBuilt(f"another process holds {path} without end") from None
                time.sleep(0.05)
                continue
            except OSError:
                pass
            break
        yield
    finally:
        os.close(descriptor)
