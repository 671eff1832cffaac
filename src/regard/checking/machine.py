"""What `regard doctor` checks: the machine, what is installed, and what makes Regard slow there.

`examine` collects the facts; `remarks` derives the advice from them alone.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

LIBRARIES = ("torch", "numpy", "tokenizers", "safetensors", "typer", "rich", "pyyaml", "jinja2")
INSTRUCTIONS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_bf16", "asimd", "bf16", "i8mm")
"""Linux's names of the processor features that decide how fast models run."""
SIDE = 512
"""Rows and columns of the matrices in the test of speed."""
SPINNING = 100_000
"""Iterations of a spinning thread from which on it occupies its core for about a millisecond."""
JOINED = ("all", "dev")
"""Extras that combine others."""
LITTLE_MEMORY, LITTLE_DISK = 1 << 30, 1 << 30


def examine() -> dict[str, Any]:
    """Versions, processors, threads, kernels, memory, disk, cache and extras; takes about half a second.

    Sizes are in bytes. Facts that the system does not provide are None.
    """
    import torch

    import regard
    from regard.machine import machine, memory
    from regard.training.precision import resolve

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype, reason = resolve("auto", device)
    return {
        "versions": {
            "regard": regard.__version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in LIBRARIES},
        },
        "system": platform.platform(),
        "processor": machine()["processor"],
        "processors": os.cpu_count(),
        "allowed": allowed(),
        "quota": quota(),
        "instructions": [name for name in INSTRUCTIONS if name in _flags()],
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "share": share(),
        "threads": torch.get_num_threads(),
        "environment": {
            name: os.environ.get(name)
            for name in ("OMP_NUM_THREADS", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "MKL_NUM_THREADS", "XDG_CACHE_HOME")
        },
        "device": str(device),
        "gpus": [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())],
        "built_for_gpus": torch.version.cuda is not None or torch.version.hip is not None,
        "precision": {"auto": str(dtype).removeprefix("torch."), "reason": reason},
        "speed": {name: _speed(name) for name in ("float32", "bfloat16")},
        "kernels": kernels(),
        "memory": {"total": memory(), "available": _available(), "limit": _limit()},
        "disk": {name: _free(path) for name, path in _places().items()},
        "cache": cache(),
        "extras": extras(),
    }


def remarks(found: Mapping[str, Any]) -> list[str]:
    """What is slow or wrong on this machine, why, and what to do, one sentence each; empty where nothing is."""
    return [*_of_processors(found), *_of_numbers(found), *_of_space(found)]


def _of_processors(found: Mapping[str, Any]) -> Iterator[str]:
    usable = min(found["allowed"] or found["processors"] or 1, found["processors"] or 1)
    threads, environment = found["threads"], found["environment"]
    if found["share"] is not None and found["share"] < 0.8:
        load = "" if found["load"] is None else f" (load {found['load']:.1f} on {found['processors']})"
        yield (
            f"the machine is busy{load}: a thread of this program got {found['share']:.0%} of a processor's time just now; "
            "everything takes that much longer, and measured speeds mean little"
        )
    elif found["load"] is not None and found["load"] > usable:
        yield (
            f"other programs are busy (load {found['load']:.1f} on {found['processors']} processors): threads of different "
            "programs wait for each other; run one at a time, or give each fewer threads with OMP_NUM_THREADS"
        )
    if found["quota"] is not None and threads > max(1.0, found["quota"]):
        yield (
            f"this container may use {found['quota']:g} processors, and PyTorch starts {threads} threads, which are "
            f"then throttled: set OMP_NUM_THREADS={max(1, int(found['quota']))}"
        )
    if threads > usable:
        yield (
            f"PyTorch starts {threads} threads on {usable} processors, where they wait for each other: "
            f"set OMP_NUM_THREADS={usable}"
        )
    elif threads == 1 < usable and environment["OMP_NUM_THREADS"] == "1":
        yield f"PyTorch computes with 1 of {usable} processors, because OMP_NUM_THREADS is 1: unset it for speed"
    if spins(environment):
        yield (
            "waiting threads occupy their cores (because of OMP_WAIT_POLICY or GOMP_SPINCOUNT): next to other busy "
            "programs training takes many times as long; unset them, or set GOMP_SPINCOUNT=1000"
        )


def _of_numbers(found: Mapping[str, Any]) -> Iterator[str]:
    if found["built_for_gpus"] and not found["gpus"]:
        yield "this PyTorch is built for GPUs, and there is none: without one, the build for CPUs is smaller and as fast"
    if found["device"] == "cpu" and found["precision"]["auto"] == "float32":
        yield (
            "this processor cannot multiply bfloat16 (AVX512-BF16 or AMX could): training is in float32, about half as fast "
            "as with bfloat16; int8 weights use integer instructions and do not need it"
        )
    kernels = found["kernels"]
    if kernels["state"] == "none":
        yield f"int8 and int4 weights are no faster than bfloat16: {kernels['why']}"
    elif kernels["state"] == "to be built":
        yield "the kernels for int8 and int4 weights are not built yet: the first model that needs them waits half a minute"
    if kernels["variant"] == "plain":
        yield "the processor has neither AVX2 nor AVX512-VNNI: int8 and int4 weights are computed by generic code, slowly"
    if kernels["compiler"] is None:
        yield "there is no C++ compiler (g++ or clang++): training.compile has no effect"


def _of_space(found: Mapping[str, Any]) -> Iterator[str]:
    from regard.rendering import gibibytes

    sizes = [size for size in (found["memory"]["available"], found["memory"]["limit"]) if size is not None]
    if sizes and min(sizes) < LITTLE_MEMORY:
        yield f"there are {gibibytes(min(sizes))} of memory: the system will kill or swap out larger models"
    for name, place in found["disk"].items():
        if place["free"] is not None and place["free"] < LITTLE_DISK:
            yield f"{gibibytes(place['free'])} are free for {name} ({place['path']}): a checkpoint may not find room"
    if found["cache"]["path"] is None:
        yield (
            "there is no cache folder of this user alone (XDG_CACHE_HOME, else ~/.cache; regard/kernels in it with mode 0700): "
            "kernels are built again by each process, half a minute each time"
        )


# Processors and threads.


def allowed() -> int | None:
    """The number of processors that this process may run on (`taskset`, a batch system)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def quota(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """The number of processors that a container may use (`docker run --cpus`); None without a limit.

    Arguments:
        root: where control groups are mounted, of version 2 or version 1.
    """
    found = [_ratio(*words[:2]) for words in _in_groups(root, "cpu.max") if len(words) >= 2]
    old = _words(root / "cpu" / "cpu.cfs_quota_us") + _words(root / "cpu" / "cpu.cfs_period_us")
    found += [_ratio(*old)] if len(old) == 2 else []
    return min((each for each in found if each is not None), default=None)


def _ratio(part: str, whole: str) -> float | None:
    try:
        ratio = int(part) / int(whole)
    except (ValueError, ZeroDivisionError):  # "max"
        return None
    return ratio if ratio > 0 else None


def _limit(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes of memory that a container may use; None without a limit."""
    words = [*_in_groups(root, "memory.max"), _words(root / "memory" / "memory.limit_in_bytes")]
    sizes = [int(each[0]) for each in words if each and each[0].isdigit()]
    return min((size for size in sizes if size < 1 << 60), default=None)  # in version 1, "no limit" is a huge number


def _in_groups(root: Path, name: str) -> list[list[str]]:
    """The words of a file in the control groups of this process, inner and outer ones."""
    own = next((line[3:] for line in _lines(Path("/proc/self/cgroup")) if line.startswith("0::")), "/")
    inner = root / own.lstrip("/")
    places = [inner, *(each for each in inner.parents if each == root or root in each.parents)]
    return [_words(place / name) for place in places]


def _words(path: Path) -> list[str]:
    return [word for line in _lines(path) for word in line.split()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def share(seconds: float = 0.1) -> float:
    """The fraction of a processor's time that a busy thread gets: 1 on an idle machine."""
    began, used = time.perf_counter(), time.thread_time()
    while time.perf_counter() - began < seconds:
        pass
    return min(1.0, (time.thread_time() - used) / (time.perf_counter() - began))


def spins(environment: Mapping[str, str | None]) -> bool:
    """Whether waiting OpenMP threads occupy their cores for long.

    >>> spins({"GOMP_SPINCOUNT": "1000"}), spins({"OMP_WAIT_POLICY": "active"}), spins({})
    (False, True, True)
    """
    policy, turns = environment.get("OMP_WAIT_POLICY"), environment.get("GOMP_SPINCOUNT")
    if turns is not None:
        return not turns.strip().isdigit() or int(turns) >= SPINNING  # "infinity"
    return policy is None or policy.strip().lower() != "passive"


def _flags() -> set[str]:
    lines = (line for line in _lines(Path("/proc/cpuinfo")) if line.startswith(("flags", "Features")))
    return set(next(lines, "").split())


def _speed(name: str) -> float:
    """10^9 operations per second of a matrix product on all threads, the best of three."""
    import torch

    matrix = torch.ones(SIDE, SIDE, dtype=getattr(torch, name))
    taken = []
    for _ in range(4):  # the first run starts the threads
        began = time.perf_counter()
        torch.mm(matrix, matrix)
        taken.append(time.perf_counter() - began)
    return 2 * SIDE**3 / min(taken[1:]) / 1e9


# Kernels, memory, disk, cache.


def kernels() -> dict[str, Any]:
    """The kernel variant for this processor, whether it is compiled, and the compiler; nothing is built."""
    from regard.kernels import found_kernels

    flags = _flags()
    wide = {"avx512f", "avx512bw", "avx512_vnni"} <= flags
    variant = "AVX512-VNNI" if wide else "AVX2" if {"avx2", "fma"} <= flags else "plain"
    return {"variant": variant, **found_kernels()}


def _available() -> int | None:
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return None


def _places() -> dict[str, Path]:
    return {"this folder": Path.cwd(), "scratch files": Path(tempfile.gettempdir())}


def _free(path: Path) -> dict[str, Any]:
    try:
        return {"path": str(path), "free": shutil.disk_usage(path).free}
    except OSError:
        return {"path": str(path), "free": None}


def cache() -> dict[str, Any]:
    """The cache folder of compiled kernels and its size in bytes; None where there is no folder of this user alone."""
    from regard.files import own_cache

    place, size = own_cache("kernels"), 0
    with contextlib.suppress(OSError):
        size = sum(path.lstat().st_size for path in place.rglob("*")) if place is not None else 0
    return {"path": None if place is None else str(place), "bytes": size}


# What is installed.


def extras(requirements: Sequence[str] | None = None) -> dict[str, dict[str, str | None]]:
    """For each extra, its libraries with their versions; None for those that are missing.

    Arguments:
        requirements: as in the package's metadata; None for those of the installed package.

    >>> extras(["numpy>=1", "no-such-thing>=2; extra == 'plot'", "regard[plot]; extra == 'all'"])
    {'plot': {'no-such-thing': None}}
    """
    if requirements is None:
        try:
            requirements = metadata.requires("regard") or []
        except metadata.PackageNotFoundError:  # run from source
            return {}
    found: dict[str, dict[str, str | None]] = {}
    for requirement in requirements:
        name, extra = re.match(r"[\w.-]+", requirement), re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if name is not None and extra is not None and extra.group(1) not in JOINED:
            found.setdefault(extra.group(1), {})[name.group()] = _version(name.group())
    return found


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
