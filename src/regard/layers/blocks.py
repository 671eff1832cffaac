"""The blocks of Transformers, and their parts besides attention.

The parts come first: activations, dropout, feed-forward networks, residual connections. Then come the blocks of an encoder, of a
decoder-only model, and of a decoder with cross-attention, and at the end low-rank adapters (LoRA) of linear layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.attention import AttentionLayer, KeysValues, Mask, Positions
from regard.attention.dropping import dropped
from regard.errors import InputError, nearest

Activation = Literal["gelu", "gelu_tanh", "relu", "swish"]

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "swish": F.silu,
}
"""`gelu` is the exact one, `gelu_tanh` the approximation in the code of the authors of BERT and GPT."""


class Dropout(nn.Module):
    """Sets entries to zero with probability p in training and divides the others by 1 - p (Srivastava et al. 2014).

    On a processor it uses faster random numbers than PyTorch, see `regard.attention.dropping.dropped`.

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
    """Two linear maps with a non-linearity, applied to each position (Vaswani et al. 2017, section 3.3).

        FFN(x) = W2 f(W1 x + b1) + b2,   f = max(0, .) in the paper

    Arguments:
        width: D, of the model; also the width of the output.
        inner_width: F, between the two maps (2048 in the base model).
        activation: f.
        dropout: probability of dropping a hidden unit in training (0 in the paper).
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
    """A feed-forward network computed in chunks of positions (Kitaev et al. 2020, section 3).

        FFN(X) = [FFN(X_1); ...; FFN(X_c)]

    Only the hidden units of one chunk are in memory, also in the backward pass, which computes them again.

    Arguments:
        chunk: the number of positions in a chunk; 0 = all.

    The other arguments are those of `FeedForward`.
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
    """A gated feed-forward network, such as GEGLU and SwiGLU (Shazeer 2020, equation 6; T5 1.1).

        FFN(x) = W2 (f(Wg x) * W1 x),   f = GELU in GEGLU

    Arguments:
        width: D, of the model; also the width of the output.
        inner_width: F; the three matrices have as many parameters as the two of an ungated network with 1.5 F.
        activation: f.
        dropout: probability of dropping a hidden unit in training.
        bias: whether the three maps have biases.
    """

    def __init__(
        self,
        width: int,
        inner_width: int,
        *,
        activation: Callable[[Tensor], Tensor],
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner_width, bias=bias)
        self.inner = nn.Linear(width, inner_width, bias=bias)
        self.outer = nn.Linear(inner_width, width, bias=bias)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        return self.outer(self.dropout(self.activation(self.gate(x)) * self.inner(x)))


NormPlacement = Literal["post", "pre"]


class Residual(nn.Module):
    """A residual connection around a sub-layer, with a norm before or after it.

        output = after(x + dropout(sublayer(before(x))))

    Post-norm (Vaswani et al. 2017, section 3.1) has a norm as `after`, pre-norm (tensor2tensor since 2018, GPT-2) as `before`.
    The parameters have different names, so weights of one do not fit the other.

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
        """A residual connection with a layer norm at `placement`."""
        norm = nn.LayerNorm(width, eps=epsilon)
        if placement == "pre":
            return cls(before=norm, after=nn.Identity(), dropout=dropout)
        return cls(before=nn.Identity(), after=norm, dropout=dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], *, reads: Tensor | None = None) -> Tensor:
        """(B, L, D) to (B, L, D).

        Arguments:
            x: the input, to which the sub-layer's output is added.
            sublayer: maps (B, L, D) to (B, L, D).
            reads: (B, L, D), the input of the sub-layer; None = x.
        """
        return self.after(x + self.dropout(sublayer(self.before(x if reads is None else reads))))


class NoSkip(Residual):
    """A `Residual` without the skip connection.

        output = after(dropout(sublayer(before(x))))

    It has the parameters of a `Residual` under the same names, so it can replace one.
    """

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], *, reads: Tensor | None = None) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        return self.after(self.dropout(sublayer(self.before(x if reads is None else reads))))


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward network, each with a residual connection (Vaswani et al. 2017, section 3.1).

    Arguments:
        attention: self-attention.
        feedforward: maps (B, L, D) to (B, L, D), position by position.
        residual: a function that creates a residual connection with its norm.
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
            positions: the position of each token in its text; None = 0, 1, 2, ...
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
    """Causal self-attention and a feed-forward network: the block of a decoder-only model (Radford et al. 2018).

        y = x + attention(x);   output = y + ffn(y)         or, in parallel,   output = y + ffn(x)

    Arguments:
        attention: self-attention.
        feedforward: maps (B, L, D) to (B, L, D), position by position.
        residual: a function that creates a residual connection with its norm.
        parallel: whether the feed-forward network has the same input as attention, each with its own norm, instead of the sum
            after attention (Wang, Komatsuzaki 2021, GPT-J; Black et al. 2022, section 2.1).
    """

    def __init__(
        self,
        *,
        attention: AttentionLayer,
        feedforward: nn.Module,
        residual: Callable[[], Residual],
        parallel: bool = False,
    ) -> None:
        super().__init__()
        self.parallel = parallel
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
        """One block, over a whole text or over tokens after a cached past.

        Arguments:
            x: (B, L, D).
            mask: over (B, H, L, past + L), True = may attend.
            past: keys and values of the past tokens.
            positions: the positions of the L tokens and of the past + L keys in their texts; None = 0, 1, 2, ... for the keys,
                and the last L of them for the tokens.

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

        y = self.attention_residual(x, attend)
        read = {"reads": x} if self.parallel else {}
        y = self.feedforward_residual(y, self.feedforward, **read)
        if present is None:
            raise RuntimeError("a residual connection did not run its sub-layer")
        return y, present


class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention and a feed-forward network (Vaswani et al. 2017, section 3.1).

    Arguments:
        attention: self-attention.
        cross_attention: queries from the target, keys and values from the encoder's output.
        feedforward: maps (B, L, D) to (B, L, D), position by position.
        residual: a function that creates a residual connection with its norm.
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
        """One block, over a whole target or over tokens after a cached past.

        Arguments:
            x: (B, L, D). In decoding L is the number of hypotheses of a source, each with its newest token.
            source: the encoder's output (B, S, D), or its projected keys and values.
            mask: over (B, H, L, past + L), True = may attend.
            source_mask: over (B, H, L, S), True = may attend.
            past: keys and values of the past tokens.
            positions: the positions of the L tokens and of the past + L keys in the target; None = 0, 1, 2, ... for the keys, and
                the last L of them for the tokens.
            source_positions: the positions of the L tokens in the target and of the S keys in the source; None = those in
                `positions`, and 0, 1, 2, ...
            record: further tensors for self-attention, as for `AttentionLayer`.

        Returns:
            (B, L, D); keys and values of past and present tokens; the query (B, H, L, E) of the cross-attention.
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
    """The positions of tokens (B, L, D) after a past, all in order."""
    return Positions(x.shape[1], x.shape[1] + (0 if past is None else past.key.shape[2]), device=x.device)


Block = EncoderBlock | CausalBlock | DecoderBlock
"""The repeated blocks of a deep model: the units for sharding and for gradient checkpointing."""


class LowRankLinear(nn.Linear):
    """A frozen linear map plus a low-rank product (LoRA, Hu et al. 2021, section 4.1).

        y = W x + b + (alpha / r) B A D(x),   A (r, I), B (O, r), D is dropout

    A is initialised as PyTorch initialises a linear layer, and B is zero, so at the start y does not change. W (O, I) gets no
    gradient, and an optimiser stores moments for r (I + O) numbers instead of I O.

    Arguments:
        base: the map to adapt; its weight and bias are used under their names, and frozen.
        rank: r.
        alpha: the scale of the adapter; with a fixed alpha the learning rate need not change with the rank.
        dropout: probability of dropping an entry of the adapter's input in training.

    >>> base = nn.Linear(6, 4)
    >>> adapted = LowRankLinear(base, rank=2, alpha=4)
    >>> x = torch.randn(3, 6)
    >>> torch.equal(adapted(x), base(x)), [name for name, p in adapted.named_parameters() if p.requires_grad]
    (True, ['down', 'up'])
    """

    def __init__(self, base: nn.Linear, *, rank: int, alpha: float, dropout: float = 0.0) -> None:
        super().__init__(base.in_features, base.out_features, bias=base.bias is not None, device="meta")
        self.weight = base.weight.requires_grad_(False)
        if base.bias is not None:
            self.bias = base.bias.requires_grad_(False)
        like = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.down = nn.Parameter(torch.empty(rank, base.in_features, **like))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank, **like))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        self.rank = rank
        self.scale = alpha / rank
        self.dropout = Dropout(dropout)

    def forward(self, input: Tensor) -> Tensor:
        """(..., I) to (..., O)."""
        low_rank = F.linear(F.linear(self.dropout(input), self.down), self.up)
        return F.linear(input, self.weight, self.bias) + self.scale * low_rank

    def merged(self) -> nn.Linear:
        """One linear map that is equivalent in evaluation, up to rounding: W + (alpha / r) B A."""
        one = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None, device="meta")
        one.weight = nn.Parameter(merged_weight(self.weight.detach(), self.down, self.up, self.scale))
        if self.bias is not None:
            one.bias = nn.Parameter(self.bias.detach().clone())
        return one

    def extra_repr(self) -> str:
        """Sizes and rank."""
        return f"{super().extra_repr()}, rank={self.rank}, scale={self.scale:g}"


def merged_weight(weight: Tensor, down: Tensor, up: Tensor, scale: float) -> Tensor:
    """W + scale B A, computed in at least float32 and returned in the dtype of W.

    Arguments:
        weight: (O, I).
        down: A, (r, I).
        up: B, (O, r).
        scale: alpha / r.
    """
    wide = torch.promote_types(weight.dtype, torch.float32)
    return (weight.to(wide) + scale * (up.detach().to(wide) @ down.detach().to(wide))).to(weight.dtype)


def adapt(model: nn.Module, on: Sequence[str], *, rank: int, alpha: float, dropout: float = 0.0) -> list[str]:
    """Add adapters to linear maps of a model, in place, and freeze all its other parameters.

    Maps in attention layers and feed-forward networks can have one; those in recurrent cells cannot.

    Arguments:
        model: the model, which is changed.
        on: names of maps, such as `query` or `layers.0.attention.query`: the ends of their full names, in which `*` matches text
            without a dot.
        rank, alpha, dropout: as in `LowRankLinear`.

    Returns:
        The full names of the maps with an adapter.

    Raises:
        InputError: if a name matches no map; the message lists the maps.

    >>> from regard.models import GPT2, GPT2Config
    >>> model = GPT2(GPT2Config(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=2))
    >>> adapt(model, ["query", "layers.1.feedforward.*"], rank=2, alpha=4)[:2]
    ['layers.0.attention.query', 'layers.1.attention.query']
    """
    maps = adaptable(model)
    chosen: dict[str, nn.Linear] = {}
    for pattern in on:
        fitting = {name: each for name, each in maps.items() if _ends_with(name, pattern)}
        if not fitting:
            ends = sorted({name.rpartition(".")[2] for name in maps})
            there = nearest(pattern, ends) if ends else "this model has no linear map that can be adapted"
            raise InputError(f"adapters.on: no linear map is called {pattern!r}; {there}")
        chosen |= fitting
    model.requires_grad_(False)
    for name, base in chosen.items():
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, LowRankLinear(base, rank=rank, alpha=alpha, dropout=dropout))
    return list(chosen)


def adaptable(model: nn.Module) -> dict[str, nn.Linear]:
    """The linear maps that can have an adapter, by their full names."""
    return {
        f"{place}.{name}": child
        for place, module in model.named_modules()
        if isinstance(module, AttentionLayer | FeedForward | GatedFeedForward)
        for name, child in module.named_children()
        if type(child) is nn.Linear
    }


def _ends_with(name: str, pattern: str) -> bool:
    count = pattern.count(".") + 1
    parts = name.split(".")[-count:]
    return len(parts) == count and fnmatchcase(".".join(parts), pattern)
