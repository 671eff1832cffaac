"""One call of an attention function of torch, read as a mechanism, its inputs and its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attention, AttentionInputs, Causal, Dense
from regard.inspection.hooks.equations import Flex, LaidOut, Projected, Softmax
from regard.inspection.hooks.softmaxes import Weighing


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
