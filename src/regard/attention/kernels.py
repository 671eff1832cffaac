"""The equation's fast ways on one device: the fused kernel or weights laid out, and dropout with cheaper random numbers.

Nothing here says what an attention is. `softmax_product` gives what `ScoredAttention.weights` defines, for scores that are a
constant times the inner product plus a term; which way it takes was measured, processor by processor
(`benchmarks/attention_kernels.py`).
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.inputs import AttentionInputs
from regard.attention.masks import Causal

SHORT, LONG = 24, 256
"""Fewer queries or keys than the first, and PyTorch's fused kernel trains fastest in float32; more keys than the second, and it
does so as they are given; between the two it is better to lay the weights out. For processors and bfloat16 alone."""


def softmax_product(
    inputs: AttentionInputs,
    value: Tensor,
    scale: float,
    term: Tensor | None = None,
    *,
    dropout: float = 0.0,
    training: bool = False,
) -> Tensor:
    """softmax(c q . k + t) v over the keys a query sees, by whichever way is faster.

    Arguments:
        inputs: queries, keys and mask; a query that sees nothing gets exact zeros.
        value: (B, G, S, Ev).
        scale: c.
        term: t, broadcasts to (B, H, L, S); None for none.
        dropout: probability of dropping a weight in training.
        training: whether this is training.

    Returns:
        (B, H, L, Ev) in the dtype of the queries.
    """
    if training and _better_laid_out(inputs, dropout):
        return laid_out(inputs, value, scale, term, dropout)
    return fused(inputs, value, scale, term, dropout if training else 0.0)


def _better_laid_out(inputs: AttentionInputs, dropout: float) -> bool:
    """Whether, in training on a processor, the weights are better laid out than left to the fused kernel.

    With dropout it lays them out too, in float32, and is slower. In bfloat16 its backward pass is slow on short sequences:
    forward and backward of 192 heads of 128 tokens took 35 ms laid out, 65 ms by the kernel in float32 and 114 ms in
    bfloat16, on one AVX512-BF16 core; 256 heads of 32 tokens 7, 14 and 33 ms.
    """
    if inputs.query.device.type != "cpu":
        return False
    queries, keys = inputs.shape[2:]
    middling = min(queries, keys) >= SHORT and keys <= LONG
    return dropout > 0 or (middling and _slow_backward(inputs.query))


def fused(inputs: AttentionInputs, value: Tensor, scale: float, term: Tensor | None, dropout: float) -> Tensor:
    """PyTorch's `scaled_dot_product_attention`, which never lays the weights out."""
    # SDPA's `is_causal` aligns the triangle top left: right only where queries and keys are the same slots.
    mask = inputs.mask
    square = inputs.query.shape[2] == inputs.key.shape[2]
    causal = term is None and type(mask) is Causal and mask.offset == 0 and square
    visible = None if causal else inputs.visible()
    query, key = inputs.query, inputs.key
    exact = inputs.shape[3] <= LONG and _slow_backward(query)
    if exact:
        query, key, value = query.float(), key.float(), value.float()
    # Autocast would turn the float32 inputs back into bfloat16.
    with torch.autocast(query.device.type, enabled=False) if exact else nullcontext():
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
    if term is not None and visible is not None:  # a query with nothing visible looked at everything alike
        output = output * visible.any(dim=-1, keepdim=True)
    return output.to(inputs.query.dtype)


def laid_out(inputs: AttentionInputs, value: Tensor, scale: float, term: Tensor | None, dropout: float) -> Tensor:
    """What the kernel does, step by step, in the number format given."""
    query, key = as_autocast(inputs.query), as_autocast(inputs.key_per_query_head)
    value = as_autocast(inputs.per_query_head(value))
    visible = inputs.visible()
    with torch.autocast("cpu", enabled=False):
        scores = (query * scale) @ key.transpose(-1, -2)
        if term is not None:
            scores = scores.add_(_added(term, visible, scores.dtype))
        elif visible is not None:  # the mask is smaller than the scores, and this touches them once, not four times
            scores = scores.add_(_added(torch.zeros((), device=scores.device), visible, scores.dtype))
        weights = scores.softmax(dim=-1)
        output = (dropped(weights, dropout) if dropout else weights) @ value
        if visible is not None:  # a query with nothing visible looked at everything alike
            output = output * visible.any(dim=-1, keepdim=True)
        return output.to(inputs.query.dtype)


def _added(term: Tensor, visible: Tensor | None, dtype: torch.dtype) -> Tensor:
    """What is added to products of query and key.

    The term where a key is visible; where not, so low a number that nothing is left of it after the softmax.
    """
    term = term.to(dtype)
    # Half the lowest: no score makes it infinite.
    return term if visible is None else torch.where(visible, term, torch.finfo(dtype).min / 2)


def autocast_dtype(x: Tensor) -> torch.dtype:
    """The number format in which autocast, where it is on, would give a tensor to a matrix product."""
    kind = x.device.type
    wide = x.dtype == torch.float64 or not torch.is_autocast_enabled(kind)
    return x.dtype if wide else torch.get_autocast_dtype(kind)


def as_autocast(x: Tensor) -> Tensor:
    """The tensor in that number format."""
    return x.to(autocast_dtype(x))


def _slow_backward(query: Tensor) -> bool:
    """Whether the fused kernel would run its backward pass for processors in bfloat16, given or by autocast."""
    given = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else query.dtype
    return (
        torch.bfloat16 in (query.dtype, given)
        and query.dtype != torch.float64
        and query.device.type == "cpu"
        and torch.is_grad_enabled()
        and query.requires_grad
    )


def dropped(x: Tensor, p: float) -> Tensor:
    """Entries set to zero with probability p and the others divided by 1 - p (Srivastava et al. 2014).

    On a processor PyTorch draws one random number of its serial generator for each entry, which took a fifth of the time of a
    small Transformer's training step. Here one 64-bit number serves four entries, 16 bits each, so p is kept to within
    1/131072 (1/65536 next to 1), and the scale is that of the p really used. The numbers are those of NumPy's SFC64, four times
    as fast as PyTorch's generator, which draws the seed alone: what `torch.manual_seed` fixes stays fixed. On other devices, and
    when compiled, it is PyTorch's own.

    Arguments:
        x: of any shape.
        p: in [0, 1).
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p, training=True)
    return x * kept(x, p, drawn_seed())


def drawn_seed() -> int:
    """A seed for `kept`, by torch's generator."""
    return int(torch.randint(2**63 - 1, ()))


def kept(x: Tensor, p: float, seed: int) -> Tensor:
    """What `dropped` multiplies x with, of its shape, dtype and device: the same each time for one seed."""
    if x.device.type != "cpu":
        drawn = torch.rand(x.shape, generator=torch.Generator(x.device).manual_seed(seed), device=x.device)
        return (drawn >= p).to(x.dtype).mul_(1 / (1 - p))
    share = min(round(p * 65536), 65535)  # one in 65536 is kept even where p is nearer to 1
    draw = np.random.Generator(np.random.SFC64(seed))
    bits = draw.integers(-(2**63), 2**63 - 1, -(-x.numel() // 4), dtype=np.int64, endpoint=True)
    held = torch.from_numpy(bits).view(torch.int16)[: x.numel()].view(x.shape) >= share - 32768
    return held.to(x.dtype).mul_(65536 / (65536 - share))
