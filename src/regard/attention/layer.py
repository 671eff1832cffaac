"""An attention layer: projections around a mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from torch import Tensor, nn

from regard.attention.inputs import AttentionInputs
from regard.attention.keys_values import KeysValues
from regard.attention.masks import Mask
from regard.attention.mechanism import Attention

Side = Literal["source", "target", "sentences", "document"]
"""A sequence that a model reads (source) or writes (target); of a document that is read, its sentences, or it as a whole."""


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, L, H*E) to (B, H, L, E): cut the width into heads, then bring the heads before time.

    >>> import torch
    >>> split_heads(torch.arange(8).view(1, 2, 4), 2).tolist()
    [[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]
    """
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, L, E) to (B, L, H*E), the inverse of `split_heads`; a reshape without the transpose would mix time steps."""
    return x.transpose(1, 2).flatten(-2)


class AttentionLayer(nn.Module):
    """Projections of query, key, value and output around an attention mechanism.

        output = Wo [head_1; ...; head_H],   head_h = attention(Wq_h x, Wk_h y) weighing Wv_h y

    Bahdanau's layer is this with one head, `Additive` inside, and identities for value and output.

    Arguments:
        query, key, value, output: modules on the last axis; `nn.Identity()` for none.
        attention: the mechanism.
        heads: H, query heads; the width that `query` gives must divide by it.
        key_heads: G, key and value heads; H where None.
        between: which sequences the queries and the keys come from, (source, source) in an encoder, (target, source) where a
            decoder looks at the source. Nothing is computed from it; it tells whoever looks what the axes are.
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
        between: tuple[Side, Side] = ("source", "source"),
    ) -> None:
        super().__init__()
        self.query = query
        self.key = key
        self.value = value
        self.output = output
        self.attention = attention
        self.heads = heads
        self.key_heads = heads if key_heads is None else key_heads
        self.between = between

    def keys_values(self, source: Tensor) -> KeysValues:
        """What is attended to, projected: source (B, S, D) to keys (B, G, S, E) and values (B, G, S, Ev)."""
        return KeysValues(
            split_heads(self.key(source), self.key_heads), split_heads(self.value(source), self.key_heads)
        )

    def queries(self, target: Tensor, keys: Tensor) -> Tensor:
        """What asks, projected: target (B, L, D) to (B, H, L, E); for a layer whose queries are among its keys, those."""
        del keys
        return split_heads(self.query(target), self.heads)

    def inputs(
        self,
        target: Tensor,
        keys: Tensor,
        *,
        mask: Mask | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        record: Mapping[str, Tensor] | None = None,
    ) -> AttentionInputs:
        """The mechanism's inputs for queries from `target` (B, L, D) and projected `keys` (B, G, S, E).

        In training what is random in the mechanism is drawn into their record, so whoever has the inputs has the draw.
        """
        inputs = AttentionInputs(
            query=self.queries(target, keys),
            key=keys,
            mask=mask,
            query_positions=query_positions,
            key_positions=key_positions,
            record={} if record is None else record,
        )
        drawn = self.training and self.attention.declaration.drawn
        return self.attention.draw(inputs) if drawn else inputs

    def attend(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """Run the mechanism and project its output: value (B, G, S, Ev) to (B, L, D)."""
        return self.output(merge_heads(self.attention(inputs, value)))

    def forward(
        self,
        target: Tensor,
        source: KeysValues,
        *,
        mask: Mask | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        record: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """What each target position gathers from the source.

        Arguments:
            target: (B, L, D), where the queries come from.
            source: projected keys and values, from `keys_values`.
            mask: True = may attend.
            query_positions, key_positions: (B, L) and (B, S) integers, for mechanisms that look at them; None as in
                `AttentionInputs`. Queries that are not among the keys want places of their own.
            record: what the mechanism itself needs besides, by name.

        Returns:
            (B, L, D).
        """
        inputs = self.inputs(
            target,
            source.key,
            mask=mask,
            query_positions=query_positions,
            key_positions=key_positions,
            record=record,
        )
        return self.attend(inputs, source.value)
