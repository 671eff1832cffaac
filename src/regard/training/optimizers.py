"""Optimisers with weight decay where it belongs."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from regard.training.settings import TrainingSettings


def build_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """AdamW or Adam over a model's parameters; biases, norms and other vectors are not decayed."""
    matrices, vectors = [], []
    for parameter in model.parameters():
        (matrices if parameter.dim() > 1 else vectors).append(parameter)
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return kind(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.epsilon,
        # One pass over memory per update instead of a dozen; it does not know sharded tensors.
        fused=not any(isinstance(parameter, DTensor) for parameter in model.parameters()),
    )
