"""Multi-head attention of the Transformer."""

from __future__ import annotations

from torch import nn

from regard.attention.layer import AttentionLayer, Side
from regard.attention.mechanism import Attention, ScoredAttention
from regard.attention.scores import ScaledDot


class MultiHeadAttention(AttentionLayer):
    """Scaled dot-product attention over H heads (Vaswani et al. 2017, section 3.2.2).

        head_h = softmax(x Wq_h (y Wk_h)^T / sqrt(E)) y Wv_h,   output = [head_1; ...; head_H] Wo,   E = D / H

    Only a constructor for `AttentionLayer`: the parts it builds are the paper's.

    Arguments:
        width: D, of the model.
        heads: H; must divide D.
        key_heads: G, fewer key and value heads shared by groups of query heads; H where None.
        bias: whether the four projections have biases (the published model has none).
        dropout: probability of dropping a weight in training.
        attention: another mechanism in place of scaled dot product.
        between: which sequences queries and keys come from.

    Raises:
        ValueError: where `heads` does not divide `width`, or `key_heads` does not divide `heads`.

    >>> import torch
    >>> layer = MultiHeadAttention(12, heads=3)
    >>> x = torch.randn(2, 5, 12)
    >>> layer(x, layer.keys_values(x)).shape
    torch.Size([2, 5, 12])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_heads: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        attention: Attention | None = None,
        between: tuple[Side, Side] = ("source", "source"),
    ) -> None:
        key_heads = heads if key_heads is None else key_heads
        if heads < 1 or width % heads:
            raise ValueError(f"width {width} does not divide into {heads} heads; choose a multiple")
        if key_heads < 1 or heads % key_heads:
            raise ValueError(f"{heads} query heads do not divide into {key_heads} key heads; choose a divisor")
        key_width = width // heads * key_heads
        super().__init__(
            query=nn.Linear(width, width, bias=bias),
            key=nn.Linear(width, key_width, bias=bias),
            value=nn.Linear(width, key_width, bias=bias),
            output=nn.Linear(width, width, bias=bias),
            attention=attention if attention is not None else ScoredAttention(ScaledDot(), dropout=dropout),
            heads=heads,
            key_heads=key_heads,
            between=between,
        )
