"""What decides how fast a run is, and which numbers it ends with."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError

if TYPE_CHECKING:
    import torch

SPINS = "1000"
DEVICES = ("auto", "cpu", "cuda")
"""What `device_named` knows."""


def machine() -> dict[str, Any]:
    """Processor, cores and GPU of this machine."""
    import torch

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def memory() -> int | None:
    """Bytes of memory that the machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return None


def bound_spinning() -> None:
    """Let OpenMP's threads wait for one another by spinning a thousand times at most, then asleep.

    Without a bound a waiting thread holds its core for milliseconds: on a machine whose cores are busy, training a small model
    then takes over twenty times as long; idle it costs next to nothing. It has to be called before PyTorch is imported,
    because OpenMP reads `GOMP_SPINCOUNT` when it is loaded. What the user has set (`GOMP_SPINCOUNT`, `OMP_WAIT_POLICY`) stands.
    Processes that are started later inherit it.

    >>> import os
    >>> bound_spinning()
    >>> "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ
    True
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def device_named(name: str | torch.device, setting: str) -> torch.device:
    """Where to compute: `cpu`, `cuda`, or a GPU where PyTorch sees one and else the processor (`auto`).

    Arguments:
        name: one of `DEVICES`, one GPU of several (`cuda:1`), `mps`, or a `torch.device`.
        setting: what messages call it.

    Raises:
        InputError: for another name, or a device that is not there.

    >>> device_named("cpu", "--device")
    device(type='cpu')
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(name)
    except (RuntimeError, TypeError):
        place = None
    if place is None or place.type not in ("cpu", "cuda", "mps"):
        raise InputError(f"{setting} is {str(name)!r}; give one of {', '.join(DEVICES)}")
    if place.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"{setting} is {str(name)!r} but PyTorch sees no GPU; use auto or cpu")
    if place.type == "cuda" and place.index is not None and place.index >= torch.cuda.device_count():
        raise InputError(f"{setting} is {str(name)!r} but PyTorch sees {torch.cuda.device_count()} GPU; use cuda:0")
    if place.type == "mps" and not torch.backends.mps.is_available():
        raise InputError(f"{setting} is {str(name)!r} but PyTorch sees no Apple GPU; use auto or cpu")
    return place


def versions() -> dict[str, str]:
    """Of Regard and of what it runs on."""
    import torch

    import regard

    return {"regard": regard.__version__, "torch": torch.__version__, "python": platform.python_version()}


def _processor() -> str:
    """Its name; with family and model where Linux says them, since a rented machine's name is often that of all generations."""
    cpuinfo, said = Path("/proc/cpuinfo"), dict[str, str]()
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            said.setdefault(name.strip(), value.strip())
    if "model name" not in said:
        return platform.processor() or platform.machine()
    if {"cpu family", "model"} <= said.keys():
        return f"{said['model name']} (family {said['cpu family']}, model {said['model']})"
    return said["model name"]


def keep_freed_memory() -> None:
    """Tell the C library to keep large freed blocks for the next step instead of returning them to the system.

    With glibc's defaults each step of training on a processor returns its activations to the system and has them back as new
    pages, filled with zeros, which cost about a tenth of the time. A setting of the whole process, so the command line makes
    it, not `regard.train`. Where the C library is another one nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt") or not hasattr(library, "gnu_get_libc_version"):
        return
    trim_threshold, maximum_mapped = -1, -4  # M_TRIM_THRESHOLD, M_MMAP_MAX of malloc.h
    library.mallopt(maximum_mapped, 0)
    library.mallopt(trim_threshold, 2**31 - 1)
