"""The Transformer's repeated blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from regard.attention import AttentionLayer, KeysValues, Mask
from regard.layers.residual import Residual


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward net, each with a residual connection (Vaswani et al. 2017, section 3.1).

    Arguments:
        attention: self-attention.
        feedforward: maps (B, L, D) to (B, L, D), position by position.
        residual: makes one residual connection, with its norm where the model wants it.
    """

    def __init__(self, *, attention: AttentionLayer, feedforward: nn.Module, residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = residual()
        self.feedforward = feedforward
        self.feedforward_residual = residual()

    def forward(
        self,
        x: Tensor,
        mask: Mask | None,
        *,
        places: Tensor | None = None,
        record: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """One block.

        Arguments:
            x: (B, L, D).
            mask: over (B, H, L, L), True = may attend.
            places: (B, L), the place of each token in its text where that is not its column.
            record: as for `AttentionLayer`.

        Returns:
            (B, L, D).
        """

        def attend(y: Tensor) -> Tensor:
            source = self.attention.keys_values(y)
            return self.attention(y, source, mask=mask, query_positions=places, key_positions=places, record=record)

        x = self.attention_residual(x, attend)
        return self.feedforward_residual(x, self.feedforward)


class CausalBlock(nn.Module):
    """Self-attention over a text so far and a feed-forward net: a decoder's block without a source (Radford et al. 2018).

    Arguments:
        attention: self-attention.
        feedforward: maps (B, L, D) to (B, L, D), position by position.
        residual: makes one residual connection, with its norm where the model wants it.
    """

    def __init__(self, *, attention: AttentionLayer, feedforward: nn.Module, residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = residual()
        self.feedforward = feedforward
        self.feedforward_residual = residual()

    def forward(
        self,
        x: Tensor,
        mask: Mask | None,
        past: KeysValues | None = None,
        *,
        places: Tensor | None = None,
        query_places: Tensor | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """One block, over a whole text or over the tokens that follow a cached past.

        Arguments:
            x: (B, L, D).
            mask: over (B, H, L, past + L), True = may attend.
            past: keys and values of the tokens before.
            places: (B, past + L), the place of each key in its text where that is not its column.
            query_places: (B, L), that of each query likewise.

        Returns:
            (B, L, D); keys and values of past and present tokens.
        """
        present: KeysValues | None = None

        def attend(y: Tensor) -> Tensor:
            nonlocal present
            new = self.attention.keys_values(y)
            present = new if past is None else past.extended(new)
            return self.attention(y, present, mask=mask, query_positions=query_places, key_positions=places)

        x = self.attention_residual(x, attend)
        x = self.feedforward_residual(x, self.feedforward)
        if present is None:
            raise RuntimeError("a residual connection did not run its sub-layer")
        return x, present


class DecoderBlock(nn.Module):
    """Self-attention over the target so far, attention over the source, a feed-forward net (same section).

    Arguments:
        attention: self-attention.
        cross_attention: queries from the target, keys and values from the encoder's output.
        feedforward: maps (B, L, D) to (B, L, D), position by position.
        residual: makes one residual connection, with its norm where the model wants it.
    """

    def __init__(
        self,
        *,
        attention: AttentionLayer,
        cross_attention: AttentionLayer,
        feedforward: nn.Module,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = residual()
        self.cross_attention = cross_attention
        self.cross_residual = residual()
        self.feedforward = feedforward
        self.feedforward_residual = residual()

    def forward(
        self,
        x: Tensor,
        source: Tensor | KeysValues,
        *,
        mask: Mask | None,
        source_mask: Mask | None,
        past: KeysValues | None = None,
        places: Tensor | None = None,
        query_places: Tensor | None = None,
        target_places: Tensor | None = None,
        source_places: Tensor | None = None,
        record: Mapping[str, Tensor] | None = None,
    ) -> tuple[Tensor, KeysValues, Tensor]:
        """One block, over a whole target or over the tokens that follow a cached past.

        Arguments:
            x: (B, L, D). In decoding the L hypotheses about one source, each at its newest token, are so many queries.
            source: the encoder's output (B, S, D), or its keys and values projected beforehand.
            mask: over (B, H, L, past + L), True = may attend.
            source_mask: over (B, H, L, S), True = may attend.
            past: keys and values of the tokens before.
            places: (B, past + L), the place of each key in its sequence where that is not its column.
            query_places: (B, L), that of each query likewise.
            target_places: (B, L), the place of each query in the target, for attention over the source, of which it is no
                token; `query_places` where None.
            source_places: (B, S), the place of each source token where that is not its column.
            record: what self-attention needs besides, as for `AttentionLayer`.

        Returns:
            (B, L, D); keys and values of past and present tokens; the query (B, H, L, E) of the attention over the source.
        """
        present: KeysValues | None = None
        query: Tensor | None = None

        def attend_target(y: Tensor) -> Tensor:
            nonlocal present
            new = self.attention.keys_values(y)
            present = new if past is None else past.extended(new)
            return self.attention(
                y, present, mask=mask, query_positions=query_places, key_positions=places, record=record
            )

        def attend_source(y: Tensor) -> Tensor:
            nonlocal query
            memory = source if isinstance(source, KeysValues) else self.cross_attention.keys_values(source)
            inputs = self.cross_attention.inputs(
                y,
                memory.key,
                mask=source_mask,
                query_positions=query_places if target_places is None else target_places,
                key_positions=source_places,
            )
            query = inputs.query
            return self.cross_attention.attend(inputs, memory.value)

        x = self.attention_residual(x, attend_target)
        x = self.cross_residual(x, attend_source)
        x = self.feedforward_residual(x, self.feedforward)
        if present is None or query is None:
            raise RuntimeError("a residual connection did not run its sub-layer")
        return x, present, query


Block = EncoderBlock | CausalBlock | DecoderBlock
"""What a deep model repeats: a group of its own for whatever treats a model part by part, sharding or recomputing."""
