"""Which layers of an encoder a token's vector is taken from, and how several become one."""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import InputError, nearest
from regard.layers import Combination, LayerChoice

NAMED: dict[str, LayerChoice] = {
    "embeddings": LayerChoice(layers=(0,)),
    "last": LayerChoice(layers=(-1,)),
    "second_to_last": LayerChoice(layers=(-2,)),
    "sum_last_four": LayerChoice(layers=(-4, -3, -2, -1)),
    "concatenate_last_four": LayerChoice(layers=(-4, -3, -2, -1), combine="concatenate"),
}
"""Those that have names; `all` and `sum_all` depend on the model."""

OF_ALL: dict[str, Combination] = {"all": "stack", "sum_all": "sum"}
"""The embedding and every block."""

LAYER_NAMES = (*NAMED, *OF_ALL)


def layer_choice(choice: LayerChoice | str | int | Sequence[int], depth: int) -> LayerChoice:
    """A choice by its name, a number, or several numbers whose layers are summed, for a model with so many blocks.

    Raises:
        InputError: for an unknown name, with the nearest, or a layer that the model does not have.

    >>> layer_choice("second_to_last", 12).numbers(12), layer_choice("-1,-2", 12).layers, layer_choice("all", 2).layers
    ((11,), (-1, -2), (0, 1, 2))
    """
    if isinstance(choice, str):
        choice = _spelt(choice, depth)
    elif isinstance(choice, int):
        choice = LayerChoice(layers=(choice,))
    elif not isinstance(choice, LayerChoice):
        choice = LayerChoice(layers=tuple(choice))
    choice.numbers(depth)
    return choice


def _spelt(text: str, depth: int) -> LayerChoice:
    name = text.strip().replace("-", "_")
    if name in OF_ALL:
        return LayerChoice(layers=tuple(range(depth + 1)), combine=OF_ALL[name])
    if name in NAMED:
        return NAMED[name]
    try:
        return LayerChoice(layers=tuple(int(part) for part in text.split(",")))
    except ValueError:
        raise InputError(f"there are no layers {text!r}; {nearest(name, LAYER_NAMES)}, or give numbers") from None
