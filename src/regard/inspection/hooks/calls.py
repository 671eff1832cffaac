"""One call of an attention function of torch, read as a mechanism of this package (its equation), its inputs and its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Attention, AttentionInputs, Causal, Declaration, Dense
from regard.attention.layer import split_heads
from regard.inspection.hooks.softmaxes import Weighing


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

    The bias, a float mask of any kind, is in the record of the inputs as `bias`, (B or 1, H or 1, L or 1, S or 1).

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

    Its inputs' query is x as (B, 1, L, D), its key y as (B, 1, S, D); a y of another width is in the record of the inputs
    as `source`, (B, S, Ds). The bias is there too, with the mask of padded keys already in it.

    Arguments:
        heads: H.
        query_weight, key_weight: (H*E, D) each, or both in `packed_weight`, (3*H*E, D).
        bias: (3*H*E,), or None.
        key_bias: (1, 1, H*E), a key that is appended to the others, or None.
        zero_key: whether a key of zeros is appended besides.
        norm: what is before the projections, for layers that were run as one with it.
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


@dataclass(frozen=True, slots=True, eq=False)
class Attended:
    """What an attention function was called with.

    Arguments:
        mechanism: the function's equation.
        shape: (B, H, L, S).
        inputs: what the equation is of; None where the module laid its weights out itself.
        weights: those, (B, H, L, S); None otherwise.
        value: gives the values, (B, G, S, Ev).
        heads_of: finds the heads' outputs (B, H, L, Ev) in what the function gave; None where they are not in it.
        finish: makes of the heads' outputs, and of the weights they came from where those are known, what the function gives
            back; None where that cannot be done.
        crossed: whether queries and keys come from different sequences; None where the function cannot tell.
        note: what is to be said of the axes; None where rows are queries and columns keys.
    """

    mechanism: Attention
    shape: tuple[int, int, int, int]
    inputs: AttentionInputs | None = None
    weights: Tensor | None = None
    value: Callable[[], Tensor] | None = None
    heads_of: Callable[[Any], Tensor] | None = None
    finish: Callable[[Tensor, Tensor | None], Any] | None = None
    crossed: bool | None = None
    note: str | None = None


def of_fused(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Attended:
    """A call of `scaled_dot_product_attention`."""
    return _of_fused(*arguments, **named)


def unfolded(attended: Attended, rows: tuple[int, int], *, heads_first: bool) -> Attended:
    """The same call with a head axis, where heads were folded into rows before the function was called.

    Arguments:
        attended: of (B*H, 1, L, S).
        rows: (B, H).
        heads_first: whether the rows of one head lie together.
    """
    batch, heads = rows
    if attended.shape[0] != batch * heads or attended.shape[1] != 1 or heads == 1:
        return attended

    def part(tensor: Tensor) -> Tensor:
        if len(tensor) != batch * heads:
            return tensor
        parted = tensor.reshape(*((heads, batch) if heads_first else (batch, heads)), *tensor.shape[2:])
        return parted.transpose(0, 1) if heads_first else parted

    def fold(tensor: Tensor) -> Tensor:
        tensor = tensor.transpose(0, 1) if heads_first else tensor
        return tensor.reshape(batch * heads, 1, *tensor.shape[2:])

    inputs, value, heads_of, finish = attended.inputs, attended.value, attended.heads_of, attended.finish
    if inputs is not None:
        visible = inputs.visible()
        inputs = replace(
            inputs,
            query=part(inputs.query),
            key=part(inputs.key),
            mask=None if visible is None else Dense(part(visible)),
            record={name: part(tensor) for name, tensor in inputs.record.items()},
        )
    return replace(
        attended,
        shape=(batch, heads, *attended.shape[2:]),
        inputs=inputs,
        weights=None if attended.weights is None else part(attended.weights),
        value=None if value is None else lambda: part(value()),
        heads_of=None if heads_of is None else lambda result: part(heads_of(result)),
        finish=None
        if finish is None
        else lambda output, weights: finish(fold(output), None if weights is None else fold(weights)),
    )


def _of_fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Attended:
    lead = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3])
    inputs_query, inputs_key, inputs_value = (_four_axes(tensor, lead) for tensor in (query, key, value))
    mask, record = None, {}
    if attn_mask is not None:
        laid_out = _four_axes_of_mask(attn_mask, query, lead)
        if attn_mask.dtype == torch.bool:
            mask = Dense(laid_out)
        else:
            record["bias"] = laid_out
    elif is_causal:
        mask = Causal()
    if inputs_key.shape[1] == 1 and inputs_query.shape[1] > 1 and not enable_gqa:
        inputs_key = inputs_key.expand(-1, inputs_query.shape[1], -1, -1)
    inputs = AttentionInputs(query=inputs_query, key=inputs_key, mask=mask, record=record)
    return Attended(
        mechanism=Softmax(query.shape[-1] ** -0.5 if scale is None else float(scale)),
        shape=inputs.shape,
        inputs=inputs,
        value=lambda: inputs_value,
        heads_of=lambda result: _four_axes(result, lead),
        finish=lambda output, _: output.reshape(*query.shape[:-1], output.shape[-1]),
    )


def of_flex(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Attended:
    """A call of flex attention's operator."""
    return _of_flex(*arguments, **named)


def _of_flex(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: Mapping[str, Any],
    score_mod_other_buffers: tuple[Any, ...] = (),
    mask_mod_other_buffers: tuple[Any, ...] = (),
) -> Attended:
    rows = torch.arange(len(query), device=query.device)
    inputs = AttentionInputs(
        query=query,
        key=key.expand(len(query), -1, -1, -1),
        record={"rows": rows},
    )
    return Attended(
        mechanism=Flex(float(scale), score_mod, block_mask[-1], score_mod_other_buffers, mask_mod_other_buffers),
        shape=inputs.shape,
        inputs=inputs,
        value=lambda: value.expand(len(query), -1, -1, -1),
    )


def of_multi_head(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Attended | None:
    """A call of `torch.nn.functional.multi_head_attention_forward`, whose batch is the second axis."""
    return _of_multi_head(*arguments, **named)


def _of_multi_head(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Attended | None:
    if static_k is not None or static_v is not None:
        return None
    mechanism = Projected(
        num_heads,
        packed_weight=None if use_separate_proj_weight else in_proj_weight,
        query_weight=q_proj_weight if use_separate_proj_weight else None,
        key_weight=k_proj_weight if use_separate_proj_weight else None,
        bias=in_proj_bias,
        key_bias=bias_k,
        zero_key=add_zero_attn,
    )
    batched = query.dim() == 3
    target, source = (tensor.transpose(0, 1) if batched else tensor[None] for tensor in (query, key))
    return projected(mechanism, target, target if query is key else source, key_padding_mask, attn_mask)


def projected(
    mechanism: Projected,
    target: Tensor,
    source: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
) -> Attended:
    """A multi-head attention from what it reads.

    Arguments:
        mechanism: the projections.
        target, source: (B, L, D) and (B, S, D).
        key_padding_mask: (B, S), as torch has it: True, or what is added to the scores, where a key is padding.
        attn_mask: (L, S) or (B*H, L, S): True, or what is added to the scores, where a query may not attend.
    """
    batch, queries, sources = len(target), target.shape[1], source.shape[1]
    bias = _blocked(attn_mask)
    if bias is not None:
        bias = bias[None, None] if bias.dim() == 2 else bias.reshape(batch, mechanism.heads, queries, sources)
    padding = _blocked(key_padding_mask)
    if padding is not None:
        padding = padding.reshape(batch, 1, 1, sources)
        bias = padding if bias is None else bias + padding
    record = {} if bias is None else {"bias": bias}
    query = target[:, None]
    key = query if source is target else source[:, None]
    if key.shape[-1] != query.shape[-1]:
        # Of another width before the projections, where queries and keys need not fit: it goes with the record.
        record["source"] = source
        key = query.new_zeros(()).expand(batch, 1, sources, query.shape[-1])
    inputs = AttentionInputs(query=query, key=key, record=record)
    return Attended(
        mechanism=mechanism,
        shape=(batch, mechanism.heads, queries, mechanism.keys(sources)),
        inputs=inputs,
        crossed=source is not target,
    )


def of_laid_out(weighing: Weighing) -> Attended:
    """Weights that a module made itself by a softmax, with the operands of the product that it multiplies them by."""
    weights = weighing.weights
    if weights.dim() > 4:  # blocks of queries, one after another
        weights = weights.flatten(2, -2)
    four = _four_axes(weights, weights.shape[:-3])
    batch, heads, queries, keys = four.shape
    attended = Attended(mechanism=LaidOut(), shape=(batch, heads, queries, keys), weights=four, note=weighing.note)
    if weighing.operands is None:
        return attended
    first, second = weighing.operands
    if first.numel() != four.numel() or second.shape[:-2].numel() != batch * heads or second.shape[-2] != keys:
        return attended
    return replace(
        attended,
        value=lambda: second.reshape(batch, heads, keys, -1),
        heads_of=lambda result: result.reshape(batch, heads, queries, -1),
        finish=lambda output, _: output.reshape(*first.shape[:-1], -1),
    )


def _blocked(mask: Tensor | None) -> Tensor | None:
    """A mask as torch's multi-head attention takes it (True = blocked) as what is added to the scores."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, device=mask.device).masked_fill_(mask, -torch.inf)


def _four_axes(tensor: Tensor, lead: Sequence[int]) -> Tensor:
    """(..., L, E) as (B, H, L, E): a missing batch or head axis of size 1, further leading axes folded into the batch."""
    if tensor.dim() <= 3:
        return tensor[(None,) * (3 - tensor.dim())].unsqueeze(1)
    return tensor.expand(*lead, *tensor.shape[-3:]).flatten(0, -4)


def _four_axes_of_mask(mask: Tensor, query: Tensor, lead: Sequence[int]) -> Tensor:
    """A mask that broadcasts to (..., L, S) as one that broadcasts to (B, H, L, S)."""
    if query.dim() <= 3:
        mask = mask[(None,) * (3 - mask.dim())] if mask.dim() < 3 else mask
        return mask.unsqueeze(1)
    mask = mask[(None,) * (4 - mask.dim())] if mask.dim() < 4 else mask
    if mask.dim() == 4 and len(lead) == 1:
        return mask
    return mask.expand(*lead, *mask.shape[-3:]).flatten(0, -4)


def unpacked(attended: Attended, module: nn.Module) -> Attended:
    """The same call with a head for each of the module's heads.

    Where a step of decoding has one query and several heads share a key, `transformers` lays these heads side by side along the
    axis of queries: (B, G, H/G, E) in place of (B, H, 1, E). The configuration that the module holds says how many heads
    there are.
    """
    inputs = attended.inputs
    heads = getattr(getattr(module, "config", None), "num_attention_heads", None)
    if inputs is None or not isinstance(heads, int):
        return attended
    groups, packed = attended.shape[1:3]
    if groups == heads or groups * packed != heads or inputs.key.shape[1] != groups:
        return attended
    query = inputs.query.reshape(len(inputs.query), heads, 1, -1)
    mask = None if inputs.mask is None else Dense(_unpacked(inputs.visible(), groups, packed))
    bias = {name: _unpacked(tensor, groups, packed) for name, tensor in inputs.record.items()}
    inputs = replace(inputs, query=query, mask=mask, record=bias)
    heads_of, finish = attended.heads_of, attended.finish
    return replace(
        attended,
        inputs=inputs,
        shape=inputs.shape,
        heads_of=None if heads_of is None else lambda result: heads_of(result).reshape(*query.shape[:3], -1),
        finish=None
        if finish is None
        else lambda outputs, weights: finish(outputs.reshape(len(outputs), groups, packed, outputs.shape[-1]), weights),
    )


def _unpacked(mask: Tensor | None, groups: int, packed: int) -> Tensor:
    """A mask that broadcasts to (B, G, H/G, S) as one that broadcasts to (B, H, 1, S)."""
    if mask is None:
        raise RuntimeError("a mask that gives none")
    if mask.shape[1] == 1 and mask.shape[2] == 1:
        return mask
    return mask.expand(-1, groups, packed, -1).reshape(len(mask), groups * packed, 1, mask.shape[-1])
