"""Whether somebody looks at a module."""

from __future__ import annotations

from torch import nn


def is_watched(module: nn.Module) -> bool:
    """Whether the module is looked at, changed or compiled from outside, so that it must be called itself."""
    hooks = (module._forward_hooks, module._forward_pre_hooks)
    return "forward" in module.__dict__ or module._compiled_call_impl is not None or any(hooks)
