"""A language model as a `Decoder`: the prompt is its source, and what follows is its target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation.stopping import LengthLimit
from regard.layers import TARGET, DecoderState, Reader, Source, Tokens, join

S = TypeVar("S", bound=DecoderState)


@dataclass(frozen=True, slots=True)
class ContinuationConfig:
    """What search asks of the vocabulary. Nothing starts a continuation but its prompt."""

    target_vocabulary: int
    padding_id: int
    start_id: int
    end_id: int


@dataclass(frozen=True, kw_only=True, eq=False)
class ContinuationState(DecoderState):
    """A reader's state, and the token that it reads next where that is the prompt's last.

    Arguments:
        reader: the state of the language model, whose rows are the hypotheses.
        last: (N,) int64; None once it was read.
    """

    reader: DecoderState
    last: Tensor | None = field(default=None, metadata=TARGET)

    def _cut(self, length: int, cut: Callable[[Any, int], Any]) -> Self:
        """As it was after `length` tokens of the continuation, one at least: 0 is before the prompt's end."""
        if length != self.length and not 1 <= length < self.length:
            raise ValueError(f"the continuation holds {self.length} tokens and cannot be cropped to {length}")
        return replace(self, length=length, reader=self.reader._cut(self.reader.length - self.length + length, cut))

    def _moved(self, rows: Tensor, sources: Tensor | None, width: int) -> Self:
        return replace(super()._moved(rows, sources, width), reader=self.reader._moved(rows, sources, width))

    @classmethod
    def _joined(cls, states: Sequence[Any]) -> Self:
        return replace(super()._joined(states), reader=join([state.reader for state in states]))

    def reserved(self, columns: int) -> Self:
        """The same state with room for so many columns of keys and values more."""
        return replace(self, reader=self.reader.reserved(columns))


class Continuation(Generic[S]):
    """Continues prompts: `start` reads them but for their last token, which the first `step` reads in place of a start token.

    Prompts of different lengths may be padded on either side, which changes no answer: they are read with padding in front, so
    that all end in the last column.

    Arguments:
        model: the language model.
        before: its state after a text that stands before every prompt, of one row; none where None. It is left as it is, so
            that one reading of it serves any number of prompts.
    """

    has_alignment = False
    maximum_target_length: int | None = None

    def __init__(self, model: Reader[S], before: S | None = None) -> None:
        self.model = model
        self.before = before
        config = model.config
        self.config = ContinuationConfig(config.vocabulary, config.padding_id, config.padding_id, config.end_id)

    @property
    def maximum_source_length(self) -> int | None:
        """The most tokens of a prompt."""
        limit = self.model.maximum_length
        return limit if limit is None or self.before is None else limit - self.before.length

    @property
    def length_setting(self) -> str:
        """What raises it."""
        return self.model.length_setting

    def start(self, source: Tokens) -> ContinuationState:
        """Read prompts (B, P).

        Raises:
            InputError: for a prompt without a token: nothing is there to continue.
        """
        source = _ending_together(source)
        if self.before is None:
            state = self.model.start(len(source))
        else:
            state = self.before.select(torch.zeros(len(source), dtype=torch.long, device=source.ids.device))
        if source.ids.shape[1] > 1:
            before = Tokens(source.ids[:, :-1], source.valid[:, :-1], source.padded)
            state = self.model.prefill(before, state)
        return ContinuationState(source_valid=source.valid, reader=state, last=source.ids[:, -1])

    def step(self, tokens: Tensor, state: ContinuationState) -> tuple[Tensor, ContinuationState]:
        """Consume tokens (N,), or the prompts' last ones; logits (N, V) of what follows, and the state after."""
        reader: Any = state.reader
        logits, after = self.model.step(tokens if state.last is None else state.last, reader)
        return logits, state.advanced(reader=after, last=None)

    def alignment(self, state: ContinuationState) -> Tensor:
        """Zeros: which tokens of the prompt were looked at is no one answer of so many layers."""
        return state.no_alignment()


def _ending_together(prompts: Tokens) -> Tokens:
    """The same with all padding in front.

    Raises:
        InputError: for a prompt without a token.
    """
    valid = prompts.valid
    if prompts.padded == "nowhere" and valid.shape[1]:
        return prompts
    empty = (~valid.any(dim=1)).nonzero()
    if len(empty):
        raise InputError(
            f"prompt {int(empty[0]) + 1} has no token, and there is nothing to continue; begin it with the end token"
        )
    if valid[:, -1].all() and bool((valid[:, 1:] >= valid[:, :-1]).all()):
        return prompts
    order = valid.long().argsort(dim=1, stable=True)
    return Tokens(prompts.ids.gather(1, order), valid.gather(1, order))


@dataclass(frozen=True, slots=True)
class Room:
    """A limit within a model's positions: the prompt takes some, and the last token written takes none.

    Arguments:
        limit: what was asked for.
        positions: of the model; None for any number.

    >>> from regard.generation import FixedLength
    >>> Room(FixedLength(9), 10)(Tokens.pad([[5, 6, 7], [8]])).tolist()
    [8, 9]
    """

    limit: LengthLimit
    positions: int | None

    def __call__(self, source: Source) -> Tensor:
        """(B,) int64, as `LengthLimit`."""
        asked = self.limit(source)
        return asked if self.positions is None else torch.minimum(asked, self.positions + 1 - source.lengths)
