"""The compiled kernels of `sources/`: those in the wheel, or built once by the machine's own compiler and cached.

    ~/.cache/regard/kernels/   decoding-NAME.so, decoding-NAME.sha256, decoding-NAME.lock; sometimes decoding-NAME.failed

A cached library is code that every later process runs. So the folder must belong to this user alone, a file is used only if it is
this user's and matches its digest, and a new library is first tried in a child process, where a crash does no harm.

Without a compiler, or where the library that it builds computes wrong results, everything works without kernels, slower, and
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
from regard.kernels import interface, trial, variants


@dataclass(frozen=True, slots=True)
class Kernels:
    """The compiled library, or why there is none.

    Arguments:
        library: its functions; None where there is none.
        why: the reason where there is none, as half a sentence.
    """

    library: ctypes.CDLL | None
    why: str = ""

    @property
    def reads_bfloat16(self) -> bool:
        """Whether products of many rows with weights in bfloat16 are faster with these kernels than with PyTorch.

        Without instructions for bfloat16 they compute in float32, which is slower than PyTorch's products in bfloat16 where it
        has any; with matrix tiles (AMX), which only PyTorch uses, it is faster.
        """
        if self.library is None or has_matrix_tiles():
            return False
        native = bool(self.library.regard_multiplies_bfloat16())
        return native or (self.reads_float32 and not has_bfloat16_products())

    @property
    def reads_float32(self) -> bool:
        """Whether products of many rows with weights in float32 are about as fast with these kernels as with PyTorch."""
        return self.library is not None and self.library.regard_lanes() >= 8

    def slowness(self, bits: int) -> str:
        """Why a model with weights of `bits` bits is no faster for it, as a sentence; empty where it is faster."""
        return "" if self.library is not None else f"{self.why}: weights of {bits} bits are no faster than bfloat16"


@functools.cache
def has_matrix_tiles() -> bool:
    """Whether the processor has matrix tiles for bfloat16 (AMX)."""
    return "amx_bf16" in variants.processor().split()


@functools.cache
def has_bfloat16_products() -> bool:
    """Whether PyTorch (oneDNN) has products in bfloat16 for this processor; else they take several times as long as float32."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@functools.cache
def kernels() -> Kernels:
    """The kernels for this processor, built at the first call and kept in the user's cache for later processes.

    Warns where there is no cache folder that belongs to this user alone: every process then builds them again.
    """
    return built_kernels()


def built_kernels() -> Kernels:
    """As `kernels`, without caching the result in this process."""
    runtime = _openmp()
    if runtime is None:
        return Kernels(None, NO_RUNTIME)
    ready = variants.shipped(variants.SHIPPED)
    if ready is not None:
        with contextlib.suppress(OSError, AttributeError):  # such as a file system mounted noexec
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
    """Whether there are kernels, and how they would be built; nothing is built or loaded.

    Returns:
        `state`: "compiled", "to be built" or "none"; `why`: with "none" the reason as half a sentence, else empty; `compiler`:
        its path, or None; `library`: the path of the compiled library, or None.
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
NO_RUNTIME = "this PyTorch has no OpenMP library that a compiled kernel could share"


def _compiler() -> str | None:
    found = next(filter(None, map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))), None)
    return None if found is None else os.path.abspath(found)


def _name(compiler: str) -> str:
    """The library's name, with a digest of sources, compiler and processor, so that machines can share a home directory."""
    marks = (*variants.source_sums(), compiler, *NATIVE, *variants.LINKED, platform.machine(), variants.processor())
    digest = hashlib.sha256(b"\0".join(map(os.fsencode, marks))).hexdigest()
    return f"decoding-{digest[:24]}"


def _openmp() -> Path | None:
    """The path of PyTorch's OpenMP library."""
    root = Path(torch.__file__).parent
    found = [path for place in ("lib", "../torch.libs") for path in sorted(glob.glob(f"{root}/{place}/libgomp*"))]
    return Path(found[0]).resolve() if found else None


# Build the library, and keep it where no other user can write.

NATIVE = (*variants.FLAGS, "-march=native")
"""Flags for the compiler."""

PATIENCE = 120.0
"""Seconds after which a compiler or a test of its library is killed."""

REMEMBERED = 86_400.0
"""Seconds for which a failed build is not repeated where the compiler hung or its library does not work."""

LARGEST = 1 << 24
"""The most bytes of a library and of a compiler's output; real ones are smaller."""


class NotBuilt(Exception):
    """Why there are no kernels, as half a sentence; `lasting` where another try would fail again and take long."""

    def __init__(self, why: str, *, lasting: bool = False) -> None:
        super().__init__(why)
        self.lasting = lasting


@dataclass(frozen=True, kw_only=True, slots=True)
class Building:
    """How to build the library.

    Arguments:
        compiler: the path of g++ or clang++.
        runtime: PyTorch's OpenMP library.
        source: the C++ file.
        name: of the library, with a digest of its source, compiler and processor.
    """

    compiler: str
    runtime: Path
    source: Path
    name: str

    def loaded(self, folder: Path | None) -> ctypes.CDLL:
        """The library, from `folder` where a sound one is there, else built and kept there; with None it is not kept.

        Raises:
            NotBuilt: where it cannot be built or loaded, or does not work.
        """
        try:
            if folder is None:
                with tempfile.TemporaryDirectory(prefix="regard-", ignore_cleanup_errors=True) as scratch:
                    return self._opened(self._made(Path(scratch)))  # it stays loaded when the file is removed
            library = folder / f"{self.name}.so"
            if not _is_sound(library):
                with _alone(library.with_suffix(".lock")):
                    if not _is_sound(library):  # another process may have built it meanwhile
                        self._keep(library)
            return self._opened(library)
        except (OSError, AttributeError) as error:
            raise NotBuilt(f"the kernels could not be loaded ({_printable(str(error))})") from error

    def _keep(self, library: Path) -> None:
        """Build the library, and move it and its digest into place, flushed to disk."""
        folder, failed = library.parent, library.with_suffix(".failed")
        _refuse_again(failed)
        for left in folder.glob(f"{self.name}-*"):  # left by a process that was killed
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
        """Build the library in an empty folder and test it; returns its path."""
        parts = scratch / "decoding.o", scratch / "decoding.so"
        self._run([self.compiler, *NATIVE, "-c", str(self.source), "-o", str(parts[0])], scratch)
        self._run([self.compiler, str(parts[0]), *variants.LINKED, "-o", str(parts[1])], scratch)
        _try(parts[1], self.runtime, scratch)
        return parts[1]

    def _opened(self, library: Path) -> ctypes.CDLL:
        return interface.opened(str(library), str(self.runtime))

    def _run(self, command: Sequence[str], scratch: Path) -> None:
        name = Path(self.compiler).name
        code, output = _ended(command, scratch, f"{name} has not ended")
        if code:
            lines = output.splitlines() or [f"it ended with {code}"]
            raise NotBuilt(f"{name} did not build the kernels ({next((x for x in lines if 'error' in x), lines[-1])})")


def _is_sound(library: Path) -> bool:
    """Whether a library belongs to this user, is complete, and matches its digest."""
    try:
        digest = _own_bytes(library.with_suffix(".sha256"))
        return hashlib.sha256(_own_bytes(library)).hexdigest().encode() == digest
    except OSError:
        return False


def _own_bytes(path: Path) -> bytes:
    """The content of a file that only this user can have written.

    Raises:
        OSError: where it is missing, a link, no regular file, another user's, or writable by others.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
        if not own or found.st_size > LARGEST:
            raise PermissionError(f"{path} is not a file of this user alone")
        return file.read()


def _write(path: Path, content: bytes) -> None:
    """Write a new file, flushed to disk."""
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
    """Test a library in a child process, by computations with known results.

    Raises:
        NotBuilt: where it crashes, computes wrong results, or does not end.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        raise NotBuilt("there is no Python interpreter to try the kernels in before they are used")
    command = [sys.executable, "-I", "-S", trial.__file__, str(library), str(runtime)]
    code, output = _ended(command, scratch, "the kernels' test has not ended", OMP_NUM_THREADS="2")
    if code < 0:
        what = signal.strsignal(-code) or f"signal {-code}"
        raise NotBuilt(f"the kernels that were built crash ({what.lower()})", lasting=True)
    if code:
        raise NotBuilt(f"the kernels that were built do not work ({(output.splitlines() or ['?'])[-1]})", lasting=True)


def _ended(command: Sequence[str], scratch: Path, late: str, **environment: str) -> tuple[int, str]:
    """Run a command; returns its exit status and its output. It and its children are killed where they take too long.

    The output goes to a file, since a pipe that a child keeps open would be waited for.
    """
    written = scratch / "output"
    settings = os.environ | {"LC_ALL": "C", "TMPDIR": str(scratch)} | environment
    with written.open("wb") as output:
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
            if written.stat().st_size > LARGEST:
                raise NotBuilt(f"{Path(command[0]).name} writes without end", lasting=True)
            time.sleep(0.01)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, _printable(written.read_bytes()[:LARGEST].decode(errors="replace"))


def _printable(text: str) -> str:
    """The lines of a text, shortened and without control characters."""
    lines = ("".join(x if x.isprintable() else "?" for x in line).strip()[:200] for line in text.splitlines())
    return "\n".join(line for line in lines if line)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock that only one process can have, and that is released when it ends; no lock where the file system has none.

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
                    raise NotBuilt(f"another process does not release {path}") from None
                time.sleep(0.05)
                continue
            except OSError:
                pass
            break
        yield
    finally:
        os.close(descriptor)
