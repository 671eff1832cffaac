"""One block of a decoder with quantised weights."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import AttentionLayer, Causal, KeysValues, Mask, ScoredAttention
from regard.attention.layer import merge_heads, split_heads
from regard.layers import ACTIVATIONS, CausalBlock, FeedForward, Residual
from regard.prepared.linear import Activation, QuantisedLinear, TiledLinear, quantised_linear
from regard.prepared.native import BlockStruct, Kernels, NormStruct

KERNEL_HEAD = 32
"""The kernel takes heads whose width is a multiple of this."""


class Norm:
    """A layer norm's gain, bias and epsilon in float32, or nothing.

    Arguments:
        norm: a `nn.LayerNorm`, or `nn.Identity`.
    """

    def __init__(self, norm: nn.Module) -> None:
        self.weight: Tensor | None = None
        self.bias: Tensor | None = None
        self.epsilon = 0.0
        if isinstance(norm, nn.LayerNorm):
            self.weight = norm.weight.detach().float().contiguous()
            self.bias = torch.zeros_like(self.weight) if norm.bias is None else norm.bias.detach().float().contiguous()
            self.epsilon = norm.eps

    def __call__(self, x: Tensor) -> Tensor:
        """(..., D) to (..., D)."""
        return x if self.weight is None else F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)

    def struct(self) -> NormStruct:
        """What the kernel is given."""
        if self.weight is None or self.bias is None:
            return NormStruct(None, None, 0.0)
        return NormStruct(self.weight.data_ptr(), self.bias.data_ptr(), self.epsilon)


class PreparedBlock(nn.Module):
    """A `CausalBlock` with quantised weights: its linear maps, with PyTorch's attention between them.

    Keys and values are kept in bfloat16, everything else between the maps in float32. A token alone goes through all blocks
    in one call of the compiled kernel instead, which is given `struct`.

    Arguments:
        block: the block, as `obstacle_in` lets it pass.
        bits: of each weight.
        kernels: the compiled ones, or none.
    """

    def __init__(self, block: CausalBlock, bits: Literal[8, 4], kernels: Kernels) -> None:
        super().__init__()
        attention, feedforward = block.attention, block.feedforward
        maps = [attention.query, attention.key, attention.value]
        biases = [part.weight.new_zeros(part.out_features) if part.bias is None else part.bias for part in maps]  # type: ignore[union-attr, operator]
        self.heads = attention.heads
        self.head_width: int = attention.query.out_features // attention.heads  # type: ignore[assignment, operator]
        self.scale: float = attention.attention.score.product_scale(  # type: ignore[union-attr, operator, assignment]
            self.head_width
        )
        self.projections = quantised_linear(
            torch.cat([part.weight.detach() for part in maps]),  # type: ignore[arg-type]
            torch.cat([bias.detach() for bias in biases]),  # type: ignore[arg-type]
            bits,
            kernels,
        )
        self.output = _of(attention.output, bits, kernels)
        self.inner = _of(feedforward.inner, bits, kernels, activation_name(feedforward.activation))  # type: ignore[arg-type]
        self.outer = _of(feedforward.outer, bits, kernels)
        self.norms = [
            Norm(norm)
            for residual in (block.attention_residual, block.feedforward_residual)
            for norm in (residual.before, residual.after)
        ]
        self.library = kernels.library
        self.struct = self._struct()

    def forward(self, x: Tensor, mask: Mask | None, past: KeysValues, present: KeysValues) -> Tensor:
        """(B, L, D) float32 to (B, L, D) float32.

        Arguments:
            mask: over (B, H, L, past + L), True = may attend.
            past: keys and values of the tokens before.
            present: the same and L more, which are written here.
        """
        attention_before, attention_after, feedforward_before, feedforward_after = self.norms
        rows = x.shape[:2]
        x = attention_after(
            x + self.output(self._gathered(attention_before(x), mask, past, present)).unflatten(0, rows)
        )
        inside = self.inner(feedforward_before(x).flatten(0, 1))
        return feedforward_after(x + self.outer(inside).unflatten(0, rows))

    def _gathered(self, x: Tensor, mask: Mask | None, past: KeysValues, present: KeysValues) -> Tensor:
        """(B, L, D) to (B L, inner): what each token gathers."""
        rows, length = x.shape[:2]
        projected = self.projections(x.flatten(0, 1)).unflatten(0, (rows, length))
        query, key, value = (split_heads(part, self.heads) for part in projected.chunk(3, dim=-1))
        before, columns = past.key.shape[2], present.key.shape[2]
        present.key[:, :, before:] = key
        present.value[:, :, before:] = value
        causal = type(mask) is Causal and mask.offset == 0 and before == 0
        visible = None
        if mask is not None and not causal:
            visible = mask.dense(batch=rows, heads=self.heads, queries=length, keys=columns, device=x.device)
        # In float32, so that a token read alone by the kernel and one read with its prompt come out alike.
        gathered = F.scaled_dot_product_attention(
            query, present.key.float(), present.value.float(), attn_mask=visible, is_causal=causal, scale=self.scale
        )
        return merge_heads(gathered).flatten(0, 1)

    def _struct(self) -> BlockStruct | None:
        """What the kernel is given; None where it takes no such block."""
        maps = [
            part for part in (self.projections, self.output, self.inner, self.outer) if isinstance(part, TiledLinear)
        ]
        if len(maps) < 4 or any(part.struct.outputs != part.outputs for part in maps):
            return None
        width = maps[1].outputs
        each = maps[1].inputs // self.heads
        if each % KERNEL_HEAD:
            return None
        structs = [part.struct for part in maps]
        return BlockStruct(*structs, *(norm.struct() for norm in self.norms), width, self.heads, each, self.scale)


def activation_name(function: object) -> Activation | None:
    """What an activation is called among those of the kernels; None where it is none of them."""
    for name in ("gelu", "gelu_tanh", "relu"):
        if function is ACTIVATIONS[name]:
            return name
    return None


def obstacle_in(block: nn.Module) -> str:
    """Why a block cannot be prepared, as half a sentence; empty where it can."""
    if type(block) is not CausalBlock:
        return "its blocks are not GPT's"
    attention, feedforward = block.attention, block.feedforward
    if not isinstance(attention, AttentionLayer) or type(attention).forward is not AttentionLayer.forward:
        return "the attention of its blocks is of another kind"
    maps = [attention.query, attention.key, attention.value, attention.output]
    if type(feedforward) is not FeedForward or activation_name(feedforward.activation) is None:
        return "the feed-forward nets of its blocks are of another kind"
    if any(type(part) is not nn.Linear for part in (*maps, feedforward.inner, feedforward.outer)):
        return "its linear maps are not plain ones"
    mechanism = attention.attention
    dot = type(mechanism) is ScoredAttention and mechanism.alignment.plain_softmax
    if not dot or mechanism.score.product_scale(1) is None or attention.key_heads != attention.heads:  # type: ignore[union-attr]
        return "its attention is not the scaled dot product with a softmax"
    residuals = (block.attention_residual, block.feedforward_residual)
    norms = [norm for residual in residuals for norm in (residual.before, residual.after)]
    if any(type(part) is not Residual for part in residuals) or not all(
        type(norm) in (nn.LayerNorm, nn.Identity) for norm in norms
    ):
        return "its norms are not layer norms"
    return ""


def _of(layer: Any, bits: Literal[8, 4], kernels: Kernels, activation: Activation = "none") -> QuantisedLinear:
    return quantised_linear(layer.weight, layer.bias, bits, kernels, activation)
