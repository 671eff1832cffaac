"""Attention layers: projections around a mechanism.

`MultiHeadAttention` is the Transformer's; in `SharedAttention` queries and keys share a projection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.cache import KeysValues
from regard.attention.inputs import NOTHING, AttentionInputs, Positions
from regard.attention.masks import Mask
from regard.attention.mechanism import Attention, ScoredAttention
from regard.attention.positions import Rotary
from regard.attention.scores import ScaledDot
from regard.structure import renamed

Side = Literal["source", "target", "sentences", "document"]
"""A sequence that a model reads (source) or generates (target); if it reads a document: its sentences, or the whole document."""


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, L, H*E) to (B, H, L, E): cut the width into heads, then bring the heads before time.

    >>> split_heads(torch.arange(8).view(1, 2, 4), 2).tolist()
    [[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]
    """
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, L, E) to (B, L, H*E), the inverse of `split_heads`; a reshape without the transpose would mix time steps."""
    return x.transpose(1, 2).flatten(-2)


@renamed(between="sequences")
class AttentionLayer(nn.Module):
    """Projections of query, key, value and output around an attention mechanism.

        output = Wo [head_1; ...; head_H],   head_h = attention(Wq_h x, Wk_h y) weighing Wv_h y

    Bahdanau's layer is this with one head, `Additive` inside, and identities for value and output.

    Arguments:
        query, key, value, output: modules on the last axis; `nn.Identity()` = no projection.
        attention: the mechanism.
        heads: H, query heads; it must divide the output width of `query`.
        key_heads: G, key and value heads; None = H.
        sequences: the sequences of queries and keys: (source, source) in an encoder, (target, source) in cross-attention. They
            only name the axes of the weights.
        rotary: rotary positions, applied to projected queries and keys; None = none.
        query_norm, key_norm: norms over the width of each projected head, before the rotation (Henry et al. 2020; Qwen3); None =
            no norm.
    """

    def __init__(
        self,
        *,
        query: nn.Module,
        key: nn.Module,
        value: nn.Module,
        output: nn.Module,
        attention: Attention,
        heads: int = 1,
        key_heads: int | None = None,
        sequences: tuple[Side, Side] = ("source", "source"),
        rotary: Rotary | None = None,
        query_norm: nn.Module | None = None,
        key_norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.query = query
        self.key = key
        self.value = value
        self.output = output
        self.attention = attention
        self.heads = heads
        self.key_heads = heads if key_heads is None else key_heads
        self.sequences = sequences
        self.rotary = rotary
        self.query_norm = query_norm
        self.key_norm = key_norm

    def keys_values(self, source: Tensor, positions: Tensor | None = None) -> KeysValues:
        """The projected keys (B, G, S, E) and values (B, G, S, Ev) of a source.

        Arguments:
            source: (B, S, D).
            positions: (B or 1, S) integers, the position of each key; None = 0, 1, 2, ...
        """
        key = split_heads(self.key(source), self.key_heads)
        return KeysValues(self.placed(key, positions), split_heads(self.value(source), self.key_heads))

    def queries(self, target: Tensor, keys: Tensor, positions: Positions | None = None) -> Tensor:
        """The projected queries: target (B, L, D) to (B, H, L, E); with shared queries and keys they are the last keys."""
        query = split_heads(self.query(target), self.heads)
        if self.query_norm is not None:
            query = self.query_norm(query)
        if self.rotary is None:
            return query
        positions = Positions(query.shape[2], keys.shape[2], device=query.device) if positions is None else positions
        return self.rotary(query, positions.queries)

    def placed(self, x: Tensor, positions: Tensor | None) -> Tensor:
        """Projected keys (B, G, S, E) at positions (B or 1, S), after the layer's norm and rotary positions, if it has them."""
        if self.key_norm is not None:
            x = self.key_norm(x)
        if self.rotary is None:
            return x
        return self.rotary(x, torch.arange(x.shape[2], device=x.device)[None] if positions is None else positions)

    def inputs(
        self,
        target: Tensor,
        keys: Tensor,
        *,
        mask: Mask | None = None,
        positions: Positions | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        record: Mapping[str, Tensor] | None = None,
    ) -> AttentionInputs:
        """The mechanism's inputs for queries from `target` (B, L, D) and projected `keys` (B, G, S, E).

        In training the mechanism's random tensors are sampled into the record, so the same inputs give the same weights.
        """
        if positions is None:
            positions = Positions(
                target.shape[1],
                keys.shape[2],
                of_queries=query_positions,
                of_keys=key_positions,
                device=target.device,
            )
        inputs = AttentionInputs(
            query=self.queries(target, keys, positions),
            key=keys,
            mask=mask,
            positions=positions,
            record=NOTHING if record is None else record,
        )
        sampled = self.training and self.attention.declaration.sampled
        return self.attention.sample(inputs) if sampled else inputs

    def attend(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """Run the mechanism and project its output: value (B, G, S, Ev) to (B, L, D)."""
        return self.output(merge_heads(self.attention(inputs, value)))

    def forward(
        self,
        target: Tensor,
        source: KeysValues,
        *,
        mask: Mask | None = None,
        positions: Positions | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        record: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """The layer's output for each target position.

        Arguments:
            target: (B, L, D), where the queries come from.
            source: projected keys and values, from `keys_values`.
            mask: True = may attend.
            positions: the positions of queries and keys; the layers of a stack can share one `Positions`.
            query_positions, key_positions: (B or 1, L) and (B or 1, S) integers, if `positions` is None; None = the defaults of
                `AttentionInputs`. Give positions if the queries are not among the keys.
            record: further tensors that the mechanism needs, by name.

        Returns:
            (B, L, D).
        """
        inputs = self.inputs(
            target,
            source.key,
            mask=mask,
            positions=positions,
            query_positions=query_positions,
            key_positions=key_positions,
            record=record,
        )
        return self.attend(inputs, source.value)


@renamed(between="sequences")
class MultiHeadAttention(AttentionLayer):
    """Scaled dot-product attention over H heads (Vaswani et al. 2017, section 3.2.2).

        head_h = softmax(x Wq_h (y Wk_h)^T / sqrt(E)) y Wv_h,   output = [head_1; ...; head_H] Wo,   E = D / H

    It is an `AttentionLayer` with linear projections and scaled dot-product attention.

    Arguments:
        width: D, of the model.
        heads: H; must divide D.
        key_heads: G, fewer key and value heads shared by groups of query heads (Ainslie et al. 2023); None = H.
        head_width: E, of a head; None = D / H.
        bias: whether the projections have biases (the published model has none).
        output_bias: whether the output projection has a bias; None = `bias`.
        dropout: probability of dropping a weight in training.
        attention: another mechanism instead of the scaled dot product.
        sequences: the sequences of queries and keys, as for `AttentionLayer`.
        rotary: rotary positions of queries and keys, for all E channels or the first of them; None = none.
        query_norm, key_norm: norms over the E channels of each head, before the rotation; None = no norm.

    Raises:
        ValueError: if `heads` does not divide `width` and no `head_width` is given, or `key_heads` does not divide `heads`.

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
        head_width: int | None = None,
        bias: bool = True,
        output_bias: bool | None = None,
        dropout: float = 0.0,
        attention: Attention | None = None,
        sequences: tuple[Side, Side] = ("source", "source"),
        rotary: Rotary | None = None,
        query_norm: nn.Module | None = None,
        key_norm: nn.Module | None = None,
    ) -> None:
        key_heads = heads if key_heads is None else key_heads
        if heads < 1 or (head_width is None and width % heads):
            raise ValueError(f"width {width} does not divide into {heads} heads; choose a multiple")
        if key_heads < 1 or heads % key_heads:
            raise ValueError(f"{heads} query heads do not divide into {key_heads} key heads; choose a divisor")
        each = width // heads if head_width is None else head_width
        super().__init__(
            query=nn.Linear(width, each * heads, bias=bias),
            key=nn.Linear(width, each * key_heads, bias=bias),
            value=nn.Linear(width, each * key_heads, bias=bias),
            output=nn.Linear(each * heads, width, bias=bias if output_bias is None else output_bias),
            attention=attention if attention is not None else ScoredAttention(ScaledDot(), dropout=dropout),
            heads=heads,
            key_heads=key_heads,
            sequences=sequences,
            rotary=rotary,
            query_norm=query_norm,
            key_norm=key_norm,
        )


@renamed(between="sequences")
class SharedAttention(AttentionLayer):
    """Self-attention with one projection for queries and keys (Kitaev et al. 2020, section 2, "shared-QK Transformer").

        q_j = k_j = Wqk x_j      (`LSHAttention` then divides k_j by its length)

    The L queries belong to the last L of the S keys, so they are projected with them and not again.

    Arguments:
        query_key: Wqk, on the last axis.
        value, output, attention, heads, sequences: as for `AttentionLayer`.
    """

    def __init__(
        self,
        *,
        query_key: nn.Module,
        value: nn.Module,
        output: nn.Module,
        attention: Attention,
        heads: int,
        sequences: tuple[Side, Side] = ("source", "source"),
    ) -> None:
        super().__init__(
            query=query_key,
            key=nn.Identity(),
            value=value,
            output=output,
            attention=attention,
            heads=heads,
            sequences=sequences,
        )

    def keys_values(self, source: Tensor, positions: Tensor | None = None) -> KeysValues:
        """The projected keys (B, H, S, E) and values (B, H, S, Ev) of a source (B, S, D)."""
        key = split_heads(self.query(source), self.heads)
        return KeysValues(self.placed(key, positions), split_heads(self.value(source), self.heads))

    def queries(self, target: Tensor, keys: Tensor, positions: Positions | None = None) -> Tensor:
        """The projections of `target` (B, L, D), which are the last of `keys` (B, H, S, E)."""
        return keys[:, :, keys.shape[2] - target.shape[1] :]
