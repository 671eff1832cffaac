"""Where in a module an attention function is called from, read off the stack of the running Python."""

from __future__ import annotations

from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch import nn

# Arguments by which attention layers are told what to look at, where that is not their own sequence: the names that
# `transformers` and its relatives use.
_OTHER_SEQUENCE = ("key_value_states", "encoder_hidden_states", "encoder_states", "memory", "context")


@dataclass(frozen=True, slots=True)
class Place:
    """The innermost module that is running, and the line in it.

    Arguments:
        address: the module's name in the model.
        module: the module.
        line: tells apart the places in the module's code from which attention is called.
        crossed: whether the module was given another sequence to look at; None where its arguments do not say.
    """

    address: str
    module: nn.Module
    line: tuple[tuple[str, int], ...]
    crossed: bool | None


def place_of(frame: FrameType | None, names: dict[int, str]) -> Place | None:
    """The innermost module of a model among the callers of a frame.

    Methods are found by their first argument `self`, functions on the way are passed over; so hooks, which would close the
    fused paths of torch's own layers, are not needed.

    Arguments:
        frame: where to begin.
        names: of the model's modules, by `id`.
    """
    line: list[tuple[str, int]] = []
    found: nn.Module | None = None
    crossed: bool | None = None
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<eval_with_key>"):
            return None  # a graph that was traced runs as it is: it was told of already
        module = frame.f_locals.get("self") if code.co_varnames[:1] == ("self",) else None
        if found is None and isinstance(module, nn.Module) and id(module) in names:
            found = module
        if found is not None:
            if module is not found:
                break
            line.append((code.co_qualname, frame.f_lineno))
            crossed = _crossed(frame.f_locals) if crossed is None else crossed
        frame = frame.f_back
    return None if found is None else Place(names[id(found)], found, tuple(line), crossed)


def _crossed(values: dict[str, Any]) -> bool | None:
    flag = values.get("is_cross_attention")
    if isinstance(flag, bool):
        return flag
    named = [name for name in _OTHER_SEQUENCE if name in values]
    return any(values[name] is not None for name in named) if named else None
