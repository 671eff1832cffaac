"""What the recurrent encoder-decoders share: how they are read from outside, and where their alignment is found again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from torch import Tensor, nn

from regard.attention import AttentionInputs, AttentionLayer, KeysValues, Padding
from regard.layers import LAST_STEP, SOURCE, SOURCE_TOKENS, DecoderState, Tokens

C = TypeVar("C")
D = TypeVar("D", bound=nn.Module)
E = TypeVar("E", bound=nn.Module)
S = TypeVar("S", bound=DecoderState)


class RecurrentEncoderDecoder(nn.Module, ABC, Generic[C, E, D, S]):
    """An encoder that reads a source, and a decoder that goes on from its state word by word.

    A paper's model, of its own types of config, encoder, decoder and state, adds `start` and `step`, and `alignment` where
    it has attention. Its decoder, called with a state and a target, is teacher forcing.

    Arguments:
        config: the model's sizes.
        encoder: what `start` reads the source with.
        decoder: called with a state and the true words before (B, L), gives logits (B, L, V).
    """

    has_alignment: bool = False
    maximum_target_length: int | None = None  # a recurrent net has no positions to run out of
    length_setting: str = ""

    def __init__(self, config: C, encoder: E, decoder: D) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.decoder = decoder

    @property
    def maximum_source_length(self) -> int | None:
        """None: a recurrent net has no positions to run out of."""
        return None

    def forward(self, source: Tokens, target: Tokens) -> Tensor:
        """Logits of every next target token, given the true ones before it.

        Arguments:
            source: (B, S) tokens.
            target: (B, L) tokens, shifted right: the start token first.

        Returns:
            (B, L, V); row l predicts target token l + 1.

        Raises:
            InputError: where the source is longer than `maximum_source_length`.
        """
        return self.decoder(self.start(source), target)

    @abstractmethod
    def start(self, source: Tokens) -> S:
        """Read the source (B, S)."""

    @abstractmethod
    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after."""

    def alignment(self, state: S) -> Tensor:
        """(N, S) float32: how much the last step looked at each source token; zeros before the first, and without attention."""
        return state.no_alignment()


@dataclass(frozen=True, kw_only=True, eq=False)
class AttendingState(DecoderState):
    """A recurrent decoder's state that attends to the source.

    Arguments:
        memory: keys (R, 1, S, E) and values (R, 1, S, Ev) of the source, computed once per sentence.
        source_places: (R, S), the place of each source token; None where that is its column.
        query: (N, 1, E), the last step's projected query; None before the first.
    """

    memory: KeysValues = field(metadata=SOURCE)
    source_places: Tensor | None = field(default=None, metadata=SOURCE_TOKENS)
    query: Tensor | None = field(default=None, metadata=LAST_STEP)


def last_alignment(layer: AttentionLayer, state: AttendingState) -> Tensor:
    """The weights behind the last step's context, (N, S) float32; zeros before the first.

    Arguments:
        layer: where that step attended.
        state: after it.
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
