"""The `adapters` section of a recipe: train a little beside a model that stays as it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.checkpoints.pretrained import names_left_new
from regard.layers.low_rank import adapt
from regard.models.config import check


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterSettings:
    """Low-rank adapters (Hu et al. 2021): the trained model's parameters stay, and small matrices beside some of them learn.

    Arguments:
        rank: of each adapter; 4 to 64 is usual.
        alpha: each adapter counts alpha / rank times.
        dropout: probability of dropping an entry of an adapter's input in training.
        on: which linear maps have one, by the ends of their names: `query`, `value`, `layers.0.attention.*`, `inner`.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    on: tuple[str, ...] = ("query", "value")

    def __post_init__(self) -> None:
        check(self.rank >= 1, "adapters.rank", self.rank, "at least 1", "4 to 64 is usual")
        check(self.alpha > 0, "adapters.alpha", self.alpha, "above 0", "twice the rank is usual")
        check(0 <= self.dropout < 1, "adapters.dropout", self.dropout, "in [0, 1)", "0.05 is usual")
        check(bool(self.on), "adapters.on", list(self.on), "a list of names", "[query, value] is usual")


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
