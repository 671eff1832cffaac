"""The processes of one run: alone, or several under torchrun."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from regard.layers.blocks import Block
from regard.machine import device_named

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Workers:
    """One process among all that train together.

    Arguments:
        rank, count: which of how many.
        device: where this one computes.
    """

    rank: int
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process writes files and speaks to the user."""
        return self.rank == 0

    def wait(self) -> None:
        """Until every worker is here."""
        if self.count > 1:
            dist.barrier()

    def summed(self, *numbers: float | Tensor) -> list[float]:
        """Each number added up over all workers."""
        totals = torch.stack([torch.as_tensor(n, dtype=torch.float64, device=self.device) for n in numbers])
        if self.count > 1:
            dist.all_reduce(totals)
        return totals.tolist()

    def largest(self, number: int) -> int:
        """The largest of the numbers that the workers have."""
        if self.count == 1:
            return number
        found = torch.tensor(number, device=self.device)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return int(found)

    def gathered(self, value: T) -> list[T]:
        """What each worker has, small and picklable, in the order of their ranks; all get the same."""
        if self.count == 1:
            return [value]
        found: list[Any] = [None] * self.count
        dist.all_gather_object(found, value)
        return found

    def added(self, tallies: Sequence[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
        """Tallies added up over all workers, each of which has as many."""
        sums = iter(self.summed(*(number for tally in tallies for number in tally)))
        return [(total, int(labels), int(right)) for total, labels, right in zip(sums, sums, sums, strict=True)]

    def first_not_finite(self, tensors: Iterable[tuple[str, Tensor | None]]) -> str:
        """The name of the first tensor that holds NaN or infinity on any worker; empty where none does.

        Arguments:
            tensors: with their names, the same on all workers, all of whom have to ask. They may be sharded.

        >>> alone = Workers(0, 1, torch.device("cpu"))
        >>> alone.first_not_finite([("a", torch.ones(2)), ("b", None), ("c", torch.tensor([1.0, torch.inf]))])
        'c'
        """
        named = list(tensors)
        own = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for _, tensor in named)
        bad = (place for place, tensor in enumerate(own) if tensor is not None and not bool(tensor.isfinite().all()))
        first = -self.largest(-next(bad, len(named)))
        return named[first][0] if first < len(named) else ""

    def wrapped(self, model: nn.Module, parallel: Literal["ddp", "fsdp"]) -> nn.Module:
        """The model to call in training: itself when alone, a DDP wrapper, or sharded in place by FSDP2.

        Under FSDP2 each Transformer block is a shard group of its own, gathered just before it runs.
        """
        if self.count == 1:
            return model
        if parallel == "ddp":
            return DistributedDataParallel(model, broadcast_buffers=False)
        for module in model.modules():
            if isinstance(module, Block):
                fully_shard(module)
        fully_shard(model)  # in place
        return model

    def scattered(self, model: nn.Module) -> None:
        """Put gathered shards back where the last forward pass had no backward pass after it, which would have done so.

        FSDP2 leaves the outermost group gathered; its parameters are then not those the optimiser knows.
        """
        if isinstance(model, FSDPModule):
            model.reshard()

    @contextlib.contextmanager
    def gathering(self, model: nn.Module, last: bool) -> Iterator[None]:
        """Inside the block, gradients are exchanged between workers only if this is the update's last batch."""
        if isinstance(model, DistributedDataParallel) and not last:
            with model.no_sync():
                yield
        elif isinstance(model, FSDPModule):
            model.set_requires_gradient_sync(last)
            yield
        else:
            yield


@contextlib.contextmanager
def joined(device: str) -> Iterator[Workers]:
    """The workers of this run: joins torchrun's group where there is one, and leaves it at the end.

    Raises:
        InputError: where a GPU is asked for and there is none.
    """
    place = device_named(device, "training.device")
    if "RANK" not in os.environ:
        yield Workers(0, 1, place)
        return
    local = int(os.environ.get("LOCAL_RANK", "0"))
    on_gpu = place.type == "cuda"
    if on_gpu:
        place = torch.device("cuda", local)
        torch.cuda.set_device(place)
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=datetime.timedelta(minutes=30))
    try:
        yield Workers(dist.get_rank(), dist.get_world_size(), place)
    finally:
        dist.destroy_process_group()


def whole(tensor: Tensor) -> Tensor:
    """The full tensor of one that may be sharded; every worker has to call this."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A full tensor laid out as a parameter is: sharded where that is, on its device."""
    if isinstance(parameter, DTensor) and tensor.shape == parameter.shape:
        return distribute_tensor(tensor.to(parameter.device), parameter.device_mesh, parameter.placements)
    return tensor.to(parameter.device) if tensor.shape == parameter.shape else tensor
