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
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

FOLDER = Path(__file__).with_name("kernels")
SOURCE = FOLDER / "decoding.cpp"

FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fPIC")

PATIENCE = 120.0
"""Seconds after which a compiler that has not finished is given up."""

Pointer = ctypes.c_void_p


class LinearStruct(ctypes.Structure):
    """`Linear` of linear.h."""

    _fields_ = (
        ("outputs", ctypes.c_int32),
        ("inputs", ctypes.c_int32),
        ("bits", ctypes.c_int32),
        ("activation", ctypes.c_int32),
        ("weight", Pointer),
        ("scale", Pointer),
        ("bias", Pointer),
    )


class NormStruct(ctypes.Structure):
    """`Norm` of decoding.cpp; without a weight it does nothing."""

    _fields_ = (("weight", Pointer), ("bias", Pointer), ("epsilon", ctypes.c_float))


class BlockStruct(ctypes.Structure):
    """`Block` of decoding.cpp."""

    _fields_ = (
        ("projections", LinearStruct),
        ("output", LinearStruct),
        ("inner", LinearStruct),
        ("outer", LinearStruct),
        ("attention_before", NormStruct),
        ("attention_after", NormStruct),
        ("feedforward_before", NormStruct),
        ("feedforward_after", NormStruct),
        ("width", ctypes.c_int32),
        ("heads", ctypes.c_int32),
        ("head_width", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("source_query", LinearStruct),
        ("source_output", LinearStruct),
        ("source_before", NormStruct),
        ("source_after", NormStruct),
        ("source_scale", ctypes.c_float),
    )


class CacheStruct(ctypes.Structure):
    """`Cache` of decoding.cpp."""

    _fields_ = (
        ("values", Pointer),
        ("homes", Pointer),
        ("rows", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("columns", ctypes.c_int32),
    )


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
    """The kernels for this processor, built at the first call and kept in the user's cache for the next process."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))), None)
    runtime = _openmp()
    if compiler is None:
        return Kernels(None, "there is no C++ compiler (g++ or clang++)")
    if runtime is None:
        return Kernels(None, "this PyTorch brings no OpenMP library that a compiled kernel could share")
    try:
        library = _typed(ctypes.CDLL(str(_built(compiler, runtime))))
    except (OSError, subprocess.SubprocessError) as error:
        return Kernels(None, f"{Path(compiler).name} did not build the kernels ({_last_line(error)})")
    return Kernels(library)


def _built(compiler: str, runtime: Path) -> Path:
    """The library for this source, compiler and processor; built where it is not there yet."""
    source = [path.read_bytes() for path in sorted(FOLDER.iterdir())]
    marks = (compiler, str(runtime), *FLAGS, platform.machine(), _processor())
    name = hashlib.sha256(b"\0".join([*source, *(mark.encode() for mark in marks)])).hexdigest()[:24]
    folder = _cache()
    place = folder / f"decoding-{name}.so"
    if not place.exists():
        with tempfile.TemporaryDirectory(dir=folder) as partial:
            made = Path(partial) / "decoding.o", Path(partial) / "decoding.so"
            _run([compiler, *FLAGS, "-fopenmp", "-c", str(SOURCE), "-o", str(made[0])])
            # PyTorch's own OpenMP, not the system's: two sets of threads would wait for one another's cores.
            _run([compiler, "-shared", str(made[0]), str(runtime), f"-Wl,-rpath,{runtime.parent}", "-o", str(made[1])])
            made[1].replace(place)  # at once: another process may be building the same
    return place


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)


def _cache() -> Path:
    """Where built libraries are kept: the user's cache, or a folder of this process where that cannot be written to."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"
    with contextlib.suppress(OSError):
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(base, os.W_OK):
            return base
    return Path(tempfile.mkdtemp(prefix="regard-"))


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


def _last_line(error: Exception) -> str:
    said = getattr(error, "stderr", None) or str(error)
    return (said.strip().splitlines() or [type(error).__name__])[-1][:200]


def _typed(library: ctypes.CDLL) -> ctypes.CDLL:
    count, large = ctypes.c_int32, ctypes.c_int64
    linear, block, pointers = ctypes.POINTER(LinearStruct), ctypes.POINTER(BlockStruct), ctypes.POINTER(Pointer)
    cache = ctypes.POINTER(CacheStruct)
    signatures = {
        "regard_linear_scratch": (large, [linear, count]),
        "regard_linear": (None, [linear, Pointer, count, Pointer, count, Pointer]),
        "regard_blocks_scratch": (large, [block, count, count]),
        "regard_blocks": (
            None,
            [block, count, Pointer, count, count, cache, pointers, cache, Pointer, count, Pointer, Pointer],
        ),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
