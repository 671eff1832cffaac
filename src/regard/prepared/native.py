"""The compiled kernels of `kernels/`: built once for this processor by the machine's own compiler, then kept.

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
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.prepared.building import FLAGS, Building, NotBuilt, kept_in

FOLDER = Path(__file__).with_name("kernels")
SOURCE = FOLDER / "decoding.cpp"


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
    """As `kernels`, looked for anew at each call."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))), None)
    runtime = _openmp()
    if compiler is None:
        return Kernels(None, "there is no C++ compiler (g++ or clang++)")
    if runtime is None:
        return Kernels(None, "this PyTorch brings no OpenMP library that a compiled kernel could share")
    compiler = os.path.abspath(compiler)
    building = Building(compiler=compiler, runtime=runtime, source=SOURCE, name=_name(compiler, runtime))
    folder = kept_in()
    if folder is None:
        warnings.warn(
            "the kernels for weights of 8 and 4 bits are built anew by each process: the cache (XDG_CACHE_HOME, else ~/.cache) "
            "has no folder regard/kernels that belongs to this user and that nobody else may write to or read (mode 0700)",
            UserWarning,
            stacklevel=2,
        )
    try:
        return Kernels(building.loaded(folder))
    except NotBuilt as error:
        return Kernels(None, str(error))


def _name(compiler: str, runtime: Path) -> str:
    """What stands for the source, the compiler and the processor."""
    source = [path.read_bytes() for path in sorted(FOLDER.iterdir())]
    marks = (compiler, str(runtime), *FLAGS, platform.machine(), _processor())
    digest = hashlib.sha256(b"\0".join([*source, *(os.fsencode(mark) for mark in marks)])).hexdigest()
    return f"decoding-{digest[:24]}"


def _openmp() -> Path | None:
    """The OpenMP library that PyTorch computes with."""
    root = Path(torch.__file__).parent
    found = [path for place in ("lib", "../torch.libs") for path in sorted(glob.glob(f"{root}/{place}/libgomp*"))]
    return Path(found[0]).resolve() if found else None


def _processor() -> str:
    """What the processor can do: a library built for another one with the same home folder must not be taken."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("flags", "Features")):
                return line
    return platform.processor()
