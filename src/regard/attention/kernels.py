"""Fast implementations of softmax attention: PyTorch's fused kernel or explicit weights, and dropout with cheaper random numbers.

`softmax_product` computes what `ScoredAttention.weights` defines, for scores that are a constant times the inner product plus a
term. Which implementation is faster was measured on several processors (`benchmarks/attention_kernels.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.attention.dropping import dropped
from regard.attention.inputs import AttentionInputs, Positions
from regard.attention.masks import Causal, Packed, Rows, Unpadded
from regard.attention.texts import attention_of_texts
from regard.kernels.building import has_bfloat16_products

SHORT, LONG = 24, 256
"""For training in bfloat16 on a processor. With fewer than `SHORT` queries or keys, PyTorch's fused kernel is fastest in float32;
with more than `LONG` keys it is fastest in the given dtype; between the two, explicit weights are faster."""


HALF_FULL = 0.6
"""In bfloat16, texts whose weights are less than this share of those of a batch are faster computed one by one."""


def softmax_product(
    inputs: AttentionInputs,
    value: Tensor,
    scale: float,
    term: Tensor | None = None,
    *,
    dropout: float = 0.0,
    training: bool = False,
    batch_invariant: bool = False,
) -> Tensor:
    """softmax(c q . k + t) v over the visible keys, by the faster implementation.

    Arguments:
        inputs: queries, keys and mask; a query without a visible key gets exact zeros.
        value: (B, G, S, Ev).
        scale: c.
        term: t, broadcasts to (B, H, L, S); None for none.
        dropout: probability of dropping a weight in training.
        training: whether this is training.
        batch_invariant: whether a row gets the same bits alone and in any batch, see `BatchInvariant`; not in training.

    Returns:
        (B, H, L, Ev) in the dtype of the queries.
    """
    if type(inputs.mask) is Unpadded and term is None:
        asking, asked = inputs.mask.queries, inputs.mask.keys
        if training and _better_text_by_text(inputs.mask, autocast_dtype(inputs.query)):
            query, key, given = (as_autocast(x) for x in (inputs.query, inputs.key, value))
            compiled = attention_of_texts(query, key, given, inputs.mask, scale, dropout)
            if compiled is not None:
                return compiled.to(inputs.query.dtype)

        def batch(x: Tensor, rows: Rows) -> Tensor:  # (1, H, T, E) to (B, H, L, E)
            return rows.laid_out(x.squeeze(0).transpose(0, 1)).transpose(1, 2)

        padded = AttentionInputs(query=batch(inputs.query, asking), key=batch(inputs.key, asked), mask=inputs.mask.mask)
        options: dict[str, Any] = {"dropout": dropout, "training": training, "batch_invariant": batch_invariant}
        found = softmax_product(padded, batch(value, asked), scale, **options)
        return asking.in_row(found.transpose(1, 2)).unsqueeze(0).transpose(1, 2)
    if training and _better_laid_out(inputs, dropout):
        return laid_out(inputs, value, scale, term, dropout)
    return fused(inputs, value, scale, term, dropout if training else 0.0, batch_invariant=batch_invariant)


def _better_text_by_text(mask: Unpadded, dtype: torch.dtype) -> bool:
    """Whether the compiled kernel, which computes in float32, is faster in training than the texts laid out as a batch.

    Forward and backward of 2,048 tokens in 12 heads took 18 and 24 ms in float32 for texts of 64 tokens, in bfloat16 16 and 13
    ms, where PyTorch multiplies in bfloat16; of 16 tokens 10 and 11 ms; on two cores with AVX512-BF16.
    """
    longest = max(mask.queries.valid.shape[1], mask.keys.valid.shape[1])
    return longest <= (LONG if dtype == torch.float32 or mask.share <= HALF_FULL else SHORT)


def _better_laid_out(inputs: AttentionInputs, dropout: float) -> bool:
    """Whether explicit weights are faster than the fused kernel, in training on a processor.

    With dropout the kernel computes explicit weights too, in float32, and is slower. In bfloat16 its backward pass is slow on
    short sequences: forward and backward of 192 heads of 128 tokens took 35 ms with explicit weights, 65 ms with the kernel in
    float32 and 114 ms in bfloat16, on one AVX512-BF16 core; 256 heads of 32 tokens 7, 14 and 33 ms.
    """
    if inputs.query.device.type != "cpu":
        return False
    queries, keys = inputs.shape[2:]
    middling = min(queries, keys) >= SHORT and keys <= LONG
    return dropout > 0 or (middling and _slow_backward(inputs.query))


def fused(
    inputs: AttentionInputs,
    value: Tensor,
    scale: float,
    term: Tensor | None,
    dropout: float,
    *,
    batch_invariant: bool = False,
) -> Tensor:
    """PyTorch's `scaled_dot_product_attention`, which never stores the (L, S) weights."""
    if type(inputs.mask) is Packed and term is None:
        return _each_text(inputs, inputs.mask, value, scale, dropout, batch_invariant)
    # SDPA's `is_causal` aligns the triangle top left: right only where queries and keys are the same slots.
    mask = inputs.mask
    square = inputs.query.shape[2] == inputs.key.shape[2]
    causal = term is None and type(mask) is Causal and mask.offset == 0 and square
    visible = None if causal else inputs.visible()
    query, key = inputs.query, inputs.key
    exact = inputs.shape[3] <= LONG and _slow_backward(query)
    if exact:
        query, key, value = query.float(), key.float(), value.float()
    alike = BatchInvariant() if batch_invariant else nullcontext()
    # Autocast would turn the float32 inputs back into bfloat16.
    with alike, torch.autocast(query.device.type, enabled=False) if exact else nullcontext():
        output = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=visible if term is None else _added(term, visible, autocast_dtype(query)),
            dropout_p=dropout,
            is_causal=causal,
            scale=scale,
            enable_gqa=query.shape[1] != key.shape[1],
        )
    if term is not None and visible is not None:  # a query without a visible key has uniform weights
        output = output * visible.any(dim=-1, keepdim=True)
    return output.to(inputs.query.dtype)


def _each_text(
    inputs: AttentionInputs, mask: Packed, value: Tensor, scale: float, dropout: float, batch_invariant: bool
) -> Tensor:
    """Several texts packed in one row, computed one by one, so that no result depends on another text."""
    outputs, end = [], 0
    for length in mask.lengths:
        own = slice(end, end + length)
        end += length
        alone = AttentionInputs(
            query=inputs.query[:, :, own],
            key=inputs.key[:, :, own],
            mask=mask.of_one(length),
            positions=Positions(length, length, device=value.device),
        )
        outputs.append(fused(alone, value[:, :, own], scale, None, dropout, batch_invariant=batch_invariant))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)


def laid_out(inputs: AttentionInputs, value: Tensor, scale: float, term: Tensor | None, dropout: float) -> Tensor:
    """The output of the kernel, computed with explicit weights in the dtype of the inputs."""
    query, key = as_autocast(inputs.query), as_autocast(inputs.key_per_query_head)
    value = as_autocast(inputs.per_query_head(value))
    visible = inputs.visible()
    with torch.autocast("cpu", enabled=False):
        scores = (query * scale) @ key.transpose(-1, -2)
        if term is not None:
            scores = scores.add_(_added(term, visible, scores.dtype))
        elif visible is not None:  # the mask is smaller than the scores, which are read once here instead of four times
            scores = scores.add_(_added(torch.zeros((), device=scores.device), visible, scores.dtype))
        weights = scores.softmax(dim=-1)
        output = (dropped(weights, dropout) if dropout else weights) @ value
        if visible is not None:  # a query without a visible key has uniform weights
            output = output * visible.any(dim=-1, keepdim=True)
        return output.to(inputs.query.dtype)


def _added(term: Tensor, visible: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The term to add to products of query and key.

    For visible keys it is the given term; for others a number so low that their weight is zero after the softmax.
    """
    term = term.to(dtype)
    # Half the lowest number: a score added to it does not make it infinite.
    return term if visible is None else torch.where(visible, term, torch.finfo(dtype).min / 2)


def autocast_dtype(x: Tensor) -> torch.dtype:
    """The dtype to which autocast, if it is on, would convert a tensor for a matrix product."""
    kind = x.device.type
    wide = x.dtype == torch.float64 or not torch.is_autocast_enabled(kind)
    return x.dtype if wide else torch.get_autocast_dtype(kind)


def as_autocast(x: Tensor) -> Tensor:
    """The tensor in that dtype."""
    return x.to(autocast_dtype(x))


def _slow_backward(query: Tensor) -> bool:
    """Whether the backward pass of the fused kernel would run on a processor in bfloat16, the given dtype or that of autocast."""
    given = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else query.dtype
    return (
        torch.bfloat16 in (query.dtype, given)
        and query.dtype != torch.float64
        and query.device.type == "cpu"
        and torch.is_grad_enabled()
        and query.requires_grad
    )


# Batch invariance: a row gives the same bits whatever the other rows of its batch are.

ROWS, AVX512_ROWS = 4, 16
"""In float32 a matrix product gives each row the same bits if its number of rows is a multiple of this; for other numbers MKL
uses other kernels (measured for 1 to 1100 rows and 1 to 8 threads: `benchmarks/cache.py`). The second number is for processors
with AVX-512, which have a kernel for at most 8 rows."""

FLOAT64_BLOCK = 64
"""The largest number of rows of a product in float64: from 200 rows on another kernel is used."""

BFLOAT16_ROWS, BFLOAT16_BLOCK = 8, 32
"""If oneDNN computes bfloat16 (processors with AVX-512), the last bit of a product of 1 row, or of 2 to 4, sometimes differs from
that of a product of more rows; with AMX also that of more than 32 rows. Products of 8, 16, 24 and 32 rows agree. On other
processors the number of rows changes nothing in bfloat16."""

VECTOR, SERIAL, GRAIN = 32, 16384, 32768
"""PyTorch computes elementwise functions on the first number of values at a time, and the rest at the end of each thread's part
with another formula. It uses one thread for up to the second number of values. For more, GELU uses all threads, and other
functions one for each started third number of values."""

ALIGNED = 64
"""In bytes: if a matrix begins at a multiple of it, its address does not change the bits of a product."""


class BatchInvariant(TorchFunctionMode):
    """A context in which a row gives the same bits alone and in any batch, on a processor.

    Linear maps in float32 run on a multiple of `ROWS` rows, padded with zeros (`AVX512_ROWS` on processors with AVX-512); in
    bfloat16 with oneDNN on a multiple of `BFLOAT16_ROWS`, at most `BFLOAT16_BLOCK` at a time. Attention runs row by row, from the
    first key that the row sees. Activations run on whole SIMD vectors. This covers, in evaluation, models of linear maps, norms
    and fused attention without a bias by position, such as GPT-2. Only the last bits change. A single row takes longer, since its
    products are padded. The context applies to the thread that enters it.

    >>> linear, x = torch.nn.Linear(8, 8), torch.randn(5, 8)
    >>> with torch.no_grad(), BatchInvariant():
    ...     bool((linear(x)[:1] == linear(x[:1])).all())
    True
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The call, computed by rows if its function is in `_BY_ROWS`."""
        by_rows = _BY_ROWS.get(func)
        named = kwargs or {}
        if by_rows is None or torch.is_grad_enabled() or args[0].device.type != "cpu":
            return func(*args, **named)
        return by_rows(func, *args, **named)


def _linear_of_rows(function: Callable[..., Tensor], x: Tensor, *args: Any, **named: Any) -> Tensor:
    rows = x.shape[:-1].numel()
    step, block = _rows_alike(x.dtype, rows)
    if (not rows % step and rows <= block) or torch.is_autocast_enabled("cpu"):
        return function(x, *args, **named)
    filled = x.reshape(rows, -1)
    if rows % step:
        filled = F.pad(filled, (0, 0, 0, -rows % step))
    parts = [function(part, *args, **named) for part in filled.split(block)]
    made = parts[0] if len(parts) == 1 else torch.cat(parts)
    return made[:rows].unflatten(0, x.shape[:-1])


def _rows_alike(dtype: torch.dtype, rows: int) -> tuple[int, int]:
    """The two row counts (n, m): products of any multiple of n rows, up to m, give a row the same bits."""
    if dtype in (torch.float32, torch.float64):
        least = AVX512_ROWS if torch.cpu._is_avx512_supported() else ROWS
        return least, rows + least if dtype == torch.float32 else FLOAT64_BLOCK
    if dtype == torch.bfloat16 and has_bfloat16_products():
        return BFLOAT16_ROWS, BFLOAT16_BLOCK
    return 1, max(1, rows)


def _vectors_of_rows(function: Callable[..., Tensor], x: Tensor, *args: Any, **named: Any) -> Tensor:
    if not x.dim() or not x.numel() or (x.shape[-1] % VECTOR == 0 and x.is_contiguous() and _in_whole_vectors(x)):
        return function(x, *args, **named)
    flat = x.reshape(-1, x.shape[-1])
    width = flat.shape[1]
    if width % VECTOR:
        flat = F.pad(flat, (0, -width % VECTOR))
    parts = flat.split(max(1, SERIAL // flat.shape[1]))
    made = torch.cat([function(part, *args, **named) for part in parts])
    # A contiguous copy: with other strides a later matrix product may have other bits.
    return (made[:, :width].clone(memory_format=torch.contiguous_format) if width % VECTOR else made).view(x.shape)


def _in_whole_vectors(x: Tensor) -> bool:
    """Whether each of PyTorch's threads has a multiple of `VECTOR` of these numbers, which it shares out evenly."""
    if x.numel() <= SERIAL:
        return True
    threads = torch.get_num_threads()
    shared = (threads, min(threads, -(-x.numel() // GRAIN)))
    even = not any(x.numel() % (count * VECTOR) for count in shared)
    return even and x.dtype == torch.float32 and x.shape[-1] <= SERIAL


def _attention_of_rows(
    function: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    **named: Any,
) -> Tensor:
    if query.dim() != 4:
        return function(query, key, value, attn_mask=attn_mask, **named)
    if len(query) == 1 and attn_mask is None:
        return function(*map(_aligned, (query, key, value)), **named)
    outputs = []
    for row in range(len(query)):
        own = slice(row, row + 1)
        mask = None if attn_mask is None else attn_mask[own] if attn_mask.shape[0] > 1 else attn_mask
        first = 0
        if mask is not None and mask.dtype == torch.bool and mask.shape[3] > 1:
            seen = mask.flatten(0, 2).any(dim=0)
            first = int(seen.int().argmax())
            mask = mask[..., first:]
            if bool(mask.all()):
                mask = None
        parts = (query[own], key[own, :, first:], value[own, :, first:])
        outputs.append(function(*map(_aligned, parts), attn_mask=mask, **named))
    return torch.cat(outputs)


def _aligned(x: Tensor) -> Tensor:
    return x if x.shape[-1] * x.element_size() % ALIGNED == 0 else x.clone(memory_format=torch.contiguous_format)


_BY_ROWS: dict[Any, Callable[..., Tensor]] = {
    F.linear: _linear_of_rows,
    F.scaled_dot_product_attention: _attention_of_rows,
    **dict.fromkeys((F.gelu, F.silu, torch.sigmoid, Tensor.sigmoid), _vectors_of_rows),
}
