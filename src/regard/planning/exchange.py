"""Communication between devices in each update, and the time it takes, estimated from bytes and bandwidths.

An update of B tokens on C = T D devices: each matrix is divided among T of them (tensor parallelism, Shoeybi et al. 2019,
section 3), and each of D such groups reads B / D tokens (data parallelism). With N parameters of 4 bytes, as in this package, and
K blocks of width W:

    all-reduce of b bytes among n     2 b (n - 1) / n bytes out of each device, in a ring; gathering or scattering half of that
    gradients, DDP                    one all-reduce of 4 N / T bytes among D
    parameters and gradients, FSDP    per update one scattering, and for each batch two gatherings, of 4 N / T bytes among D
    inside the blocks                 4 K all-reduces of 2 W B / D bytes among T; 6 K where blocks are computed twice

Communication inside the blocks adds to the time. Gradients and parameters are sent during the backward pass, which is two thirds
of the computation (half with activation checkpointing); only what takes longer than that adds to the time. Latency, slow devices,
reading data and writing checkpoints are not counted, so real runs are slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from regard.errors import InputError

PARAMETER = 4
"""Bytes of a parameter and of a gradient that are sent."""
ACTIVATION = 2
"""Bytes of a number that is sent inside the blocks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """How devices are connected, and how the work is divided among them.

    Arguments:
        between: bandwidth of each device to other machines, in bytes per second each way.
        machine: the number of devices in a machine, which have their own links.
        tensor: the number of devices among which each matrix is divided.
        parallel: whether each group has all parameters (`ddp`) or a share of them (`fsdp`).

    Raises:
        InputError: for numbers out of range.
    """

    between: float
    machine: int = 8
    tensor: int = 1
    parallel: Literal["ddp", "fsdp"] = "ddp"

    def __post_init__(self) -> None:
        if not self.between > 0:
            raise InputError(
                f"--network is {self.between / 1e9:g}; give the gigabytes per second of a device, such as 25"
            )
        for name in ("machine", "tensor"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name} is {getattr(self, name)}; give 1 or more devices")


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """The seconds of one update.

    Arguments:
        network: the assumptions.
        compute: of matrix products, at the utilisation of one device alone.
        inside: of communication inside the blocks.
        data: of communication of gradients, with FSDP also of parameters.
        hidden: the part of `data` that overlaps with computation.
    """

    network: Network
    compute: float
    inside: float
    data: float
    hidden: float

    @property
    def seconds(self) -> float:
        """Of the whole update."""
        return self.compute + self.inside + self.data - self.hidden

    @property
    def share(self) -> float:
        """The fraction of the time in which devices compute."""
        return self.compute / self.seconds

    def to_mapping(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "network": self.network.between,
            "machine": self.network.machine,
            "tensor": self.network.tensor,
            "parallel": self.network.parallel,
            "compute": self.compute,
            "inside": self.inside,
            "data": self.data,
            "hidden": self.hidden,
            "seconds": self.seconds,
            "share": self.share,
        }


def exchange(
    network: Network,
    *,
    count: int,
    link: float | None,
    compute: float,
    parameters: int,
    blocks: int,
    width: int,
    tokens: float,
    batches: float = 1.0,
    recomputed: bool = False,
) -> Exchange:
    """The time of an update on several devices.

    Arguments:
        network: how the devices are connected.
        count: number of devices.
        link: bandwidth between the devices of a machine, in bytes per second each way; None for that between machines.
        compute: seconds of an update's computation on all devices, without communication.
        parameters, blocks, width: of the model.
        tokens: of an update, on all devices.
        batches: per group and update; for each of them FSDP gathers the parameters again.
        recomputed: whether activations of blocks are recomputed in the backward pass.

    Raises:
        InputError: where `count` is not divisible by `network.tensor`.

    >>> network = Network(between=25e9)
    >>> found = exchange(network, count=64, link=300e9, compute=1.0, parameters=10**9, blocks=24, width=2048, tokens=1e6)
    >>> round(found.data, 3), found.seconds  # 2 x 4e9 x 63 / 64 / 25e9, all of it during the backward pass
    (0.315, 1.0)
    """
    tensor = network.tensor
    if count % tensor:
        raise InputError(f"--tensor is {tensor}, and {count} devices cannot be divided by it; give a divisor")
    groups = count // tensor
    near = network.between if link is None else link
    inside = 0.0
    if tensor > 1:
        each = ACTIVATION * width * tokens / groups
        speed = near if tensor <= network.machine else network.between
        inside = (6 if recomputed else 4) * blocks * 2 * each * (tensor - 1) / tensor / speed
    travels = (2 * batches + 1) if network.parallel == "fsdp" else 2.0
    speed = near if count <= network.machine else network.between
    data = travels * PARAMETER * parameters / tensor * (groups - 1) / groups / speed
    return Exchange(
        network=network,
        compute=compute,
        inside=inside,
        data=data,
        hidden=min(data, compute * (1 / 2 if recomputed else 2 / 3)),
    )
