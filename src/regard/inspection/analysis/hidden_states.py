"""Hidden states of any torch module, collected by address."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.inspection.choosing import chosen_modules
from regard.inspection.foreign import addresses_of
from regard.inspection.look import look

B = TypeVar("B")


def hidden_states(
    module: nn.Module,
    addresses: Sequence[str],
    batches: Iterable[B],
    read: Callable[[B], Tensor | None],
) -> dict[str, np.ndarray]:
    """What chosen parts of a module give, token by token, over many batches.

    Arguments:
        module: any torch module, in evaluation mode.
        addresses: parts by name or pattern, such as `encoder.layers.*`, where `*` stands for what has no dot in it. Each gives
            (B, L, D), or a tuple that begins with it, once for each batch.
        batches: what is read, in any form.
        read: runs the module on one batch, and returns which places count, (B, L) bool, True = keep; None keeps all.

    Returns:
        By address, (N, D) float32: the kept places of the first row from left to right, then of the next, batch after batch.
        What is kept is the same for all parts, so row n is the same token in each.

    Raises:
        InputError: for an address that is not there, in training mode, and for a part that gives something else.

    >>> layers = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).eval()
    >>> found = hidden_states(layers, ["1", "2"], [torch.ones(2, 4, 2)], lambda x: layers(x) is None or None)
    >>> {address: states.shape for address, states in found.items()}
    {'1': (8, 3), '2': (8, 1)}
    """
    if any(part.training for part in module.modules()):
        raise InputError(
            "the module is in training mode, where dropout changes its states each time; call eval() first"
        )
    if not addresses:
        raise InputError("addresses is empty; name the parts whose states are wanted")
    found: dict[str, list[np.ndarray]] = {}
    for batch in batches:
        with torch.no_grad(), look(module, [], hidden=addresses) as seen:
            kept = read(batch)
        outputs: dict[str, list[Tensor]] = {}
        for run in seen.runs:
            for address, given in run.hidden.items():
                outputs.setdefault(address, []).extend(one.read(f"{address}: the output") for one in given)
        for address in chosen_modules(addresses_of(module), addresses):
            states = outputs.get(address, [])
            if len(states) != 1:
                raise InputError(
                    f"{address} ran {len(states)} times for one batch; name parts that run once, and read a batch at once"
                )
            found.setdefault(address, []).append(_kept(states[0], kept, address))
    if not found:
        raise InputError("there are no batches to read; give at least one")
    return {address: np.concatenate(each) for address, each in found.items()}


def _kept(states: Tensor, kept: Tensor | None, address: str) -> np.ndarray:
    if states.dim() != 3 or not states.is_floating_point():
        raise InputError(
            f"{address} gives {tuple(states.shape)}, no hidden states (batch, places, width); name another part"
        )
    if kept is None:
        return states.flatten(0, 1).float().cpu().numpy()
    if kept.dtype != torch.bool or kept.shape != states.shape[:2]:
        raise InputError(
            f"{address} gives states {tuple(states.shape)}, and read returned {kept.dtype} {tuple(kept.shape)}; return bool "
            f"{tuple(states.shape[:2])}, True where a place counts"
        )
    return states[kept.to(states.device)].float().cpu().numpy()
