"""Base classes of encoder-decoders: recurrent ones first, then those of attention blocks.

Each implements the interface of `regard.layers.Decoder`, and reads the alignment of the last step from the decoder's state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from regard.attention import AttentionInputs, AttentionLayer, KeysValues, KVCache, Padding, Positions
from regard.layers import CACHE, LAST_STEP, SOURCE, SOURCE_TOKENS, DecoderState, Tokens

C = TypeVar("C")
D = TypeVar("D", bound=nn.Module)
E = TypeVar("E", bound=nn.Module)
S = TypeVar("S", bound=DecoderState)


class RecurrentEncoderDecoder(nn.Module, ABC, Generic[C, E, D, S]):
    """A recurrent encoder-decoder: the encoder reads a source, and the decoder predicts the target token by token.

    The model of a paper defines `start` and `step`, and `alignment` if it has attention. Calling its decoder with a state and a
    target is teacher forcing.

    Arguments:
        config: the model's sizes.
        encoder: the module with which `start` reads the source.
        decoder: maps a state, the true previous tokens (B, L) and positions, as `forward` has them, to logits.
    """

    has_alignment: bool = False
    takes_positions: bool = True
    """Whether `forward` takes `at`."""
    maximum_target_length: int | None = None  # a recurrent net has no positions to run out of
    length_setting: str = ""

    def __init__(self, config: C, encoder: E, decoder: D) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.decoder = decoder

    @property
    def maximum_source_length(self) -> int | None:
        """None: a recurrent network has no longest source."""
        return None

    def forward(self, source: Tokens, target: Tokens, *, at: Tensor | None = None) -> Tensor:
        """Logits of every next target token, given the true previous tokens (teacher forcing).

        Arguments:
            source: (B, S) tokens.
            target: (B, L) tokens, shifted right: the start token first.
            at: (M,) int64, the positions, as indices into B x L, at which to compute logits; None = all.

        Returns:
            (B, L, V), or (M, V) with `at`; row l predicts target token l + 1.

        Raises:
            InputError: if the source is longer than `maximum_source_length`.
        """
        return self.decoder(self.start(source), target, at)

    @abstractmethod
    def start(self, source: Tokens) -> S:
        """Read the source (B, S)."""

    @abstractmethod
    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after."""

    def alignment(self, state: S) -> Tensor:
        """The attention weights of the last step, (N, S) float32; zeros before the first step, and without attention."""
        return state.no_alignment()


@dataclass(frozen=True, kw_only=True, eq=False)
class AttendingState(DecoderState):
    """The state of a recurrent decoder that attends to the source.

    Arguments:
        memory: keys (R, 1, S, E) and values (R, 1, S, Ev) of the source, computed once per sentence.
        source_places: (R, S), the position of each source token; None = its column.
        query: (N, 1, E), the projected query of the last step; None before the first step.
    """

    memory: KeysValues = field(metadata=SOURCE)
    source_places: Tensor | None = field(default=None, metadata=SOURCE_TOKENS)
    query: Tensor | None = field(default=None, metadata=LAST_STEP)


def last_alignment(layer: AttentionLayer, state: AttendingState) -> Tensor:
    """The attention weights of the last step, (N, S) float32; zeros before the first step.

    Arguments:
        layer: the attention layer of the decoder.
        state: the state after the step.
    """
    if state.query is None:
        return state.no_alignment()
    query = state.by_source(state.query).transpose(1, 2)
    inputs = AttentionInputs(
        query=query,
        key=state.memory.key,
        mask=Padding(state.source_valid),
        query_positions=state.places(back=1),
        key_positions=state.source_places,
    )
    return layer.attention.weights(inputs).squeeze(1).flatten(0, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class TransformerState(DecoderState):
    """The decoder's state: for each block, keys and values of the source and of the target so far.

    Arguments:
        memory: for each block, keys and values of the source (R, H, S, E), computed once.
        source_places: (R, S), the position of each source token; None = its column.
        cache: keys and values of the target tokens so far, those of all hypotheses of a source in one row.
        query: (N, H, E), the last query over the source in the alignment block; None before the first step.
    """

    memory: tuple[KeysValues, ...] = field(metadata=SOURCE)
    source_places: Tensor | None = field(default=None, metadata=SOURCE_TOKENS)
    cache: KVCache = field(default_factory=KVCache, metadata=CACHE)
    query: Tensor | None = field(default=None, metadata=LAST_STEP)


class DecoderStack(nn.Module, ABC):
    """Decoder blocks one after another, read token by token; `layers` are `DecoderBlock`s."""

    layers: nn.ModuleList

    @abstractmethod
    def embedded(self, ids: Tensor, positions: Tensor) -> Tensor:
        """The input of the first block: tokens (B, L) at positions (B, L) to (B, L, D)."""

    @abstractmethod
    def finished(self, x: Tensor) -> Tensor:
        """The output of the last block, (B, L, D), to the input of the output layer."""

    def record_of_step(self, here: Tensor, places: Tensor) -> Mapping[str, Tensor] | None:
        """Further tensors for the record of self-attention. By default there are none.

        Arguments:
            here: (R, 1), the position of the queries of each source; (1, 1) if all have the same.
            places: (R, C) or (1, C), the position of each key.
        """
        return None

    def memory(self, source: Tensor, places: Tensor | None = None) -> tuple[KeysValues, ...]:
        """For each block, keys and values of the encoder's output (B, S, D), with positions (B, S); None = in order."""
        return tuple(layer.cross_attention.keys_values(source, places) for layer in self.layers)  # type: ignore[union-attr, operator]

    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState, list[Tensor]]:
        """One step: tokens (N,) to (N, D), the state after them, and the query of each block over the source.

        The hypotheses of a source are queries over the same keys: those of the source, and those of the target tokens so far.
        """
        ids = state.by_source(tokens)
        here = state.places()
        x = self.embedded(ids, here)
        sources, width = ids.shape
        source_mask = Padding(state.source_valid).materialize(
            batch=sources, queries=width, keys=state.source_valid.shape[1], device=x.device
        )
        # Of what was written, each sees its own past and itself: causality leaves nothing more to mask.
        cache = state.cache.extended(rows=state.rows, width=width, lengths=state.lengths, device=x.device)
        mask, places = cache.mask(width), cache.places
        own = slice(0, 1 if state.lengths is None else None)  # one row says it for all where they are of one length
        columns = torch.arange(cache.columns, device=x.device)[None] if places is None else places[own]
        record = self.record_of_step(here[own, :1], columns)
        positions = Positions(width, cache.columns, of_queries=here, of_keys=places, device=x.device)
        slots = state.source_valid.shape[1]
        across = Positions(width, slots, of_queries=here, of_keys=state.source_places, device=x.device)
        pasts, queries = [], []
        for index, layer in enumerate(self.layers):
            x, past, query = layer(
                x,
                state.memory[index],
                mask=mask,
                source_mask=source_mask,
                past=cache.layers[index] if cache.layers else None,
                positions=positions,
                source_positions=across,
                record=record,
            )
            pasts.append(past)
            queries.append(query)
        return self.finished(x).flatten(0, 1), state.advanced(cache=cache.filled(pasts)), queries


class AttentionEncoderDecoder(nn.Module, ABC):
    """An encoder stack that reads a source, and a decoder stack that predicts the target token by token.

    The model of a paper builds both stacks, and defines `encoded` and `logits`.
    """

    has_alignment: bool = True
    takes_positions: bool = True
    """Whether `forward` takes `at`."""
    config: Any
    """Has `alignment_layer`, the decoder block whose cross-attention is the alignment."""
    decoder: DecoderStack

    @abstractmethod
    def encoded(self, source: Tokens) -> Tensor:
        """The encoder's output (B, S, D)."""

    @abstractmethod
    def logits(self, x: Tensor) -> Tensor:
        """The decoder's output (..., D) to (..., V)."""

    def start(self, source: Tokens) -> TransformerState:
        """Read the source (B, S)."""
        memory = self.decoder.memory(self.encoded(source), source.places)
        return TransformerState(source_valid=source.valid, memory=memory, source_places=source.places)

    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after."""
        x, after, queries = self.decoder.step(tokens, state)
        query = queries[self.config.alignment_layer].transpose(1, 2).flatten(0, 1)
        return self.logits(x), replace(after, query=query)

    def alignment(self, state: TransformerState) -> Tensor:
        """The last cross-attention weights of the alignment block, averaged over heads: (N, S) float32; zeros before a step."""
        if state.query is None:
            return state.no_alignment()
        layer = self.decoder.layers[self.config.alignment_layer]
        query = state.by_source(state.query).transpose(1, 2)
        inputs = AttentionInputs(
            query=query,
            key=state.memory[self.config.alignment_layer].key,
            mask=Padding(state.source_valid),
            query_positions=state.places(back=1),
            key_positions=state.source_places,
        )
        return layer.cross_attention.attention.weights(inputs).mean(dim=1).flatten(0, 1)  # type: ignore[union-attr, operator]
