"""How the kernels of `kernels/` are compiled, by the machine that uses them or for a wheel, and which a wheel brought.

    _kernels/     x86_64-avx512.so, x86_64-avx2.so or aarch64.so, and libraries.json: their digests and that of the sources

Of Python's own library alone: the hook that builds wheels (`hatch_build.py`) reads this file where nothing is installed.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).with_name("kernels")
SOURCE = SOURCES / "decoding.cpp"
SHIPPED = Path(__file__).with_name("_kernels")
LIST = "libraries.json"

FLAGS = ("-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fno-exceptions", "-fPIC", "-fopenmp")
LINKED = ("-shared", "-Wl,--as-needed", "-Wl,-z,defs", "-lm")
"""Nothing but the C library: the functions of OpenMP are PyTorch's, told at run time (`kernels/runtime.h`)."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The kernels for processors of one kind.

    Arguments:
        name: of the file, without its ending.
        machine: as `platform.machine()` says it.
        needs: what `/proc/cpuinfo` has to list.
        flags: for the compiler.
    """

    name: str
    machine: str
    needs: frozenset[str]
    flags: tuple[str, ...]


_AVX2 = frozenset(("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"))
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"}

VARIANTS = (
    Variant("x86_64-avx512", "x86_64", _AVX512, ("-march=x86-64-v4", "-mavx512vnni", "-mprefer-vector-width=512")),
    Variant("x86_64-avx2", "x86_64", _AVX2, ("-march=x86-64-v3",)),
    Variant("aarch64", "aarch64", frozenset(("asimd",)), ("-march=armv8-a",)),
)
"""Those that wheels bring, of each machine the widest first."""


def processor() -> str:
    """What the processor can do, in Linux's words."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("flags", "Features")):
                return line
    except OSError:
        pass
    return platform.processor()


def digest(contents: Iterable[bytes]) -> str:
    """SHA-256 of some contents after one another.

    >>> digest([b"a", b"b"]) == digest([b"ab"])
    False
    """
    return hashlib.sha256(b"".join(len(each).to_bytes(8, "little") + each for each in contents)).hexdigest()


def sources_digest() -> str:
    """What stands for the sources, in the order of their names."""
    return digest(path.read_bytes() for path in sorted(SOURCES.iterdir()) if path.suffix in (".cpp", ".h"))


def shipped(folder: Path) -> Path | None:
    """The library that a wheel brought for this processor; None where there is none that is whole and of these sources."""
    try:
        told = json.loads((folder / LIST).read_text(encoding="utf-8"))
        if told["sources"] != sources_digest():
            return None
        own = set(processor().split())
        for variant in VARIANTS:
            library = folder / f"{variant.name}.so"
            if variant.machine != platform.machine() or not variant.needs <= own or not library.is_file():
                continue
            if digest([library.read_bytes()]) == told["libraries"][library.name]:
                return library
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None
