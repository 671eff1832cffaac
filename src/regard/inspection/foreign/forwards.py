"""Stands around the forward passes of modules without hooks.

Hooks would close the fused paths of torch's own layers, and `torch.compile` does not notice them.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch
from torch import nn

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
