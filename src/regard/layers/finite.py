"""Answers are made of finite numbers only: what a model gives is looked at once, where it leaves the model."""

from __future__ import annotations

import math

from torch import Tensor

from regard.errors import InputError


class NotFinite(InputError):
    """What a model made holds NaN or infinity, so no answer can be read off it."""


def check_finite(values: Tensor, what: str, *, where: Tensor | None = None) -> Tensor:
    """The values themselves, unless they tell nothing.

    Arguments:
        values: (..., N), logits or a vector of each row; single ones may be minus infinity, which forbids.
        what: they are of, for the message.
        where: (...) bool, the rows that count; None = all.

    Raises:
        NotFinite: where a row that counts has NaN or plus infinity, or nothing but minus infinity.

    >>> import torch
    >>> check_finite(torch.tensor([[1.0, -torch.inf]]), "classes").tolist()
    [[1.0, -inf]]
    """
    if values.numel() and values.device.type != "meta":
        fine = values.amax(dim=-1).isfinite()
        if not bool((fine if where is None else fine | ~where).all()):
            raise not_finite(what)
    return values


def check_number(value: float, what: str) -> float:
    """The number itself, unless it is NaN or infinite.

    Raises:
        NotFinite: where it is.
    """
    if not math.isfinite(value):
        raise not_finite(what)
    return value


def not_finite(what: str) -> NotFinite:
    """The error of a model that made NaN or infinity of `what`."""
    return NotFinite(
        f"the model's numbers for {what} are not finite; its weights overflow or hold NaN: load it in float32, or take an "
        "earlier checkpoint"
    )
