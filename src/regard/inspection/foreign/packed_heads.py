"""Heads that share a key, given to the kernel as so many queries of one head."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from regard.attention import Dense
from regard.inspection.foreign.attended import Attended


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
