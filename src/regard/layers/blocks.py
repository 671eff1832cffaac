"""The Transformer's repeated blocks, and what stands in them beside attention.

First the parts: activations, dropout, feed-forward nets, residual connections. Then the blocks of an encoder, of a decoder
without a source (GPT's), and of a decoder that looks at one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.attention import AttentionLayer, KeysValues, Mask, Positions
from regard.attention.kernels import dropped

Activation = Literal["gelu", "gelu_tanh", "relu", "swish"]

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "swish": F.silu,
}
"""`gelu` is the exact one, `gelu_tanh` the approximation in the code of BERT's and GPT's authors."""


class Dropout(nn.Module):
    """Sets entries to zero with probability p in training and divides the others by 1 - p (Srivastava et al. 2014).

    On a processor with cheaper random numbers than PyTorch's, see `regard.attention.kernels.dropped`.

    Arguments:
        p: in [0, 1).

    >>> import torch
    >>> Dropout(0.5).eval()(torch.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise ValueError(f"p is {p}; it must lie in [0, 1)")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """The same shape and dtype."""
        if not self.training or self.p == 0.0:
            return x
        return dropped(x, self.p)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


class FeedForward(nn.Module):
    """Two linear maps with a non-linearity between, at every position alike (Vaswani et al. 2017, section 3.3).

        FFN(x) = W2 f(W1 x + b1) + b2,   f = max(0, .) in the paper

    Arguments:
        width: D, of the model; also the width of the output.
        inner_width: F, between the two maps (2048 in the base model).
        activation: f.
        dropout: probability of dropping an inner entry in training (0 in the paper).
        bias: whether there are b1 and b2; T5 has none.
    """

    def __init__(
        self,
        width: int,
        inner_width: int,
        *,
        activation: Callable[[Tensor], Tensor],
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.inner = nn.Linear(width, inner_width, bias=bias)
        self.outer = nn.Linear(inner_width, width, bias=bias)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        return self.outer(self.dropout(self.activation(self.inner(x))))


class ChunkedFeedForward(FeedForward):
    """The same, so many positions at a time (Kitaev et al. 2020, section 3).

        FFN(X) = [FFN(X_1); ...; FFN(X_c)]

    The F numbers of a position stand in memory for one chunk alone, in the backward pass too, which computes them again.

    Arguments:
        chunk: positions at a time; 0 = all.

    The others are `FeedForward`'s.
    """

    def __init__(
        self,
        width: int,
        inner_width: int,
        *,
        activation: Callable[[Tensor], Tensor],
        dropout: float = 0.0,
        bias: bool = True,
        chunk: int,
    ) -> None:
        super().__init__(width, inner_width, activation=activation, dropout=dropout, bias=bias)
        self.chunk = chunk

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        whole = super().forward
        if not self.chunk or x.shape[1] <= self.chunk:
            return whole(x)
        parts = x.split(self.chunk, dim=1)
        if not torch.is_grad_enabled():
            return torch.cat([whole(part) for part in parts], dim=1)
        return torch.cat([checkpoint(whole, part, use_reentrant=False) for part in parts], dim=1)


class GatedFeedForward(nn.Module):
    """Two linear maps inside, one of which says how much of the other passes (Shazeer 2020, equation 6; T5 1.1).

        FFN(x) = W2 (f(Wg x) * W1 x),   f = GELU in GEGLU

    Arguments:
        width: D, of the model; also the width of the output.
        inner_width: F; three matrices of it weigh as much as two of 1.5 F.
        activation: f.
        dropout: probability of dropping an inner entry in training.
    """

    def __init__(
        self, width: int, inner_width: int, *, activation: Callable[[Tensor], Tensor], dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner_width, bias=False)
        self.inner = nn.Linear(width, inner_width, bias=False)
        self.outer = nn.Linear(inner_width, width, bias=False)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        return self.outer(self.dropout(self.activation(self.gate(x)) * self.inner(x)))


NormPlacement = Literal["post", "pre"]


class Residual(nn.Module):
    """A sub-layer's output added to its input, with norms in two slots.

        output = after(x + dropout(sublayer(before(x))))

    Post-norm (Vaswani et al. 2017, section 3.1) fills `after`; pre-norm (tensor2tensor since 2018, GPT-2) fills `before`. They
    are different modules with differently named parameters: weights of one do not fit the other.

    Arguments:
        before, after: norms over the last axis, or `nn.Identity()`.
        dropout: probability of dropping an entry of the sub-layer's output in training.
    """

    def __init__(self, *, before: nn.Module, after: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.before = before
        self.after = after
        self.dropout = Dropout(dropout)

    @classmethod
    def with_norm(
        cls, placement: NormPlacement, width: int, *, dropout: float = 0.0, epsilon: float = 1e-5
    ) -> Residual:
        """A layer norm in the slot that `placement` names."""
        norm = nn.LayerNorm(width, eps=epsilon)
        if placement == "pre":
            return cls(before=norm, after=nn.Identity(), dropout=dropout)
        return cls(before=nn.Identity(), after=norm, dropout=dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        return self.after(x + self.dropout(sublayer(self.before(x))))


class NoSkip(Residual):
    """A sub-layer's output in the place of its input: what is left of a residual connection without its skip.

        output = after(dropout(sublayer(before(x))))

    It has the parameters of a `Residual`, under the same names, so one can stand where the other stood.
    """

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        return self.after(self.dropout(sublayer(self.before(x))))


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
        positions: Positions | None = None,
        record: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """One block.

        Arguments:
            x: (B, L, D).
            mask: over (B, H, L, L), True = may attend.
            positions: where each token stands in its text; None for 0, 1, 2 and so on.
            record: as for `AttentionLayer`.

        Returns:
            (B, L, D).
        """
        standing = Positions.of_text(x.shape[1], device=x.device) if positions is None else positions

        def attend(y: Tensor) -> Tensor:
            source = self.attention.keys_values(y, standing.keys)
            return self.attention(y, source, mask=mask, positions=standing, record=record)

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
        positions: Positions | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """One block, over a whole text or over the tokens that follow a cached past.

        Arguments:
            x: (B, L, D).
            mask: over (B, H, L, past + L), True = may attend.
            past: keys and values of the tokens before.
            positions: where the L tokens and the past + L keys stand in their texts; None for the last of 0, 1, 2 and so on.

        Returns:
            (B, L, D); keys and values of past and present tokens.
        """
        standing = _after(past, x) if positions is None else positions
        present: KeysValues | None = None

        def attend(y: Tensor) -> Tensor:
            nonlocal present
            new = self.attention.keys_values(y, standing.queries)
            present = new if past is None else past.extended(new)
            return self.attention(y, present, mask=mask, positions=standing)

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
        positions: Positions | None = None,
        source_positions: Positions | None = None,
        record: Mapping[str, Tensor] | None = None,
    ) -> tuple[Tensor, KeysValues, Tensor]:
        """One block, over a whole target or over the tokens that follow a cached past.

        Arguments:
            x: (B, L, D). In decoding the L hypotheses about one source, each at its newest token, are so many queries.
            source: the encoder's output (B, S, D), or its keys and values projected beforehand.
            mask: over (B, H, L, past + L), True = may attend.
            source_mask: over (B, H, L, S), True = may attend.
            past: keys and values of the tokens before.
            positions: where the L tokens and the past + L keys stand in the target; None for the last of 0, 1, 2 and so on.
            source_positions: where the L tokens stand in the target and the S keys in the source; None for where `positions` has
                the former, and for 0, 1, 2 and so on.
            record: what self-attention needs besides, as for `AttentionLayer`.

        Returns:
            (B, L, D); keys and values of past and present tokens; the query (B, H, L, E) of the attention over the source.
        """
        standing = _after(past, x) if positions is None else positions
        if source_positions is None:
            slots = source.key.shape[2] if isinstance(source, KeysValues) else source.shape[1]
            source_positions = Positions(x.shape[1], slots, of_queries=standing.queries, device=x.device)
        across = source_positions
        present: KeysValues | None = None
        query: Tensor | None = None

        def attend_target(y: Tensor) -> Tensor:
            nonlocal present
            new = self.attention.keys_values(y, standing.queries)
            present = new if past is None else past.extended(new)
            return self.attention(y, present, mask=mask, positions=standing, record=record)

        def attend_source(y: Tensor) -> Tensor:
            nonlocal query
            memory = source
            if not isinstance(memory, KeysValues):
                memory = self.cross_attention.keys_values(memory, across.keys)
            inputs = self.cross_attention.inputs(y, memory.key, mask=source_mask, positions=across)
            query = inputs.query
            return self.cross_attention.attend(inputs, memory.value)

        x = self.attention_residual(x, attend_target)
        x = self.cross_residual(x, attend_source)
        x = self.feedforward_residual(x, self.feedforward)
        if present is None or query is None:
            raise RuntimeError("a residual connection did not run its sub-layer")
        return x, present, query


def _after(past: KeysValues | None, x: Tensor) -> Positions:
    """The positions of tokens (B, L, D) that follow a past, all in order."""
    return Positions(x.shape[1], x.shape[1] + (0 if past is None else past.key.shape[2]), device=x.device)


Block = EncoderBlock | CausalBlock | DecoderBlock
"""What a deep model repeats: a group of its own for whatever treats a model part by part, sharding or recomputing."""
