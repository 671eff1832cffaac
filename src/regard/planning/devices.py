"""Devices that models are trained on, as data: what their makers say of them, and this machine, measured for about a second."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor

from regard.errors import InputError, nearest
from regard.machine import device_named, memory
from regard.machine import machine as described

NumberFormat = Literal["float32", "bfloat16", "float16"]
"""What matrices are multiplied in; sums are kept in float32 whatever it is."""

GIBIBYTE = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """What one device can do at best.

    Arguments:
        name: what it is called here.
        title: what its maker calls it.
        peak: floating-point operations per second of matrix products by number format, a multiplication and an addition being
            two; without sparsity, sums in float32. float32 is that of PyTorch's default, which does not round to TF32.
        memory: bytes.
        bandwidth: of the memory, bytes per second.
        watts: the most that its maker lets it draw; None where unknown.
        source: where the numbers are from.
        processor: whether it is a processor and no graphics card.
    """

    name: str
    title: str
    peak: Mapping[NumberFormat, float]
    memory: float
    bandwidth: float
    watts: float | None
    source: str
    processor: bool = False

    @property
    def fastest(self) -> NumberFormat:
        """The format of the highest peak, bfloat16 before float16 where they are alike."""
        order: tuple[NumberFormat, ...] = ("bfloat16", "float16", "float32")
        return max((each for each in order if each in self.peak), key=lambda each: self.peak[each])


def _card(
    name: str,
    title: str,
    *,
    float32: float,
    float16: float,
    bfloat16: float | None,
    gibibytes: float,
    gigabytes_per_second: float,
    watts: float,
    source: str,
) -> Device:
    """A graphics card, with its peaks in 10^12 operations per second."""
    peak: dict[NumberFormat, float] = {"float32": float32 * 1e12, "float16": float16 * 1e12}
    if bfloat16 is not None:
        peak["bfloat16"] = bfloat16 * 1e12
    return Device(
        name=name,
        title=title,
        peak=MappingProxyType(peak),
        memory=gibibytes * GIBIBYTE,
        bandwidth=gigabytes_per_second * 1e9,
        watts=watts,
        source=source,
    )


_VOLTA = "NVIDIA Tesla V100 data sheet (SXM2)"
_AMPERE = "NVIDIA A100 data sheet (SXM4)"
_CARDS = (
    _card(
        "p100-16",
        "NVIDIA Tesla P100, SXM2",
        float32=10.6,
        float16=21.2,
        bfloat16=None,
        gibibytes=16,
        gigabytes_per_second=732,
        watts=300,
        source="NVIDIA Tesla P100 data sheet (SXM2)",
    ),
    *(
        _card(
            f"v100-{size}",
            f"NVIDIA Tesla V100, SXM2, {size} GB",
            float32=15.7,
            float16=125,
            bfloat16=None,
            gibibytes=size,
            gigabytes_per_second=900,
            watts=300,
            source=_VOLTA,
        )
        for size in (16, 32)
    ),
    *(
        _card(
            f"a100-{size}",
            f"NVIDIA A100, SXM4, {size} GB",
            float32=19.5,
            float16=312,
            bfloat16=312,
            gibibytes=size,
            gigabytes_per_second=bandwidth,
            watts=400,
            source=_AMPERE,
        )
        for size, bandwidth in ((40, 1555), (80, 2039))
    ),
    _card(
        "h100-80",
        "NVIDIA H100, SXM5, 80 GB",
        float32=67,
        float16=989,
        bfloat16=989,
        gibibytes=80,
        gigabytes_per_second=3350,
        watts=700,
        source="NVIDIA H100 data sheet (SXM), its figures with sparsity halved",
    ),
    _card(
        "rtx-3090",
        "NVIDIA GeForce RTX 3090",
        float32=35.6,
        float16=71,
        bfloat16=71,
        gibibytes=24,
        gigabytes_per_second=936,
        watts=350,
        source="NVIDIA Ampere GA102 architecture paper, sums in float32",
    ),
    _card(
        "rtx-4090",
        "NVIDIA GeForce RTX 4090",
        float32=82.6,
        float16=165.2,
        bfloat16=165.2,
        gibibytes=24,
        gigabytes_per_second=1008,
        watts=450,
        source="NVIDIA Ada architecture paper, sums in float32",
    ),
    _card(
        "t4",
        "NVIDIA T4",
        float32=8.1,
        float16=65,
        bfloat16=None,
        gibibytes=16,
        gigabytes_per_second=320,
        watts=70,
        source="NVIDIA T4 data sheet",
    ),
)

DEVICES: Mapping[str, Device] = MappingProxyType({device.name: device for device in _CARDS})
"""The devices that are known by name; `here` is this machine, measured (`regard.planning.here`)."""

HERE = "here"


def device_called(name: str) -> Device:
    """A device by its name, or this machine, measured, for `here`.

    Raises:
        InputError: where there is none of that name, with the nearest.

    >>> device_called("a100-80").fastest
    'bfloat16'
    """
    if name == HERE:
        return here()
    if name not in DEVICES:
        raise InputError(f"--device: there is no {name!r}; {nearest(name, [*DEVICES, HERE])}")
    return DEVICES[name]


# The machine that this runs on, by its matrix products.


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
