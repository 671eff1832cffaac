"""How the kernels of `sources/` are compiled, by the machine that uses them or for a wheel, and which of a wheel's fit a machine.

    _libraries/   x86_64-avx512-bf16.so, x86_64-avx512.so, x86_64-avx2.so or aarch64.so, and SHA256SUMS: their digests and
                  those of the sources

This file uses the standard library only: the hook that builds wheels (`hatch_build.py`) reads it where nothing is installed.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).with_name("sources")
SOURCE = SOURCES / "decoding.cpp"
SHIPPED = Path(__file__).with_name("_libraries")
SUMS = "SHA256SUMS"

FLAGS = ("-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fno-exceptions", "-fPIC", "-fopenmp")
LINKED = ("-shared", "-Wl,--as-needed", "-Wl,-z,defs", "-lm")
"""Only the C library is linked: OpenMP's functions are PyTorch's, passed at run time (`sources/runtime.h`)."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The kernels for one kind of processor.

    Arguments:
        name: of the file, without its suffix.
        machine: the value of `platform.machine()`.
        needs: the processor flags that `/proc/cpuinfo` must list.
        flags: for the compiler.
    """

    name: str
    machine: str
    needs: frozenset[str]
    flags: tuple[str, ...]


_AVX2 = frozenset(("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"))
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"}

_WIDE = ("-march=x86-64-v4", "-mavx512vnni", "-mprefer-vector-width=512")

VARIANTS = (
    Variant("x86_64-avx512-bf16", "x86_64", _AVX512 | {"avx512_bf16"}, (*_WIDE, "-mavx512bf16")),
    Variant("x86_64-avx512", "x86_64", _AVX512, _WIDE),
    Variant("x86_64-avx2", "x86_64", _AVX2, ("-march=x86-64-v3",)),
    Variant("aarch64", "aarch64", frozenset(("asimd",)), ("-march=armv8-a",)),
)
"""The variants in wheels; for each machine, the one with the widest vectors first."""


def processor() -> str:
    """The processor's features as Linux lists them."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("flags", "Features")):
                return line
    except OSError:
        pass
    return platform.processor()


def sums(files: Iterable[Path], before: str = "") -> list[str]:
    """Digests of files in the format of `sha256sum`, one line each, with `before` in front of each name.

    Raises:
        OSError: where a file cannot be read.
    """
    return [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {before}{file.name}" for file in files]


def source_sums() -> list[str]:
    """Digests of the sources, in the order of their names, with paths relative to the folder of libraries."""
    return sums(
        sorted(path for path in SOURCES.iterdir() if path.suffix in (".cpp", ".h")), before=f"../{SOURCES.name}/"
    )


def shipped(folder: Path) -> Path | None:
    """The wheel's library for this processor; None where there is none, or it is damaged or built from other sources."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
        if [line for line in lines if f"../{SOURCES.name}/" in line] != source_sums():
            return None
        own = set(processor().split())
        for variant in VARIANTS:
            library = folder / f"{variant.name}.so"
            fits = variant.machine == platform.machine() and variant.needs <= own
            if fits and library.is_file() and sums([library])[0] in lines:
                return library
    except (OSError, ValueError):
        pass
    return None
