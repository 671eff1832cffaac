"""Encoders: their interface, the stack of the BERT family, its heads, and the choice of layers.

`LayerChoice` and `ScalarMix` combine the vectors of several layers, by a fixed choice or by a learned mixture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from regard.attention import Mask, Near, Padding, Positions, Window, positions_of
from regard.attention.positions import check_length
from regard.errors import InputError
from regard.layers.blocks import Dropout, EncoderBlock
from regard.layers.tokens import Tokens

Combination = Literal["sum", "concatenate", "stack"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerChoice:
    """A choice of layers, and how their vectors are combined (Devlin et al. 2019, section 5.3 and table 7).

    Arguments:
        layers: 0 is the embedding, 1 the first block; from the end -1 is the last block, -2 the one before.
        combine: `sum`, weighted if there are weights; `concatenate`, in the given order; `stack`, on a further axis.
        weights: one for each layer, for a sum.

    Raises:
        InputError: if there is no layer, or weights do not fit.

    >>> LayerChoice(layers=(-2, -1)).combined([torch.ones(1, 2, 3), 2 * torch.ones(1, 2, 3)]).tolist()
    [[[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]]
    """

    layers: tuple[int, ...]
    combine: Combination = "sum"
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError("no layer is chosen; give at least one, such as -1, the last")
        if self.weights is None:
            return
        if self.combine != "sum":
            raise InputError(f"weights are for a sum of layers, not to {self.combine} them; leave them out")
        if len(self.weights) != len(self.layers):
            raise InputError(f"{len(self.weights)} weights are given for {len(self.layers)} layers; give one for each")

    def numbers(self, depth: int) -> tuple[int, ...]:
        """The numbers of the layers, counted from 0 (the embedding), for a model with this many blocks.

        Raises:
            InputError: for a layer that the model does not have.
        """
        for layer in self.layers:
            if not -depth - 1 <= layer <= depth:
                raise InputError(
                    f"layer {layer} does not exist in a model with {depth} layers; choose from 0, its embedding, to {depth}, or "
                    f"from -1, its last, to {-depth - 1}"
                )
        return tuple(layer if layer >= 0 else depth + 1 + layer for layer in self.layers)

    def combined(self, states: Sequence[Tensor]) -> Tensor:
        """The vectors (B, L, D) of the chosen layers to (B, L, D'), or with `stack` to (B, L, layers, D); float32."""
        exact = [state if state.dtype == torch.float64 else state.float() for state in states]
        if self.combine == "concatenate":
            return torch.cat(exact, dim=-1)
        if self.combine == "stack":
            return torch.stack(exact, dim=-2)
        if self.weights is not None:
            exact = [state * weight for state, weight in zip(exact, self.weights, strict=True)]
        return exact[0] if len(exact) == 1 else torch.stack(exact).sum(dim=0)


class ScalarMix(nn.Module):
    """A weighted mean of layers, scaled (Peters et al. 2018, section 3.2, equation 1).

        mix = gamma sum_k s_k h_k,   s = softmax(w)

    Before training all layers have the same weight, and gamma is 1.

    Arguments:
        layers: the number of layers, with the embedding.
        normalise: whether the vectors of each layer are first normalised to mean 0 and variance 1 over all tokens (same section).

    >>> mix = ScalarMix(2)
    >>> mix([torch.zeros(1, 2, 3), torch.ones(1, 2, 3)]).unique().tolist()
    [0.5]
    """

    def __init__(self, layers: int, *, normalise: bool = False) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))
        self.normalise = normalise

    def forward(self, states: Sequence[Tensor], valid: Tensor | None = None) -> Tensor:
        """Vectors (B, L, D) of each layer to (B, L, D).

        Arguments:
            states: one for each layer.
            valid: (B, L) bool, True = a real token; mean and variance are over real tokens; None = all.
        """
        shares = self.weights.softmax(dim=0)
        if self.normalise:
            states = [_standardised(state, valid) for state in states]
        return self.gamma * sum(share * state for share, state in zip(shares, states, strict=True))

    def penalty(self) -> Tensor:
        """|w|^2, to add to the loss times a lambda of 0.001 to 1; it moves the mixture towards the mean of all layers."""
        return self.weights.square().sum()

    def choice(self) -> LayerChoice:
        """The learned mixture as a choice of layers with weights.

        Raises:
            ValueError: if layers are normalised, which a choice of layers cannot do.
        """
        if self.normalise:
            raise ValueError("a mix that normalises layers is not a weighted sum of them; call the mix itself")
        weights = (self.gamma * self.weights.softmax(dim=0)).tolist()
        return LayerChoice(layers=tuple(range(len(weights))), weights=tuple(weights))

    def extra_repr(self) -> str:
        """The number of layers."""
        return f"layers={len(self.weights)}" + (", normalise=True" if self.normalise else "")


def _standardised(state: Tensor, valid: Tensor | None) -> Tensor:
    counted = state if valid is None else state[valid]
    return (state - counted.mean()) / (counted.var(correction=0) + 1e-12).sqrt()


class Encoded(NamedTuple):
    """The output of an encoder for a batch of texts.

    Arguments:
        hidden: (B, L, D), the last layer's vector of each token; without meaning at padding.
        pooled: (B, D), the vector of the text; None without a pooler. Several readings of an example have one.
        logits, next_sentence: as in `HeadLogits`.
        next_token: (M, V), logits of the token after each requested position, from a decoder; None from other models.
    """

    hidden: Tensor
    pooled: Tensor | None = None
    logits: Tensor | None = None
    next_sentence: Tensor | None = None
    next_token: Tensor | None = None


class EncoderConfig(Protocol):
    """The settings of an encoder that tasks need."""

    @property
    def vocabulary(self) -> int:
        """V, the number of tokens."""
        ...

    @property
    def width(self) -> int:
        """D, the width of the vectors."""
        ...

    @property
    def layers(self) -> int:
        """The number of blocks."""
        ...

    @property
    def segments(self) -> int:
        """The number of segment embeddings; 0 = none."""
        ...

    @property
    def maximum_positions(self) -> int:
        """The longest text, in tokens."""
        ...

    @property
    def padding_id(self) -> int:
        """The id that fills padding."""
        ...

    @property
    def head(self) -> HeadKind:
        """The head, see `Head`."""
        ...

    @property
    def outputs(self) -> int:
        """The number of outputs of the head."""
        ...


def added(pooled: Tensor, readings: int) -> Tensor:
    """The sums over consecutive rows: (B x readings, D) to (B, D)."""
    return pooled if readings == 1 else pooled.unflatten(0, (-1, readings)).sum(dim=1)


class TextEmbedding(nn.Module):
    """Token, position and segment vectors, summed and normalised (Devlin et al. 2019, figure 2).

        x = Dropout(LayerNorm(E[token] + P[position] + S[segment]))

    Arguments:
        tokens: E.
        positions: P, learned.
        segments: S; None = no segment embeddings.
        epsilon: added to the variance in the layer norm.
        dropout: probability of dropping an entry in training.
        projection: from the embedding width to the width of the blocks, after dropout (ELECTRA); None if they are equal.
        norm_bias: whether the layer norm has a bias.
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: nn.Module,
        segments: nn.Embedding | None,
        *,
        epsilon: float,
        dropout: float,
        projection: nn.Linear | None = None,
        norm_bias: bool = True,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.segments = segments
        self.norm = nn.LayerNorm(tokens.embedding_dim, eps=epsilon, bias=norm_bias)
        self.dropout = Dropout(dropout)
        self.projection = projection

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        """(B, L) ids, positions and segments (None = all 0) to (B, L, D)."""
        x = self.tokens(ids) + self.positions(positions)
        if self.segments is not None:
            given = segments is not None and self.segments.num_embeddings > 1
            x = x + self.segments(segments if given else torch.zeros_like(ids))
        x = self.dropout(self.norm(x))
        return x if self.projection is None else self.projection(x)


class OneSegment(nn.Embedding):
    """A segment embedding that uses the first row for every token, as in RoBERTa."""

    def forward(self, input: Tensor) -> Tensor:
        """(B, L) of any integers to (B, L, D)."""
        return super().forward(torch.zeros_like(input))


class TextEncoder(nn.Module):
    """Embedding, bidirectional blocks, and a head: BERT, and models that differ from it in some parts.

    Arguments:
        config: its sizes.
        embedding: tokens to vectors.
        layers: the blocks.
        pooler: computes the vector of a text; None = no pooler.
        head: such as `layers.encoder.MaskedHead`.
        norm: after the last pre-norm block; None = no norm.
        windows: for each block the number of tokens on either side that a token sees; None = all. Empty = all for every block.
    """

    length_setting: str = "model.maximum_positions"
    tells_next: bool = False

    def __init__(
        self,
        config: EncoderConfig,
        *,
        embedding: TextEmbedding,
        layers: Sequence[EncoderBlock],
        pooler: nn.Module | None,
        head: nn.Module,
        norm: nn.Module | None = None,
        windows: Sequence[int | None] = (),
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.pooler = pooler
        self.head = head
        self.windows = tuple(windows) or (None,) * len(layers)

    @property
    def maximum_length(self) -> int:
        """The longest text in tokens, with special tokens."""
        return self.config.maximum_positions

    def forward(
        self, tokens: Tokens, segments: Tensor | None = None, *, at: Tensor | None = None, readings: int = 1
    ) -> Encoded:
        """Vectors and logits of a batch of texts.

        Arguments:
            tokens: (B, L), special tokens included.
            segments: (B, L) int64, the text of each token, from 0; None = all 0.
            at: (M,) int64, for heads over the vocabulary: the positions, as indices into B x L, at which to compute logits;
                None = all.
            readings: the number of consecutive rows that are the same example; their pooled vectors are added.

        Raises:
            InputError: if a text is longer than the model's positions.
        """
        x, masks, positions = self._embedded(tokens, segments)
        for layer, mask in zip(self.layers, masks, strict=True):
            x = layer(x, mask, positions=positions)
        if self.norm is not None:
            x = self.norm(x)
        pooled = None if self.pooler is None else added(self.pooler(x, tokens.valid), readings)
        found: HeadLogits = self.head(x, pooled, at)
        return Encoded(x, pooled, found.logits, found.next_sentence)

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        """The vectors after the embedding and after each layer: layers + 1 tensors (B, L, D).

        A norm after the last block is part of the last layer.

        Raises:
            InputError: if a text is longer than the model's positions.
        """
        x, masks, positions = self._embedded(tokens, segments)
        states = [x]
        for layer, mask in zip(self.layers, masks, strict=True):
            states.append(layer(states[-1], mask, positions=positions))
        if self.norm is not None:
            states[-1] = self.norm(states[-1])
        return tuple(states)

    def _embedded(self, tokens: Tokens, segments: Tensor | None) -> tuple[Tensor, list[Mask | None], Positions]:
        batch, length = tokens.ids.shape
        check_length(length, self.config.maximum_positions, "text")
        places = positions_of(tokens.valid)
        x = self.embedding(tokens.ids, places, segments)
        padding = Padding(tokens.valid)
        mask: Mask = padding.materialize(batch=batch, queries=length, keys=length, device=x.device)
        masks: dict[int | None, Mask | None] = {None: mask}
        for window in dict.fromkeys(self.windows):
            # An exported model must support all lengths.
            if window is None or (window >= length - 1 and not torch.compiler.is_exporting()):
                masks[window] = mask
                continue
            # With padding between two tokens, distances in columns and in positions differ.
            somewhere = tokens.padding_side == "somewhere"
            near = padding & (Near(places, window) if somewhere else Window(before=window, after=window))
            masks[window] = near.materialize(batch=batch, queries=length, keys=length, device=x.device)
        # With padding only on the right, positions are the columns, which makes some mechanisms faster.
        return (
            x,
            [masks[window] for window in self.windows],
            Positions.of_text(length, places if tokens.padding_side == "somewhere" else None, device=x.device),
        )


class SequenceClassifier(Protocol):
    """A model that predicts a class, or a number, of one or two texts: an encoder, or a decoder with a head.

    The head reads the vector of the first token in an encoder (`[CLS]`), and of the last token in a decoder, the only one that
    has seen the whole text.
    """

    @property
    def config(self) -> EncoderConfig:
        """The sizes and the head."""
        ...

    @property
    def maximum_length(self) -> int:
        """The longest input in tokens, with special tokens."""
        ...

    @property
    def length_setting(self) -> str:
        """The recipe setting that raises this limit, for messages."""
        ...

    @property
    def tells_next(self) -> bool:
        """Whether it can also predict next tokens, which an auxiliary loss needs."""
        ...

    def __call__(
        self, tokens: Tokens, segments: Tensor | None = None, *, at: Tensor | None = None, readings: int = 1
    ) -> Encoded:
        """Vectors and logits of a batch of texts.

        Arguments:
            tokens: (B x readings, L), special tokens included.
            segments: (B x readings, L) int64, the text of each token, for models with segment embeddings.
            at: (M,) int64, positions, as indices into rows x L, at which to compute logits over the vocabulary too.
            readings: the number of consecutive rows that are one example; the head reads the sum of their vectors.
        """
        ...


HeadKind = Literal[
    "none", "masked", "next_sentence", "pretraining", "replaced", "sequence", "tokens", "spans", "choice"
]
"""The prediction of a head:

`none`            nothing: the model outputs vectors.
`masked`          the token at each masked position.
`next_sentence`   whether the second text followed the first.
`pretraining`     both `masked` and `next_sentence`.
`replaced`        whether each token is a replacement (ELECTRA only).
`sequence`        a class, or a number, of the whole text.
`tokens`          a class of every token.
`spans`           start and end of an answer.
`choice`          a score of the text, to compare with those of other texts.
"""

POOLED: frozenset[str] = frozenset({"next_sentence", "pretraining", "sequence", "choice"})
"""The heads that read the pooled vector of a text."""

FIXED_OUTPUTS = {"none": 0, "masked": 0, "next_sentence": 2, "pretraining": 2, "replaced": 1, "spans": 2, "choice": 1}
"""The number of outputs of a head, if it does not depend on the task; `masked` has one for each token of the vocabulary."""


class HeadLogits(NamedTuple):
    """The output of a head for a batch.

    Arguments:
        logits: from `masked` and `pretraining` (M, V) at M requested positions, or (B, L, V); from `sequence`, `next_sentence`
            and `choice` (B, outputs); from `tokens` and `spans` (B, L, outputs); None from `none`.
        next_sentence: (B, 2) from `pretraining`: the second text followed, or did not.
    """

    logits: Tensor | None = None
    next_sentence: Tensor | None = None


class NoHead(nn.Module):
    """No logits: the model outputs vectors."""

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Nothing."""
        del hidden, pooled, at
        return HeadLogits()


class MaskedHead(nn.Module):
    """Logits of the token at each position (Devlin et al. 2019, section 3.1, task 1).

        t = LayerNorm(f(W h + b)),   logits = t E^T + c,   E the embedding table itself, c a number for each token

    Arguments:
        table: E.
        activation: f.
        epsilon: added to the variance in the layer norm.
        inner: D of h, if it is not the width of the table (ELECTRA).
        bias, norm_bias, output_bias: whether there are b, the bias of the layer norm, and c.
        tied: whether the output layer shares E, or has its own table of the same shape.
    """

    def __init__(
        self,
        table: nn.Embedding,
        *,
        activation: Callable[[Tensor], Tensor],
        epsilon: float,
        inner: int | None = None,
        bias: bool = True,
        norm_bias: bool = True,
        output_bias: bool = True,
        tied: bool = True,
    ) -> None:
        super().__init__()
        width = table.embedding_dim
        self.transform = nn.Linear(width if inner is None else inner, width, bias=bias)
        self.activation = activation
        self.norm = nn.LayerNorm(width, eps=epsilon, bias=norm_bias)
        self.output = nn.Linear(width, table.num_embeddings, bias=output_bias)
        if tied:
            self.output.weight = table.weight

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Hidden (B, L, D) to (M, V) at the positions `at`, (M,) indices into B x L, or to (B, L, V) without `at`."""
        del pooled
        if at is not None:
            hidden = hidden.flatten(0, 1).index_select(0, at)
        return HeadLogits(self.output(self.norm(self.activation(self.transform(hidden)))))


class PooledHead(nn.Module):
    """Logits of the whole text: a linear map of the pooled vector.

    Arguments:
        width: D.
        outputs: the number of outputs.
        dropout: probability of dropping an entry of the pooled vector in training.
        bias: whether the map has a bias.
    """

    def __init__(self, width: int, outputs: int, *, dropout: float, bias: bool = True) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, outputs, bias=bias)

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Pooled (B, D) to (B, outputs)."""
        del hidden, at
        if pooled is None:
            raise RuntimeError("this head reads the pooled vector and the model has none")
        return HeadLogits(self.output(self.dropout(pooled)))


class TokenHead(nn.Module):
    """Logits of every token: a linear map of its vector.

    Arguments:
        width: D.
        outputs: the number of outputs for each token.
        dropout: probability of dropping an entry of the vectors in training.
    """

    def __init__(self, width: int, outputs: int, *, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, outputs)

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Hidden (B, L, D) to (B, L, outputs)."""
        del pooled, at
        return HeadLogits(self.output(self.dropout(hidden)))


class ReplacedHead(nn.Module):
    """Whether each token is a replacement (Clark et al. 2020, section 2): the logit is above 0 if it is.

        logit = w f(W h + b) + c

    Arguments:
        width: D.
        activation: f.
    """

    def __init__(self, width: int, *, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.activation = activation
        self.output = nn.Linear(width, 1)

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Hidden (B, L, D) to (B, L, 1)."""
        del pooled, at
        return HeadLogits(self.output(self.activation(self.transform(hidden))))


class PretrainingHead(nn.Module):
    """Both pre-training tasks of BERT: the masked tokens, and whether the second text followed the first.

    Arguments:
        masked: the head of the first task.
        next_sentence: the head of the second, of two outputs.
    """

    def __init__(self, masked: MaskedHead, next_sentence: PooledHead) -> None:
        super().__init__()
        self.masked = masked
        self.next_sentence = next_sentence

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Hidden (B, L, D) and pooled (B, D) to the logits of both."""
        return HeadLogits(
            self.masked(hidden, None, at).logits,
            self.next_sentence(hidden, pooled, None).logits,
        )


class Pooler(nn.Module):
    """The vector of a text, from that of its first token (in the code of Devlin et al. 2019; not in the paper).

        pooled = f(W h_0 + b),   f = tanh in BERT

    Arguments:
        width: D.
        activation: f.
        dropout: probability of dropping an entry of h_0 in training.
    """

    def __init__(
        self, width: int, *, activation: Callable[[Tensor], Tensor] = torch.tanh, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.map = nn.Linear(width, width)
        self.activation = activation

    def forward(self, hidden: Tensor, valid: Tensor) -> Tensor:
        """Hidden (B, L, D) and valid (B, L) to (B, D), from the first real token, with padding on either side."""
        first = valid.long().argmax(dim=1)
        rows = torch.arange(hidden.shape[0], device=hidden.device)  # len() would fix B where the model is exported
        chosen = self.dropout(hidden[rows, first])
        return self.activation(self.map(chosen))


def build_head(
    kind: HeadKind,
    table: nn.Embedding,
    *,
    outputs: int,
    activation: Callable[[Tensor], Tensor],
    dropout: float,
    epsilon: float,
) -> nn.Module:
    """The head of a kind.

    Arguments:
        table: the embedding table, which the output over the vocabulary shares.
        outputs: the number of outputs of `sequence` and `tokens`.
        activation: of the heads `masked` and `replaced`.
        dropout: before the linear map.
        epsilon: of the masked head's layer norm.
    """
    width = table.embedding_dim
    if kind == "none":
        return NoHead()
    if kind in ("masked", "pretraining"):
        masked = MaskedHead(table, activation=activation, epsilon=epsilon)
        return masked if kind == "masked" else PretrainingHead(masked, PooledHead(width, 2, dropout=0.0))
    if kind == "replaced":
        return ReplacedHead(width, activation=activation)
    if kind in ("tokens", "spans"):
        return TokenHead(width, outputs, dropout=dropout)
    return PooledHead(width, outputs, dropout=dropout)
