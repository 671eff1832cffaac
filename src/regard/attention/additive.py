"""Additive scores by a compiled kernel, which stores no tanh of (B, H, L, S, E): forwards and backwards."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from regard.attention.dropping import SMALL
from regard.kernels import kernels
from regard.kernels.interface import AdditiveStruct


def additive_scores(query: Tensor, key: Tensor, weight: Tensor) -> Tensor | None:
    """va^T tanh(q + k) of each query and key, computed in float32; None where there is no kernel for these inputs.

    Arguments:
        query, key: (B, H, L, E) and (B, H, S, E), each float32 or bfloat16, on a processor.
        weight: va, (E,).

    Returns:
        (B, H, L, S) float32.
    """
    dtype = torch.promote_types(query.dtype, key.dtype)
    if torch.compiler.is_compiling() or query.device.type != "cpu" or dtype not in (torch.float32, torch.bfloat16):
        return None
    library = kernels().library
    if library is None:
        return None
    found: Tensor = _AdditiveScores.apply(query.to(dtype), key.to(dtype), weight.float(), library)  # type: ignore[assignment]
    return found


def by_equation(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    """The same, written plainly, in the dtype of the query."""
    return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ weight.to(query.dtype)


class _AdditiveScores(torch.autograd.Function):
    """Queries (B, H, L, E), keys (B, H, S, E) and the weight (E,) to scores (B, H, L, S)."""

    @staticmethod
    def forward(ctx: FunctionCtx, query: Tensor, key: Tensor, weight: Tensor, library: ctypes.CDLL) -> Tensor:
        given = tuple(x.contiguous() for x in (query, key, weight))
        scores = torch.empty(*query.shape[:3], key.shape[2])
        library.regard_additive(_struct(*given), _threads(scores.numel() * query.shape[3]), scores.data_ptr())
        ctx.save_for_backward(query, key, weight)
        ctx.library = library  # type: ignore[attr-defined]
        return scores

    @staticmethod
    def backward(ctx: FunctionCtx, *upstreams: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        given, upstream = ctx.saved_tensors, upstreams[0].contiguous()  # type: ignore[attr-defined]
        if torch.is_grad_enabled():  # a gradient of this gradient is wanted
            query, key, weight = given
            scores = by_equation(query.float(), key.float(), weight)
            return (*gradients_where_needed(scores, given, upstream), None)
        query, key, weight = (x.contiguous() for x in given)
        (batch, heads, asking, width), threads = query.shape, _threads(upstream.numel() * query.shape[3])
        scratch, of_weight = torch.empty(threads, asking + 1, width), torch.empty(batch * heads, width)
        of_query, of_key = torch.empty_like(query), torch.empty_like(key)
        places = (x.data_ptr() for x in (scratch, of_query, of_key, of_weight))
        struct = _struct(query, key, weight)
        ctx.library.regard_additive_gradient(struct, upstream.data_ptr(), threads, *places)  # type: ignore[attr-defined]
        return of_query, of_key, of_weight.sum(dim=0), None


def gradients_where_needed(y: Tensor, given: Sequence[Tensor], upstream: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient of each given tensor that needs one, which can be differentiated again; None for the others."""
    needing = [x for x in given if x.requires_grad]
    found = iter(torch.autograd.grad(y, needing, upstream, create_graph=True))
    return tuple(next(found) if x.requires_grad else None for x in given)


def _struct(query: Tensor, key: Tensor, weight: Tensor) -> AdditiveStruct:
    (batch, heads, asking, width), bits = query.shape, query.element_size() * 8
    places = (x.data_ptr() for x in (query, key, weight))
    return AdditiveStruct(*places, batch * heads, asking, key.shape[2], width, bits)


def _threads(count: int) -> int:
    return 1 if count <= SMALL else torch.get_num_threads()
