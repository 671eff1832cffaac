"""An attention layer whose queries and keys are one projection."""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.keys_values import KeysValues
from regard.attention.layer import AttentionLayer, Side, split_heads
from regard.attention.mechanism import Attention


class SharedAttention(AttentionLayer):
    """Self-attention with one projection for queries and keys (Kitaev et al. 2020, section 2, "shared-QK Transformer").

        q_j = Wqk x_j,   k_j = q_j as the mechanism makes it a key

    The L queries belong to the last L of the S keys, so they are projected with them and not again.

    Arguments:
        query_key: Wqk, on the last axis.
        value, output, attention, heads, between: as for `AttentionLayer`.
    """

    def __init__(
        self,
        *,
        query_key: nn.Module,
        value: nn.Module,
        output: nn.Module,
        attention: Attention,
        heads: int,
        between: tuple[Side, Side] = ("source", "source"),
    ) -> None:
        super().__init__(
            query=query_key,
            key=nn.Identity(),
            value=value,
            output=output,
            attention=attention,
            heads=heads,
            between=between,
        )

    def keys_values(self, source: Tensor) -> KeysValues:
        """What is attended to, projected: source (B, S, D) to keys (B, H, S, E) and values (B, H, S, Ev)."""
        return KeysValues(split_heads(self.query(source), self.heads), split_heads(self.value(source), self.heads))

    def queries(self, target: Tensor, keys: Tensor) -> Tensor:
        """The projections of `target` (B, L, D), which are the last of `keys` (B, H, S, E)."""
        return keys[:, :, keys.shape[2] - target.shape[1] :]
