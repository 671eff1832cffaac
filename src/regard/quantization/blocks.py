"""Blocks of decoders and Transformers with weights of 8 or 4 bits, and which blocks they can be made of.

`PreparedBlock` is a block of a decoder or an encoder; `PreparedSourceBlock` attends to a source as well. `obstacle_outside` and
`obstacle_in` say why a model or a block cannot be prepared.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import AttentionLayer, Causal, KeysValues, LearnedPositions, Mask, ScoredAttention
from regard.attention.layer import merge_heads, split_heads
from regard.layers import CausalBlock, DecoderBlock, EncoderBlock, FeedForward, PositionedEmbedding, Residual
from regard.layers.blocks import Block
from regard.quantization.interface import BlockStruct, LinearStruct, NormStruct
from regard.quantization.linear import AfterMap, QuantisedLinear, TiledLinear, activation_name, joined, quantised_linear
from regard.quantization.native import Kernels

KERNEL_HEAD = 32
"""The kernel takes heads whose width is a multiple of this."""


class Norm:
    """A layer norm's gain, bias and epsilon, or nothing.

    Arguments:
        norm: a `nn.LayerNorm`, or `nn.Identity`.
        dtype: of gain and bias; the compiled kernels take float32.
    """

    def __init__(self, norm: nn.Module, dtype: torch.dtype = torch.float32) -> None:
        self.weight: Tensor | None = None
        self.bias: Tensor | None = None
        self.epsilon = 0.0
        if isinstance(norm, nn.LayerNorm):
            self.weight = norm.weight.detach().to(dtype).contiguous()
            self.bias = (
                torch.zeros_like(self.weight) if norm.bias is None else norm.bias.detach().to(dtype).contiguous()
            )
            self.epsilon = norm.eps

    def __call__(self, x: Tensor) -> Tensor:
        """(..., D) to (..., D)."""
        return x if self.weight is None else F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)

    def __getstate__(self) -> dict[str, Any]:
        """With copies: multiprocessing moves the tensors that it sends, and the kernel is told where these are."""
        copies = {
            name: None if part is None else part.clone()
            for name, part in (("weight", self.weight), ("bias", self.bias))
        }
        return {**copies, "epsilon": self.epsilon}

    def struct(self) -> NormStruct:
        """What the kernel is given."""
        if self.weight is None or self.bias is None:
            return NormStruct(None, None, 0.0)
        return NormStruct(self.weight.data_ptr(), self.bias.data_ptr(), self.epsilon)


class PreparedBlock(nn.Module):
    """A block with quantised weights: its linear maps, with PyTorch's attention between them.

    Keys and values are kept in bfloat16, everything else between the maps in float32. A token alone goes through all blocks
    in one call of the compiled kernel instead, which is given `struct`.

    Arguments:
        block: the block, as `obstacle_in` lets it pass; what it does with a source besides is left to `PreparedSourceBlock`.
        bits: of each weight.
        kernels: the compiled ones, or none.
    """

    def __init__(self, block: Block, bits: Literal[8, 4], kernels: Kernels) -> None:
        super().__init__()
        attention, feedforward = block.attention, block.feedforward
        self.heads = attention.heads
        self.head_width: int = attention.query.out_features // attention.heads  # type: ignore[assignment, operator]
        self.scale = product_scale(attention, self.head_width)
        self.projections = mapped([attention.query, attention.key, attention.value], bits, kernels)
        self.output = mapped([attention.output], bits, kernels)
        self.inner = mapped([feedforward.inner], bits, kernels, activation_name(feedforward.activation))  # type: ignore[arg-type]
        self.outer = mapped([feedforward.outer], bits, kernels)
        self.norms = [*norms_of(block.attention_residual), *norms_of(block.feedforward_residual)]
        self.struct = self._struct()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "struct"}  # of addresses

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.struct = self._struct()

    def forward(self, x: Tensor, mask: Mask | None, past: KeysValues, present: KeysValues) -> Tensor:
        """(B, L, D) float32 to (B, L, D) float32.

        Arguments:
            mask: over (B, H, L, past + L), True = may attend.
            past: keys and values of the tokens before.
            present: the same and L more, which are written here.
        """
        return self._fed(self._attended(x, mask, past, present))

    def _attended(self, x: Tensor, mask: Mask | None, past: KeysValues, present: KeysValues) -> Tensor:
        """The first of its sub-layers, residual connection and norms included."""
        before, after = self.norms[:2]
        return after(x + self.output(self._gathered(before(x), mask, past, present)).unflatten(0, x.shape[:2]))

    def _fed(self, x: Tensor) -> Tensor:
        """The last of its sub-layers likewise."""
        before, after = self.norms[2:]
        return after(x + self.outer(self.inner(before(x).flatten(0, 1))).unflatten(0, x.shape[:2]))

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
        structs = structs_of((self.projections, self.output, self.inner, self.outer))
        if structs is None or self.head_width % KERNEL_HEAD:
            return None
        norms = [norm.struct() for norm in self.norms]
        return BlockStruct(*structs, *norms, structs[1].outputs, self.heads, self.head_width, self.scale)


def structs_of(maps: Sequence[QuantisedLinear]) -> list[LinearStruct] | None:
    """What the kernel is given of linear maps; None where it does not take one of them."""
    tiled = [part for part in maps if isinstance(part, TiledLinear) and part.struct.outputs == part.outputs]
    return [part.struct for part in tiled] if len(tiled) == len(maps) else None


def norms_of(residual: Residual) -> tuple[Norm, Norm]:
    """Those before and after a sub-layer."""
    return Norm(residual.before), Norm(residual.after)


def product_scale(attention: AttentionLayer, width: int) -> float:
    """What the products of queries and keys of a width are multiplied by."""
    return attention.attention.score.product_scale(width)  # type: ignore[union-attr, operator, return-value]


def mapped(
    layers: Sequence[Any], bits: Literal[8, 4], kernels: Kernels, activation: AfterMap = "none"
) -> QuantisedLinear:
    """Linear layers of one input as a single one with quantised weights, their outputs side by side."""
    return quantised_linear(*joined(layers), bits, kernels, activation)


class PreparedSourceBlock(PreparedBlock):
    """A `DecoderBlock` with quantised weights: `PreparedBlock`, and between its two sub-layers attention over a source.

    Arguments:
        block: the block, as `obstacle_in` lets it pass.
        bits: of each weight.
        kernels: the compiled ones, or none.
    """

    def __init__(self, block: DecoderBlock, bits: Literal[8, 4], kernels: Kernels) -> None:
        super().__init__(block, bits, kernels)
        attention = block.cross_attention
        self.source_query = mapped([attention.query], bits, kernels)
        self.source_memory = mapped([attention.key, attention.value], bits, kernels)
        self.source_output = mapped([attention.output], bits, kernels)
        self.source_scale = product_scale(attention, self.head_width)
        self.source_norms = norms_of(block.cross_residual)
        self.struct = self._with_source(self.struct)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.struct = self._with_source(self.struct)

    def memory(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (R, H, S, E) of an encoder's output (R, S, D)."""
        key, value = self.source_memory(source.flatten(0, 1)).unflatten(0, source.shape[:2]).chunk(2, dim=-1)
        return split_heads(key, self.heads), split_heads(value, self.heads)

    def about(
        self,
        x: Tensor,
        mask: Mask | None,
        past: KeysValues,
        present: KeysValues,
        memory: KeysValues,
        source_visible: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """(R, W, D) float32 to the same and the queries (R, H, W, E) over the source; of W hypotheses about each source.

        Arguments:
            mask, past, present: as `forward`, a column for each hypothesis.
            memory: keys and values of the sources (R, H, S, E).
            source_visible: (R, 1, 1, S) bool, True = may attend.
        """
        x = self._attended(x, mask, past, present)
        before, after = self.source_norms
        shape = x.shape[:2]
        query = split_heads(self.source_query(before(x).flatten(0, 1)).unflatten(0, shape), self.heads)
        gathered = F.scaled_dot_product_attention(
            query, memory.key.float(), memory.value.float(), attn_mask=source_visible, scale=self.source_scale
        )
        x = after(x + self.source_output(merge_heads(gathered).flatten(0, 1)).unflatten(0, shape))
        return self._fed(x), query

    def _with_source(self, struct: BlockStruct | None) -> BlockStruct | None:
        maps = structs_of((self.source_query, self.source_output))
        if struct is None or maps is None:
            return None
        struct.source_query, struct.source_output = maps
        struct.source_before, struct.source_after = (norm.struct() for norm in self.source_norms)
        struct.source_scale = self.source_scale
        return struct


class RoundedEmbedding(nn.Module):
    """Token vectors and position vectors, those that were learnt kept in bfloat16, and added in float32.

    Arguments:
        embedding: the embedding they come from.
    """

    def __init__(self, embedding: PositionedEmbedding) -> None:
        super().__init__()
        self.tokens = nn.Embedding.from_pretrained(embedding.tokens.weight.detach().bfloat16())
        positions = copy.deepcopy(embedding.positions).requires_grad_(False)
        self.positions = positions.bfloat16() if isinstance(positions, LearnedPositions) else positions.float()
        self.scale = embedding.scale

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """(B, L) ids and (B, L) positions to (B, L, D) float32."""
        return self.tokens(ids).float() * self.scale + self.positions(positions).float()


# Why a model cannot have quantised weights, as half a sentence; empty where it can.


def obstacle_outside(model: nn.Module) -> str:
    """What it is about the place or the use of a model, whatever it is made of."""
    if any(map(is_watched, model.modules())):
        return "somebody looks at it, or has changed it"
    if any(parameter.device.type != "cpu" for parameter in model.parameters()):
        return "it is not on a processor"
    return ""


def obstacle_in(block: nn.Module) -> str:
    """What it is about a block."""
    if type(block) not in (CausalBlock, EncoderBlock, DecoderBlock):
        return "its blocks are of another kind"
    attentions = [block.attention, *([block.cross_attention] if isinstance(block, DecoderBlock) else [])]
    residuals = [part for part in block.children() if isinstance(part, Residual)]
    norms = [norm for residual in residuals for norm in (residual.before, residual.after)]
    if any(type(part) is not Residual for part in residuals) or not all(
        type(norm) in (nn.LayerNorm, nn.Identity) for norm in norms
    ):
        return "its norms are not layer norms"
    return next(filter(None, map(obstacle_in_attention, attentions)), "") or _obstacle_in_net(block.feedforward)  # type: ignore[arg-type]


def obstacle_in_attention(attention: nn.Module) -> str:
    """What it is about an attention layer."""
    if not isinstance(attention, AttentionLayer) or type(attention).forward is not AttentionLayer.forward:
        return "the attention of its blocks is of another kind"
    if any(type(part) is not nn.Linear for part in (attention.query, attention.key, attention.value, attention.output)):
        return "its linear maps are not plain ones"
    mechanism = attention.attention
    dot = type(mechanism) is ScoredAttention and mechanism.alignment.plain_softmax
    if not dot or mechanism.score.product_scale(1) is None or attention.key_heads != attention.heads:  # type: ignore[union-attr]
        return "its attention is not the scaled dot product with a softmax"
    return ""


def _obstacle_in_net(feedforward: nn.Module) -> str:
    if type(feedforward) is not FeedForward or activation_name(feedforward.activation) is None:
        return "the feed-forward nets of its blocks are of another kind"
    if any(type(part) is not nn.Linear for part in (feedforward.inner, feedforward.outer)):
        return "its linear maps are not plain ones"
    return ""


def is_watched(module: nn.Module) -> bool:
    """Whether the module is looked at, changed or compiled from outside, so that it must be called itself."""
    hooks = (module._forward_hooks, module._forward_pre_hooks)
    return "forward" in module.__dict__ or module._compiled_call_impl is not None or any(hooks)
