"""Attention of texts in one row of tokens in training, by a compiled kernel: forwards and backwards, text by text.

    Y = (softmax(scale Q K^T) * M) V   of each text and head,   M of dropout

Nothing is computed or stored for padding, and no weights are stored: the backward pass computes them again. All sums are float32.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from regard.attention.additive import gradients_where_needed
from regard.attention.dropping import kept, sample_seed, scale_of, share_of
from regard.attention.inputs import AttentionInputs
from regard.attention.masks import Rows, Unpadded
from regard.attention.positions import positions_of
from regard.kernels import kernels
from regard.kernels.interface import TextsStruct


@dataclass(frozen=True, slots=True, eq=False)
class TextAttention:
    """What the kernel needs besides queries, keys and values.

    Arguments:
        mask: the texts.
        scale: of the inner products.
        dropout: probability of dropping a weight.
        seed: which weights are dropped, as `dropped` drops weights (B, H, L, S).
        library: the kernels.
    """

    mask: Unpadded
    scale: float
    dropout: float
    seed: int
    library: ctypes.CDLL

    def struct(self, query: Tensor, key: Tensor, value: Tensor) -> TextsStruct:
        """For queries (T, H, E), and keys and values (S, H, E)."""
        (_, heads, width), (texts, length) = query.shape, self.mask.queries.valid.shape
        share = share_of(self.dropout) if self.dropout else 0
        ends = self.mask.queries.ends.data_ptr(), self.mask.keys.ends.data_ptr()
        return TextsStruct(
            *(query.data_ptr(), key.data_ptr(), value.data_ptr(), *ends, texts, heads, width),
            *(query.element_size() * 8, self.mask.causal, self.scale, share, scale_of(share, query.dtype)),
            *(length, self.mask.keys.valid.shape[1], self.seed),
        )

    def scratch(self, width: int) -> tuple[int, Tensor, int]:
        """The number of threads, memory for them, and the share of each in it."""
        threads, most = torch.get_num_threads(), (self.mask.queries.valid.shape[1], self.mask.keys.valid.shape[1])
        room = self.library.regard_attention_scratch(*most, width)
        return threads, torch.empty(threads * room), room


def attention_of_texts(
    query: Tensor, key: Tensor, value: Tensor, mask: Unpadded, scale: float, dropout: float
) -> Tensor | None:
    """The attention of texts in one row; None where the kernel does not support these inputs, or there is none.

    Arguments:
        query: (1, H, T, E), float32 or bfloat16.
        key, value: (1, H, S, E), of the same dtype.
        mask: the texts.
        scale: of the inner products.
        dropout: probability of dropping a weight.

    Returns:
        (1, H, T, E).
    """
    library = kernels().library
    alike = query.dtype == key.dtype == value.dtype and query.dtype in (torch.float32, torch.bfloat16)
    if library is None or not alike or key.shape[1] != query.shape[1] or value.shape[3] != query.shape[3]:
        return None
    wanted = TextAttention(mask, scale, dropout, sample_seed() if dropout else 0, library)
    rows = (x.squeeze(0).transpose(0, 1) for x in (query, key, value))
    found: Tensor = _AttentionOfTexts.apply(*rows, wanted)  # type: ignore[assignment]
    return found.transpose(0, 1).unsqueeze(0)


def by_equation(query: Tensor, key: Tensor, value: Tensor, wanted: TextAttention) -> Tensor:
    """The same, written plainly: queries (T, H, E), keys and values (S, H, E) to (T, H, E)."""
    asking, asked, dtype = wanted.mask.queries, wanted.mask.keys, query.dtype
    rows = ((asking, query), (asked, key), (asked, value))
    q, k, v = (row.laid_out(x.float()).transpose(1, 2) for row, x in rows)
    scores = wanted.scale * (q @ k.mT)
    visible = wanted.mask.mask.dense(batch=len(q), queries=q.shape[2], keys=k.shape[2], device=q.device)
    weights = scores.masked_fill(~visible, torch.finfo(scores.dtype).min).softmax(dim=-1) * visible
    if wanted.dropout:
        weights = weights * kept(weights.to(dtype), wanted.dropout, wanted.seed)
    return asking.in_row((weights @ v).transpose(1, 2)).to(dtype)


def in_batch(inputs: AttentionInputs, mask: Unpadded, value: Tensor | None) -> tuple[AttentionInputs, Tensor | None]:
    """The inputs (1, H, T, E) and values of texts in one row, as the batch has them: (B, H, L, E), zeros at padding."""

    def laid_out(x: Tensor, rows: Rows) -> Tensor:
        return rows.laid_out(x.squeeze(0).transpose(0, 1)).transpose(1, 2)

    asking, asked = mask.asked_by, mask.asked_of
    places = [None if bool(rows.valid[:, :1].all()) else positions_of(rows.valid) for rows in (asking, asked)]
    batch = AttentionInputs(
        query=laid_out(inputs.query, asking),
        key=laid_out(inputs.key, asked),
        mask=mask.in_batch,
        query_positions=places[0],
        key_positions=places[1],
    )
    return batch, None if value is None else laid_out(value, asked)


class _AttentionOfTexts(torch.autograd.Function):
    """Queries (T, H, E), keys and values (S, H, E) to (T, H, E)."""

    @staticmethod
    def forward(ctx: FunctionCtx, query: Tensor, key: Tensor, value: Tensor, wanted: TextAttention) -> Tensor:
        given = tuple(x.contiguous() for x in (query, key, value))
        found = torch.empty_like(given[0])
        threads, scratch, room = wanted.scratch(query.shape[2])
        wanted.library.regard_attention(wanted.struct(*given), threads, scratch.data_ptr(), room, found.data_ptr())
        ctx.save_for_backward(query, key, value)
        ctx.wanted = wanted  # type: ignore[attr-defined]
        return found

    @staticmethod
    def backward(ctx: FunctionCtx, *upstreams: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (query, key, value), wanted = ctx.saved_tensors, ctx.wanted  # type: ignore[attr-defined]
        if torch.is_grad_enabled():  # a gradient of this gradient is wanted
            found = by_equation(query, key, value, wanted)
            return (*gradients_where_needed(found, (query, key, value), upstreams[0]), None)
        given = tuple(x.contiguous() for x in (query, key, value))
        upstream, gradients = upstreams[0].contiguous(), [torch.empty_like(x) for x in given]
        threads, scratch, room = wanted.scratch(upstream.shape[2])
        wanted.library.regard_attention_gradient(
            *(wanted.struct(*given), upstream.data_ptr(), threads, scratch.data_ptr(), room),
            *(each.data_ptr() for each in gradients),
        )
        return (*gradients, None)
