"""Reformer: the efficient Transformer (Kitaev, Kaiser, Levskaya 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.attention import (
    Attention,
    AttentionLayer,
    AxialPositions,
    Causal,
    ChunkedAttention,
    KeysValues,
    KVCache,
    LearnedPositions,
    LSHAttention,
    Mask,
    Padding,
    SharedAttention,
)
from regard.attention.lsh import Sets, usual_buckets
from regard.layers import (
    ACTIVATIONS,
    TARGET,
    Activation,
    CausalStack,
    CausalState,
    ChunkedFeedForward,
    Dropout,
    LeftToRight,
    PositionedEmbedding,
    Reduction,
    ReversibleBlock,
    Seen,
    Tokens,
    through_reversibly,
)
from regard.layers.causal import Entered
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types
from regard.structure import renamed

Kind = Literal["local", "lsh"]


@renamed(deviation="init_std")
@dataclass(frozen=True, kw_only=True, slots=True)
class ReformerConfig:
    """The sizes of a causal Reformer. The defaults are those of Hugging Face's code.

    Arguments:
        vocabulary: V, number of tokens.
        width: D, of either stream.
        heads: H.
        head_width: E, of a head's queries, keys and values; H E can differ from D.
        feedforward_width: F, inside the feed-forward networks.
        layers: the attention of each block, from the bottom up: `lsh`, to the keys with the same hash, or `local`, to the query's
            chunk and the chunks before it.
        maximum_positions: the longest text, in tokens.
        axial_shape: two numbers whose product is `maximum_positions`: a position's vector is that of its row and that of its
            column, concatenated; empty = a vector for each position.
        axial_widths: the widths of these two vectors, whose sum is D.
        chunk: m, tokens in a chunk of the sorted order; a text of at most m tokens has full attention.
        chunks_before: the number of chunks before the query's chunk that it attends to.
        rounds: N, the number of hash rounds; it can be raised after training.
        buckets: b, an even number, or factors of it; empty = 2 `maximum_positions` / m.
        sets: the keys of a query: `bucket`, those of its bucket in these chunks, each once, as in the paper's equations; or
            `chunk`, all keys in these chunks, as in the released code and in that of Hugging Face.
        local_chunk, local_chunks_before: as `chunk` and `chunks_before`, for the local layers, which do not sort.
        hash_seed: of the hashes in evaluation; in training they are sampled for every call.
        feedforward_chunk: the number of positions that a feed-forward network computes at a time; 0 = all.
        activation: of the feed-forward networks.
        output_bias: whether the logits have a bias for each token; `transformers` 5 reads it but does not use it.
        dropout: probability of dropping an entry of embeddings and of each sub-layer's output in training.
        attention_dropout, local_attention_dropout: of attention weights.
        norm_epsilon: added to the variance in layer norms.
        init_std: standard deviation of the normal distribution that matrices are sampled from.
        padding_id: the token that fills padding.
        end_id: the token that ends a text; it is also before the first token of a text.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "reformer"

    vocabulary: int
    width: int = 256
    heads: int = 12
    head_width: int = 64
    feedforward_width: int = 512
    layers: tuple[Kind, ...] = ("local", "lsh", "local", "lsh", "local", "lsh")
    maximum_positions: int = 4096
    axial_shape: tuple[int, ...] = ()
    axial_widths: tuple[int, ...] = ()
    chunk: int = 64
    chunks_before: int = 1
    rounds: int = 1
    buckets: tuple[int, ...] = ()
    sets: Sets = "chunk"
    local_chunk: int = 64
    local_chunks_before: int = 1
    hash_seed: int = 0
    feedforward_chunk: int = 0
    activation: Activation = "relu"
    output_bias: bool = False
    dropout: float = 0.05
    attention_dropout: float = 0.0
    local_attention_dropout: float = 0.05
    norm_epsilon: float = 1e-12
    init_std: float = 0.02
    padding_id: int = 0
    end_id: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "vocabulary", "width", "heads", "head_width", "feedforward_width", "maximum_positions")
        check_sizes(self, "chunk", "rounds", "local_chunk")
        check(len(self.layers) > 0, "layers", self.layers, "at least one of lsh and local", "such as [local, lsh]")
        for name in ("chunks_before", "local_chunks_before", "feedforward_chunk"):
            check(getattr(self, name) >= 0, name, getattr(self, name), "0 or more", "1 chunk before is usual")
        even = all(count > 0 and count % 2 == 0 for count in self.buckets)
        check(even, "buckets", self.buckets, "even numbers", "such as [64]")
        if self.axial_shape or self.axial_widths:
            self._check_axial()
        check_shares(self, "dropout", "attention_dropout", "local_attention_dropout", usual="0.05 is usual")
        for name in ("norm_epsilon", "init_std"):
            check(getattr(self, name) > 0, name, getattr(self, name), "above 0", "leave it out for the usual one")
        check_tokens(self, "padding_id", "end_id")

    def _check_axial(self) -> None:
        shape, widths, positions = self.axial_shape, self.axial_widths, self.maximum_positions
        fits = len(shape) == 2 and math.prod(shape) == positions
        wanted = f"two numbers whose product is maximum_positions, {positions}"
        check(fits, "axial_shape", shape, wanted, "such as [64, 64] for 4096")
        fits = len(widths) == 2 and min(widths) > 0 and sum(widths) == self.width
        wanted = f"two numbers whose sum is width, {self.width}"
        check(fits, "axial_widths", widths, wanted, "such as a quarter and the rest")


@dataclass(frozen=True, kw_only=True, eq=False)
class ReformerState(CausalState):
    """The past tokens, copied for each hypothesis, because the tokens of one text are sorted and cut by their columns."""

    cache: KVCache = field(default_factory=KVCache, metadata=TARGET)


class Reformer(CausalStack, LeftToRight[CausalState]):
    """Reformer as a language model: LSH attention, chunked feed-forward networks, reversible blocks.

        X1 = X2 = E[token] + P[position]
        Y1 = X1 + attention(norm(X2));   Y2 = X2 + mlp(norm(Y1))           n times, attention causal, LSH or local
        logits = W norm([Y1 ; Y2])                                         both streams, concatenated

    In training no activations are stored: the backward pass computes them again (`through_reversibly`).

    Arguments:
        config: its sizes.

    >>> config = ReformerConfig(vocabulary=9, width=8, heads=2, head_width=4, feedforward_width=16, layers=("lsh",), chunk=4)
    >>> Reformer(config)(Tokens.pad([[0, 4, 5, 3, 8, 1], [0, 7]])).shape
    torch.Size([2, 6, 9])
    """

    config: ReformerConfig
    reads_in_parts: bool = False
    """Whether reading a text in parts gives the same result as reading it at once; not if a longer text has other chunks."""

    def __init__(self, config: ReformerConfig) -> None:
        positions: nn.Module = LearnedPositions(config.width, config.maximum_positions)
        if config.axial_shape:
            positions = AxialPositions(config.axial_shape, config.axial_widths)
        super().__init__(
            config,
            embedding=PositionedEmbedding(
                nn.Embedding(config.vocabulary, config.width), positions, dropout=config.dropout, scale=1.0
            ),
            layers=[_block(config, kind) for kind in config.layers],
            norm=nn.LayerNorm(2 * config.width, eps=config.norm_epsilon),
        )
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(2 * config.width, config.vocabulary, bias=config.output_bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sample all matrices from a normal distribution, axial positions from a standard normal one; biases are zero."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding | LearnedPositions):
                nn.init.normal_(module.weight, std=self.config.init_std)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, AxialPositions):
                module.reset_parameters()

    def forward(self, tokens: Tokens, *, reduce: Reduction | None = None) -> Any:
        """Logits as of every causal language model; in training no activations are stored.

        Raises:
            InputError: if a text is longer than `maximum_positions`.
        """
        if not (self.training and torch.is_grad_enabled()):
            return super().forward(tokens, reduce=reduce)
        entered = self._entered(tokens, self.start(len(tokens)))
        seen = Seen(entered.masks[0], entered.positions)
        streams = through_reversibly(list(self.layers), entered.x, seen)  # type: ignore[arg-type]
        hidden = self.dropout(self.norm(torch.cat(streams, dim=-1)))
        return self.logits(hidden) if reduce is None else reduce(hidden, *self.output_map())

    def start(self, rows: int) -> ReformerState:
        """The state before the first token of this many texts."""
        return ReformerState(source_valid=super().start(rows).source_valid)

    def output_map(self) -> tuple[Tensor, Tensor | None]:
        """The output matrix, from 2 D to V, and its bias."""
        return self.output.weight, self.output.bias

    def hidden(self, tokens: Tokens, state: CausalState) -> tuple[Tensor, CausalState]:
        """Both streams after the last block, (B, L, 2 D), normalised, and the next state.

        Raises:
            InputError: if a text is longer than `maximum_positions`.
            ValueError: for several documents after the first token.
        """
        # To the stack every hypothesis is a text by itself, as its memory is.
        lengths = None if state.lengths is None else state.for_each_row(state.lengths)
        alone = replace(state, width=1, source_valid=state.for_each_row(state.source_valid), lengths=lengths)
        hidden, after = super().hidden(tokens, alone)
        lengths = None if after.lengths is None else after.lengths[:: state.width]
        after = replace(after, width=state.width, source_valid=state.source_valid, lengths=lengths)
        return self.dropout(hidden), after

    def _mask(self, tokens: Tokens, state: CausalState, after: KVCache, window: int | None) -> Mask | None:
        """The mask of the stack, but never as a tensor, whose memory would grow with the square of the length.

        Padding is masked on both sides, because it would take places in the chunks.
        """
        rule = self._rule(tokens, state, after, window)
        return rule & Padding(after.seen) if type(rule) is Causal and after.seen is not None else rule

    def _through(self, entered: Entered, past: tuple[KeysValues, ...] | None) -> tuple[Tensor, tuple[KeysValues, ...]]:
        """The embeddings to both streams (B, L, 2 D), and the keys and values of past and present tokens."""
        first, second, present = entered.x, entered.x, []
        for index, (layer, mask) in enumerate(zip(self.layers, entered.masks, strict=True)):
            before = None if past is None else past[index]
            first, second, own = layer(first, second, mask, before, positions=entered.positions)
            present.append(own)
        return torch.cat((first, second), dim=-1), tuple(present)


def _block(config: ReformerConfig, kind: Kind) -> ReversibleBlock:
    inner = config.heads * config.head_width

    def projection(given: int, made: int) -> nn.Linear:
        return nn.Linear(given, made, bias=False)

    value, output = projection(config.width, inner), projection(inner, config.width)
    if kind == "lsh":
        layer: AttentionLayer = SharedAttention(
            query_key=projection(config.width, inner),
            value=value,
            output=output,
            attention=_hashed(config),
            heads=config.heads,
            sequences=("target", "target"),
        )
    else:
        layer = AttentionLayer(
            query=projection(config.width, inner),
            key=projection(config.width, inner),
            value=value,
            output=output,
            attention=ChunkedAttention(
                chunk=config.local_chunk,
                before=config.local_chunks_before,
                dropout=config.local_attention_dropout,
                filled=_filled(config),
            ),
            heads=config.heads,
            sequences=("target", "target"),
        )
    return ReversibleBlock(
        attention=layer,
        feedforward=ChunkedFeedForward(
            config.width,
            config.feedforward_width,
            activation=ACTIVATIONS[config.activation],
            dropout=config.dropout,
            chunk=config.feedforward_chunk,
        ),
        width=config.width,
        dropout=config.dropout,
        epsilon=config.norm_epsilon,
    )


def _hashed(config: ReformerConfig) -> Attention:
    return LSHAttention(
        chunk=config.chunk,
        rounds=config.rounds,
        buckets=config.buckets or usual_buckets(config.maximum_positions, config.chunk),
        before=config.chunks_before,
        sets=config.sets,
        seed=config.hash_seed,
        dropout=config.attention_dropout,
        filled=_filled(config),
    )


def _filled(config: ReformerConfig) -> tuple[int, ...]:
    """The chunk lengths to whose multiple a text is padded; empty if the sets are those of the paper."""
    lengths = {"lsh": config.chunk, "local": config.local_chunk}
    return tuple(lengths[kind] for kind in sorted(set(config.layers))) if config.sets == "chunk" else ()
