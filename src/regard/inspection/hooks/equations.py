"""The equations behind other libraries' attention functions, as mechanisms of this package."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Attention, AttentionInputs, Declaration
from regard.attention.layer import split_heads


class Plain(Attention):
    """A mechanism that is only its equation: what was run is another library's kernel."""

    @property
    def declaration(self) -> Declaration:
        """A distribution over the keys."""
        return Declaration()

    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """The weighted values, (B, H, L, Ev)."""
        weights = self.weights(inputs)
        return weights.to(value.dtype) @ value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)


class Softmax(Plain):
    """What `torch.nn.functional.scaled_dot_product_attention` computes, and no more.

        weights = softmax(scale * q k^T + bias)

    The bias, a float mask of any kind, stands in the record of the inputs as `bias`, (B or 1, H or 1, L or 1, S or 1).

    Arguments:
        scale: what the inner products are multiplied by.

    >>> inputs = AttentionInputs(query=torch.randn(1, 1, 2, 4), key=torch.randn(1, 1, 3, 4))
    >>> Softmax(0.5).weights(inputs).sum(dim=-1).allclose(torch.ones(1, 1, 2))
    True
    """

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def weights(self, inputs: AttentionInputs) -> Tensor:
        """(B, H, L, S) in float32; a query that may attend nowhere gets zeros, as from the kernel."""
        query, key = _exact(inputs.query), _exact(inputs.key_per_query_head)
        with torch.autocast(query.device.type, enabled=False):
            scores = self.scale * (query @ key.mT)
            bias = inputs.record.get("bias")
            return softmax(scores if bias is None else scores + bias.to(scores.dtype), inputs.visible())


class Flex(Plain):
    """What `torch.nn.attention.flex_attention` computes.

        weights = softmax(score_mod(scale * q k^T, b, h, i, j)) over the keys where mask_mod(b, h, i, j)

    Arguments:
        scale: what the inner products are multiplied by.
        score_mod: score and four integer tensors to a score; none where None.
        mask_mod: four integer tensors to bool, True = may attend; none where None.
        score_buffers, mask_buffers: tensors that the two are called with besides.
    """

    def __init__(
        self,
        scale: float,
        score_mod: Callable[..., Tensor] | None,
        mask_mod: Callable[..., Tensor] | None,
        score_buffers: tuple[Tensor, ...] = (),
        mask_buffers: tuple[Tensor, ...] = (),
    ) -> None:
        super().__init__()
        self.scale = scale
        # Callables may be modules, which must not become parts of this one.
        self._functions = (score_mod, mask_mod)
        self.score_buffers = score_buffers
        self.mask_buffers = mask_buffers

    def weights(self, inputs: AttentionInputs) -> Tensor:
        """(B, H, L, S) in float32."""
        score_mod, mask_mod = self._functions
        query, key = _exact(inputs.query), _exact(inputs.key_per_query_head)
        # Rows may be some of those that were there; the functions ask for their first numbers.
        rows = inputs.record["rows"]
        heads, queries, keys = (torch.arange(size, device=query.device) for size in inputs.shape[1:])
        with torch.autocast(query.device.type, enabled=False):
            scores = self.scale * (query @ key.mT)
            if score_mod is not None:
                scores = _over_all(score_mod, True, len(self.score_buffers))(
                    scores, rows, heads, queries, keys, *self.score_buffers
                ).to(scores.dtype)
            visible = None
            if mask_mod is not None:
                visible = _over_all(mask_mod, False, len(self.mask_buffers))(
                    rows, heads, queries, keys, *self.mask_buffers
                )
            return softmax(scores, visible)


class Norm(nn.Module):
    """A layer norm's parameters, whoever's they are."""

    def __init__(self, weight: Tensor | None, bias: Tensor | None, epsilon: float) -> None:
        super().__init__()
        self.weight = weight
        self.bias = bias
        self.epsilon = epsilon

    def forward(self, tensor: Tensor) -> Tensor:
        """The tensor, normalised over its last axis."""
        weight, bias = (None if one is None else _exact(one) for one in (self.weight, self.bias))
        return F.layer_norm(tensor, tensor.shape[-1:], weight, bias, self.epsilon)


class Projected(Plain):
    """The weights of `torch.nn.MultiheadAttention` as a function of what the module read, projections and all.

        weights = softmax((x Wq + bq) (y Wk + bk)^T / sqrt(E) + bias)

    Its inputs' query is x as (B, 1, L, D), its key y as (B, 1, S, D); a y of another width stands in the record of the inputs
    as `source`, (B, S, Ds). The bias stands there too, with the mask of padded keys already in it.

    Arguments:
        heads: H.
        query_weight, key_weight: (H*E, D) each, or both in `packed_weight`, (3*H*E, D).
        bias: (3*H*E,), or None.
        key_bias: (1, 1, H*E), a key that is appended to the others, or None.
        zero_key: whether a key of zeros is appended besides.
        norm: what stands before the projections, for layers that were run as one with it.
    """

    def __init__(
        self,
        heads: int,
        *,
        packed_weight: Tensor | None = None,
        query_weight: Tensor | None = None,
        key_weight: Tensor | None = None,
        bias: Tensor | None = None,
        key_bias: Tensor | None = None,
        zero_key: bool = False,
        norm: Norm | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.packed_weight = packed_weight
        self.query_weight = query_weight
        self.key_weight = key_weight
        self.bias = bias
        self.key_bias = key_bias
        self.zero_key = zero_key
        self.norm = norm

    def keys(self, sources: int) -> int:
        """S, the number of keys for so many source positions."""
        return sources + (self.key_bias is not None) + self.zero_key

    def projections(self, inputs: AttentionInputs) -> tuple[Tensor, Tensor]:
        """Queries (B, H, L, E) and keys (B, H, S, E), in float32."""
        target = _exact(inputs.query)[:, 0]
        source = _exact(inputs.record["source"] if "source" in inputs.record else inputs.key[:, 0])
        if self.norm is not None:
            target, source = self.norm(target), self.norm(source)
        if self.packed_weight is not None:
            query_weight, key_weight, _ = _exact(self.packed_weight).chunk(3)
        elif self.query_weight is not None and self.key_weight is not None:
            query_weight, key_weight = _exact(self.query_weight), _exact(self.key_weight)
        else:
            raise RuntimeError("a multi-head attention without projections of query and key")
        query_bias, key_bias, _ = (None,) * 3 if self.bias is None else _exact(self.bias).chunk(3)
        key = F.linear(source, key_weight, key_bias)
        if self.key_bias is not None:
            key = torch.cat((key, _exact(self.key_bias).expand(len(key), -1, -1)), dim=1)
        if self.zero_key:
            key = F.pad(key, (0, 0, 0, 1))
        return split_heads(F.linear(target, query_weight, query_bias), self.heads), split_heads(key, self.heads)

    def weights(self, inputs: AttentionInputs) -> Tensor:
        """(B, H, L, S) in float32."""
        with torch.autocast(inputs.query.device.type, enabled=False):
            query, key = self.projections(inputs)
            scores = query @ key.mT / query.shape[-1] ** 0.5
            bias = inputs.record.get("bias")
            if bias is not None:
                # Keys that the module appended itself are seen by all.
                bias = F.pad(bias.to(scores.dtype), (0, scores.shape[-1] - bias.shape[-1]))
            return softmax(scores if bias is None else scores + bias, None)


class LaidOut(Plain):
    """Weights that a module laid out by itself: nothing is left to compute."""

    def weights(self, inputs: AttentionInputs) -> Tensor:
        """Never asked for: such a call is kept by its weights."""
        raise RuntimeError("these weights were laid out by the module and are kept as they are")


def softmax(scores: Tensor, visible: Tensor | None) -> Tensor:
    """The softmax of scores over the visible keys; a row of nothing but minus infinity becomes zeros."""
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return scores.softmax(dim=-1).masked_fill(scores.amax(dim=-1, keepdim=True) == -torch.inf, 0.0)


def _exact(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _over_all(function: Callable[..., Tensor], scored: bool, buffers: int) -> Callable[..., Tensor]:
    """A function of one score and four indices, mapped over (B, H, L, S) as flex attention maps it."""
    first = (0,) if scored else ()
    for axis in (3, 2, 1, 0):
        of_indices = tuple(0 if place == axis else None for place in range(4))
        function = torch.vmap(function, in_dims=(*first, *of_indices, *(None,) * buffers))
    return function
