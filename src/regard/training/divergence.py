"""Numbers that are not finite, looked for among the tensors of a training."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor
from torch.distributed.tensor import DTensor

from regard.training.workers import Workers


def first_not_finite(tensors: Iterable[tuple[str, Tensor | None]], workers: Workers) -> str:
    """The name of the first tensor that holds NaN or infinity on any worker; empty where none does.

    Arguments:
        tensors: with their names, the same on all workers, all of whom have to ask. They may be sharded.

    >>> import torch
    >>> alone = Workers(0, 1, torch.device("cpu"))
    >>> first_not_finite([("a", torch.ones(2)), ("b", None), ("c", torch.tensor([1.0, torch.inf]))], alone)
    'c'
    """
    named = list(tensors)
    own = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for _, tensor in named)
    bad = (place for place, tensor in enumerate(own) if tensor is not None and not bool(tensor.isfinite().all()))
    first = -workers.largest(-next(bad, len(named)))
    return named[first][0] if first < len(named) else ""
