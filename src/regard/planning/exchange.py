"""What many devices exchange in each update, and how long that takes: on paper, by the bytes and the links.

An update of B tokens on C = T D devices: each matrix is divided among T of them (tensor parallel, Shoeybi et al. 2019,
section 3), and D such groups read B / D tokens each (data parallel). With N parameters of 4 bytes, as this package keeps them,
and K blocks of width W:

    all-reduce of b bytes among n     2 b (n - 1) / n bytes out of each device, in a ring; gathering or scattering half of that
    gradients, DDP                    one all-reduce of 4 N / T bytes among D
    parameters and gradients, FSDP    per update one scattering, and for each batch two gatherings, of 4 N / T bytes among D
    inside the blocks                 4 K all-reduces of 2 W B / D bytes among T; 6 K where blocks are computed twice

What is exchanged inside the blocks is waited for. Gradients and parameters travel while the backward pass computes, which is two
thirds of the computing (half where blocks are computed twice); what takes longer than that is waited for. Latency, stragglers,
reading data and writing checkpoints are not counted, so the outcome is the most that can be hoped for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from regard.errors import InputError

PARAMETER = 4
"""Bytes of a parameter and of a gradient that travel."""
ACTIVATION = 2
"""Bytes of a number inside the blocks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """How devices are joined, and how the work is divided among them.

    Arguments:
        between: bytes per second in each direction from each device to other machines.
        machine: devices of one machine, which are joined by their own links.
        tensor: among how many devices each matrix is divided.
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
        network: what was assumed.
        compute: multiplying matrices, at the utilisation of one device alone.
        inside: exchanging what the blocks compute.
        data: exchanging gradients, with FSDP parameters too.
        hidden: of `data`, those that computing covers.
    """

    network: Network
    compute: float
    inside: float
    data: float
    hidden: float

    @property
    def seconds(self) -> float:
        """Of the update."""
        return self.compute + self.inside + self.data - self.hidden

    @property
    def share(self) -> float:
        """The part of the time in which devices compute."""
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
    """What an update takes on so many devices.

    Arguments:
        count: devices.
        link: bytes per second in each direction between the devices of a machine; as between machines where None.
        compute: seconds of an update's computing on all of them, nothing exchanged.
        parameters, blocks, width: of the model.
        tokens: of an update, on all devices.
        batches: of each group in an update, for each of which FSDP gathers the parameters again.
        recomputed: whether blocks are computed again in the backward pass.

    Raises:
        InputError: where devices cannot be divided so.

    >>> network = Network(between=25e9)
    >>> found = exchange(network, count=64, link=300e9, compute=1.0, parameters=10**9, blocks=24, width=2048, tokens=1e6)
    >>> round(found.data, 3), found.seconds  # 2 x 4e9 x 63 / 64 / 25e9, all of it while the backward pass computes
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
