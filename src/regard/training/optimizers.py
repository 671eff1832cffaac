"""What of a model learns and how it is updated: frozen parameters, low-rank adapters, optimisers and what they keep."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from regard.checkpoints.pretrained import names_left_new
from regard.errors import InputError, nearest
from regard.layers.blocks import adapt
from regard.training.settings import AdapterSettings, OptimizerName, TrainingSettings


def freeze(model: nn.Module, patterns: Sequence[str]) -> int:
    """Keep parameters from being updated, in place; returns how many numbers that are.

    A gradient is not even computed for them, nor for what only they need. Dropout stays as it is.

    Arguments:
        patterns: names of parameters, or of modules with all in them, in which `*` stands for what has no dot in it.

    Raises:
        InputError: where nothing is called so, naming the nearest, or nothing is left to train.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    >>> freeze(model, ["0"]), [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    (9, ['1.weight', '1.bias'])
    """
    count = 0
    for pattern in patterns:
        fitting = [parameter for name, parameter in model.named_parameters() if _is_in(name, pattern)]
        if not fitting:
            names = [name for name, _ in [*model.named_modules(), *model.named_parameters()] if name]
            raise InputError(f"training.frozen: nothing is called {pattern!r}; {nearest(pattern, names)}")
        for parameter in fitting:
            count += parameter.numel() if parameter.requires_grad else 0
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"training.frozen is {', '.join(patterns)}, which leaves nothing to train; freeze less")
    return count


def _is_in(name: str, pattern: str) -> bool:
    """Whether a parameter, or a module that it is in, is called so."""
    parts = name.split(".")[: pattern.count(".") + 1]
    return len(parts) == pattern.count(".") + 1 and fnmatchcase(".".join(parts), pattern)


def give_adapters(
    model: nn.Module, settings: AdapterSettings, start: str | os.PathLike[str], layers: Sequence[int] | None
) -> str:
    """Adapt a model that started from a folder's weights, in place; what the folder had not, such as a new head, is trained too.

    Arguments:
        start: the folder.
        layers: which of its layers were taken; all where None.

    Returns:
        A sentence for the user.

    Raises:
        InputError: where a name in `on` fits no map.
    """
    new = names_left_new(model, start, layers=layers)
    maps = adapt(model, settings.on, rank=settings.rank, alpha=settings.alpha, dropout=settings.dropout)
    own: dict[str, Any] = dict(model.named_parameters())
    for name in new:
        own[name].requires_grad_(True)
    trained = sum(parameter.numel() for parameter in own.values() if parameter.requires_grad)
    total = sum(parameter.numel() for parameter in own.values())
    return (
        f"adapters of rank {settings.rank} on {len(maps)} linear maps; {trained:,} of {total:,} parameters are trained "
        f"({trained / total:.2%})."
    )


def build_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """The named optimiser over a model's parameters that are not frozen; biases, norms and other vectors are not decayed."""
    matrices, vectors = [], []
    for parameter in model.parameters():
        if parameter.requires_grad:
            (matrices if parameter.dim() > 1 else vectors).append(parameter)
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    rate, momentum = settings.learning_rate, settings.momentum
    match settings.optimizer:
        case "adamw" | "adam":
            return (torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam)(
                groups,
                lr=rate,
                betas=settings.betas,
                eps=settings.epsilon,
                # One pass over memory per update instead of a dozen; it does not know sharded tensors.
                fused=not any(isinstance(parameter, DTensor) for parameter in model.parameters()),
            )
        case "sgd":
            return torch.optim.SGD(groups, lr=rate, momentum=momentum)
        case "adagrad":
            return torch.optim.Adagrad(groups, lr=rate)
        case "adadelta":
            return torch.optim.Adadelta(groups, lr=rate, rho=0.95, eps=1e-6)
        case "rmsprop":
            return torch.optim.RMSprop(groups, lr=rate, alpha=0.95, eps=1e-8, momentum=momentum)
        case "adafactor":
            return torch.optim.Adafactor(groups, lr=rate)


def numbers_kept(shape: Sequence[int], optimizer: OptimizerName, *, momentum: bool = False) -> int:
    """How many numbers an optimiser keeps for a parameter of a shape, from one update to the next.

    >>> numbers_kept((512, 2048), "adam"), numbers_kept((512, 2048), "adafactor"), numbers_kept((512,), "adafactor")
    (2097152, 2560, 512)
    """
    size = math.prod(shape)
    if optimizer == "adafactor" and len(shape) > 1:
        return size // shape[-1] + size // shape[-2]
    means = {"adamw": 2, "adam": 2, "sgd": 0, "adagrad": 1, "adadelta": 2, "rmsprop": 1, "adafactor": 1}
    return size * (means[optimizer] + momentum)
