"""The machine that this runs on as a device: its matrix products measured for about a second."""

from __future__ import annotations

import time
from types import MappingProxyType

import torch
from torch import Tensor

from regard.machine import device_named, memory
from regard.machine import machine as described
from regard.planning.devices import HERE, Device, NumberFormat

SECONDS = 0.4
"""How long each number format is measured."""


def here(name: str = "auto", *, size: int | None = None, seconds: float = SECONDS) -> Device:
    """What this machine multiplies matrices at, with PyTorch and the threads it has now.

    The peak is the best of several products of square matrices: what a training run reaches is less. float16 is not measured on a
    processor, where nothing trains in it.

    Arguments:
        name: `cpu`, `cuda`, or `auto`.
        size: of the matrices; 1024 on a processor and 8192 on a graphics card where None.
        seconds: for each number format.
    """
    place = device_named(name, "--device")
    machine = described()
    side = size if size is not None else (8192 if place.type == "cuda" else 1024)
    formats: tuple[NumberFormat, ...] = ("float32", "bfloat16")
    peak: dict[NumberFormat, float] = {
        each: 2 * side**3 / _quickest(getattr(torch, each), side, place, seconds) for each in formats
    }
    return Device(
        name=HERE,
        title=str(
            machine["gpu"] if place.type == "cuda" else f"{machine['processor']}, {torch.get_num_threads()} threads"
        ),
        peak=MappingProxyType(peak),
        memory=_memory(place),
        bandwidth=_bandwidth(place),
        watts=None,
        source=f"measured here: products of {side} by {side} matrices, PyTorch {torch.__version__}",
        processor=place.type == "cpu",
    )


def _quickest(dtype: torch.dtype, side: int, place: torch.device, seconds: float) -> float:
    """Seconds of the quickest of the products that fit into the time."""
    left, right = (torch.ones(side, side, dtype=dtype, device=place) for _ in range(2))
    _timed(lambda: left @ right, place)  # the first one sets things up
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until or best == float("inf"):
        best = min(best, _timed(lambda: left @ right, place))
    return best


def _timed(work: object, place: torch.device) -> float:
    if place.type == "cuda":
        torch.cuda.synchronize(place)
    before = time.perf_counter()
    made: Tensor = work()  # type: ignore[operator]
    if place.type == "cuda":
        torch.cuda.synchronize(place)
    del made
    return max(1e-9, time.perf_counter() - before)


def _bandwidth(place: torch.device) -> float:
    """Bytes per second read and written by copying 64 MiB."""
    block = torch.ones(2**24, dtype=torch.float32, device=place)
    return 2 * block.nbytes / min(_timed(block.clone, place) for _ in range(4))


def _memory(place: torch.device) -> float:
    if place.type == "cuda":
        return float(torch.cuda.get_device_properties(place).total_memory)
    return float(memory() or 0)
