"""Modules and attention mechanisms by their addresses, and functions around their forward passes.

Hooks would close the fused paths of torch's own layers, and `torch.compile` does not notice them, so the method is
replaced instead.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import FunctionType
from typing import Any

import torch
from torch import nn

from regard.attention import Attention, AttentionLayer
from regard.errors import InputError, nearest

Around = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Called with a module's forward, its arguments and its named arguments, in place of the forward."""

_CHANGING = threading.Lock()  # what is around a module is changed by one thread at a time


@contextlib.contextmanager
def around_forward(
    module: nn.Module, around: Around, traced: Around | None = None, *, outside: bool = False
) -> Iterator[None]:
    """Inside the block `around` is called in place of `module.forward`; afterwards the module is what it was.

    Blocks may be within one another, the innermost then stands outermost, and those of several threads may overlap.

    Arguments:
        module: any module.
        around: called where Python runs the module.
        traced: called in its place while `torch.compile` traces the module; the forward itself where None.
        outside: of a module that was compiled in place, stand around the compiled call, not within it.
    """
    name = "_compiled_call_impl" if outside and module._compiled_call_impl is not None else "forward"
    entry = (around, traced)
    with _CHANGING:
        forward = module.__dict__.get(name)
        if not isinstance(forward, FunctionType) or not hasattr(forward, "arounds"):
            forward = _surrounded(getattr(module, name), forward)
            module.__dict__[name] = forward
        forward.__dict__["arounds"].append(entry)
    try:
        yield
    finally:
        with _CHANGING:
            # Whoever leaves last, of several threads in any order, puts back what was there before the first.
            forward.__dict__["arounds"].remove(entry)
            if not forward.__dict__["arounds"]:
                _put_back(module, name, forward.__dict__["own"])


def _surrounded(original: Callable[..., Any], own: Any) -> Any:
    arounds: list[tuple[Around, Around | None]] = []

    @functools.wraps(original)
    def forward(*arguments: Any, **named: Any) -> Any:
        run = original
        tracing = torch.compiler.is_dynamo_compiling()
        for around, traced in tuple(arounds):
            chosen = traced if tracing else around
            if chosen is not None:
                run = _within(chosen, run)
        return run(*arguments, **named)

    forward.__dict__.update(arounds=arounds, own=own)
    return forward


def _within(around: Around, run: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*arguments: Any, **named: Any) -> Any:
        return around(run, arguments, named)

    return forward


def _put_back(module: nn.Module, name: str, own: Any) -> None:
    if own is None:
        del module.__dict__[name]
    else:
        module.__dict__[name] = own


def is_compiled(module: nn.Module) -> bool:
    """Whether a module runs through `torch.compile`: wrapped by it, or compiled in place."""
    return hasattr(module, "_orig_mod") or module._compiled_call_impl is not None


def addresses_of(module: nn.Module) -> dict[str, nn.Module]:
    """Every module inside a module by its name, without what `torch.compile` puts into the names.

    The module itself, which has no name, goes by its class's.
    """
    found: dict[str, nn.Module] = {}
    for name, part in module.named_modules():
        parts = [piece for piece in name.split(".") if piece != "_orig_mod"]
        found[".".join(parts) or type(part).__name__] = part
    return found


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
