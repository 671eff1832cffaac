"""The loss over a vocabulary whose logits never stand in memory as a whole."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from regard.tasks.losses import walked

AT_A_TIME = 25_000_000
"""Logits that stand in memory together: 512 rows at GPT-2's vocabulary. With fewer, the table would be read more often than the
arithmetic takes."""


def projected_cross_entropy(
    labels: Tensor, *, valid: Tensor | None = None, smoothing: float = 0.0, never: int | None = None
) -> Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]:
    """`smoothed_cross_entropy` of z = W h + b, as a function of h, W and b that a model may apply in place of the projection.

    The rows are walked in blocks: a block's logits, its part of the loss and of all three gradients, and the logits are gone. At
    GPT-2's vocabulary and 2,048 tokens the logits and their gradient would be 0.8 GB in float32. The arithmetic is the same,
    so it costs no time; the gradient of W is summed in W's own dtype, and products run in autocast's where that is on.

    Arguments:
        labels: (...) int64.
        valid, smoothing, never: as `smoothed_cross_entropy`; valid in the shape of the labels.

    Returns:
        A function of h (..., D), W (V, D) and b (V,) or None that gives the sum and the count.

    >>> loss = projected_cross_entropy(torch.tensor([[1, 3]]))
    >>> total, _ = loss(torch.zeros(1, 2, 5), torch.ones(4, 5), None)
    >>> total.item()  # 2 log 4
    2.7725887298583984
    """
    real = torch.ones_like(labels, dtype=torch.bool) if valid is None else valid
    # Only where something was compiled: `torch.compiler.disable` takes a second to import.
    apply = _uncompiled() if "torch._dynamo" in sys.modules else _with_gradients

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        return apply(hidden.flatten(0, -2), weight, bias, labels.flatten(), real.flatten(), smoothing, never)

    return loss


def _with_gradients(*given: Any) -> tuple[Tensor, Tensor]:
    total, correct = _ProjectedCrossEntropy.apply(*given)  # type: ignore[misc]
    return total, correct


@cache
def _uncompiled() -> Callable[..., tuple[Tensor, Tensor]]:
    """One function for all steps. Compiled, its blocks would be unrolled, and a block leaves nothing to fuse."""
    return torch.compiler.disable(_with_gradients)  # type: ignore[return-value]


class _ProjectedCrossEntropy(torch.autograd.Function):
    """The loss with its gradients, block by block."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        valid: Tensor,
        smoothing: float,
        never: int | None,
    ) -> tuple[Tensor, Tensor]:
        kind = hidden.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
        to_hidden, to_weight, to_bias = ctx.needs_input_grad[:3]  # type: ignore[attr-defined]
        d_hidden = torch.empty_like(hidden) if to_hidden else None
        d_weight = torch.zeros_like(weight) if to_weight else None
        d_bias = torch.zeros_like(bias) if bias is not None and to_bias else None
        total = hidden.new_zeros((), dtype=torch.promote_types(hidden.dtype, torch.float32))
        correct = labels.new_zeros(())
        with torch.autocast(kind, enabled=False):
            table = weight.to(dtype)
            offset = None if bias is None else bias.to(dtype)
            size = max(1, AT_A_TIME // weight.shape[0])
            for start in range(0, hidden.shape[0], size):
                part = slice(start, start + size)
                x = hidden[part].to(dtype)
                logits = F.linear(x, table, offset)
                # Over the logits themselves: from here on they are their gradient.
                gradient = logits if to_hidden or to_weight or to_bias else None
                found, right = walked(logits, labels[part], valid[part], smoothing, never, gradient)
                total, correct = total + found, correct + right
                if d_hidden is not None:
                    d_hidden[part] = logits @ table
                if d_weight is not None:
                    d_weight += logits.t() @ x
                if d_bias is not None:
                    d_bias += logits.sum(dim=0, dtype=d_bias.dtype)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)  # type: ignore[attr-defined]
        ctx.mark_non_differentiable(correct)  # type: ignore[attr-defined]
        return total, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *upstreams: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        found = ctx.saved_tensors  # type: ignore[attr-defined]
        # In place: nothing else holds them, and the gradient of a table is as large as the table.
        scaled = [None if part is None else part.mul_(upstreams[0].to(part.dtype)) for part in found]
        return (*scaled, None, None, None, None)
