"""Attention mechanisms and modules by their names in a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from torch import nn

from regard.attention import Attention, AttentionLayer
from regard.errors import InputError, nearest
from regard.inspection.foreign import addresses_of


def attention_addresses(module: nn.Module) -> dict[str, Attention]:
    """Every attention mechanism of a module by its layer's name, such as `encoder.layers.3.attention`."""
    modules = addresses_of(module)
    found = {name: part.attention for name, part in modules.items() if isinstance(part, AttentionLayer)}
    inside = {id(mechanism) for mechanism in found.values()}
    alone = {name: part for name, part in modules.items() if isinstance(part, Attention) and id(part) not in inside}
    return {**found, **alone}


def chosen_mechanisms(
    layers: Mapping[str, Attention], addresses: Sequence[str] | None, others: Iterable[str]
) -> dict[str, Attention]:
    """The mechanisms that are called so; all where no address is given.

    Arguments:
        layers: the mechanisms by address.
        addresses: names, or patterns with `*`.
        others: modules in which attention may yet be found.

    Raises:
        InputError: where nothing is called so.
    """
    if addresses is None:
        return dict(layers)
    chosen: dict[str, Attention] = {}
    for pattern in addresses:
        matching = {name: part for name, part in layers.items() if fnmatchcase(name, pattern)}
        if not matching and not any(fnmatchcase(name, pattern) for name in others):
            hint = f"choose from {', '.join(layers)}" if layers else nearest(pattern, list(others))
            raise InputError(f"no attention layer is called {pattern!r}; {hint}")
        chosen.update(matching)
    return chosen


def chosen_modules(modules: Mapping[str, nn.Module], patterns: Sequence[str]) -> dict[str, nn.Module]:
    """The modules that are called so, in the order of the patterns.

    Raises:
        InputError: where none is, naming the nearest.
    """
    found: dict[str, nn.Module] = {}
    for pattern in patterns:
        matching = {name: part for name, part in modules.items() if is_called(name, pattern)}
        if not matching:
            raise InputError(f"no module is called {pattern!r}; {nearest(pattern, list(modules)[:200])}")
        found.update(matching)
    return found


def is_called(name: str, pattern: str) -> bool:
    """Whether a module's name fits a pattern, in which `*` stands for what has no dot in it.

    `layers.*` means the layers, and not every part inside each of them.

    >>> is_called("layers.0", "layers.*"), is_called("layers.0.norm", "layers.*")
    (True, False)
    """
    return name.count(".") == pattern.count(".") and fnmatchcase(name, pattern)
