"""What the configs of models that tell the class of a picture have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.models.config import check, check_sizes, check_types


def check_picture_classifier(config: Any, *sizes: str, least: int = 1) -> None:
    """Refuse what no such model can be.

    Arguments:
        sizes: further settings that are at least 1.
        least: the fewest classes.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    check_types(config)
    check_sizes(config, "picture_height", "picture_width", "picture_channels", *sizes)
    check(config.outputs >= least, "outputs", config.outputs, f"at least {least}", "there is one for each class")
    dropout = getattr(config, "dropout", 0.0)
    check(0 <= dropout < 1, "dropout", dropout, "in [0, 1)", "0.1 is usual")


def check_divides(config: Any, name: str, step: int, why: str) -> None:
    """Refuse pictures that cannot be cut into whole steps.

    Arguments:
        name: of the setting that says the step.
        why: what that is, as half a sentence.

    Raises:
        InputError: naming the side that does not divide.
    """
    for side in ("picture_height", "picture_width"):
        size = getattr(config, side)
        check(
            size % step == 0,
            side,
            size,
            f"a multiple of {step}, {why}",
            f"change the size of the pictures (data.height, data.width), or model.{name}",
        )


def check_channels(name: str, channels: Sequence[int], *, some: bool) -> None:
    """Refuse numbers of channels below 1, and none where there must be some.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    fits = all(each > 0 for each in channels) and (bool(channels) or not some)
    check(fits, name, tuple(channels), "numbers of channels, each at least 1", "such as [32, 64]")
