"""Blocks whose rows have the same bits alone and in any batch, part by part.

`BatchInvariant` around a whole block would be asked at every call of PyTorch, of some hundred in a block. Few of them depend on
the batch: products in float32 and bfloat16, fused attention, and activations. The parts that compute these enter it themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from regard.attention import BatchInvariant
from regard.layers import FeedForward, GatedFeedForward


@dataclass(frozen=True, slots=True)
class InvariantActivation:
    """An activation within `BatchInvariant`.

    Arguments:
        function: the activation.
    """

    function: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        """(..., D) to (..., D)."""
        with BatchInvariant():
            return self.function(x)


def set_batch_invariant(model: nn.Module, wanted: bool) -> None:
    """Let the parts of blocks give a row the same bits alone and in any batch, or let them be as others are.

    >>> import torch
    >>> block = FeedForward(32, 64, activation=torch.nn.functional.gelu)
    >>> set_batch_invariant(block, True)
    >>> block.activation
    InvariantActivation(function=<built-in function gelu>)
    """
    for part in model.modules():
        if hasattr(type(part), "batch_invariant"):
            part.batch_invariant = wanted  # type: ignore[assignment]
        elif isinstance(part, FeedForward | GatedFeedForward):
            own = part.activation
            plain = own.function if isinstance(own, InvariantActivation) else own
            part.activation = InvariantActivation(plain) if wanted else plain
