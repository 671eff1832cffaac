"""A language model as a `Decoder`: the prompt is its source, and what follows is its target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.attention import BatchInvariant
from regard.errors import InputError
from regard.generation.stopping import LengthLimit
from regard.layers import TARGET, CausalLM, CausalStack, DecoderState, Source, Tokens, join

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

    Prompts of different lengths may be padded on either side, which changes no answer. On a processor, decoders of GPT's family
    read each without its padding; other models read them with padding in front, so that all end in the last column.

    Arguments:
        model: the language model.
        before: its state after a text that stands before every prompt, of one row; none where None. It is left as it is, so
            that one reading of it serves any number of prompts.
        batch_invariant: whether the logits of a text have the same bits alone and in any batch, on a processor
            (`regard.attention.BatchInvariant`). In float32 a text alone takes longer for it, some two times as long with a GPT-2;
            in bfloat16 it costs next to nothing. None for true in bfloat16 and false otherwise. Decoders with weights of 8 or 4
            bits and compiled kernels are so in any case.
    """

    has_alignment = False
    maximum_target_length: int | None = None

    def __init__(self, model: CausalLM[S], before: S | None = None, *, batch_invariant: bool | None = None) -> None:
        self.model = model
        self.before = before
        if batch_invariant is None:
            kinds = {part.dtype for part in model.parameters()} if isinstance(model, nn.Module) else set()
            batch_invariant = torch.bfloat16 in kinds
        self.batch_invariant = batch_invariant
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
        with BatchInvariant() if self.batch_invariant else nullcontext():
            state = self._read(source)
        return ContinuationState(source_valid=source.valid, reader=state, last=source.ids[:, -1])

    def _read(self, source: Tokens) -> Any:
        """The model's state after prompts that end in the last column, all but that column read."""
        model: Any = self.model
        if source.ids.shape[1] > 1 and source.device.type == "cpu":
            texts = [ids[valid] for ids, valid in zip(source.ids[:, :-1], source.valid[:, :-1], strict=True)]
            if isinstance(model, CausalStack):
                return model.read_texts(texts, cast(Any, self.before))
            if self.batch_invariant:
                return join([self._prefilled(Tokens.pad([text.tolist()]), self._begun(1)) for text in texts])
        before = Tokens(source.ids[:, :-1], source.valid[:, :-1], source.padded)
        return self._prefilled(before, self._begun(len(source)))

    def _begun(self, rows: int) -> Any:
        """The state before so many prompts."""
        if self.before is None:
            return self.model.start(rows)
        return self.before.select(torch.zeros(rows, dtype=torch.long, device=self.before.source_valid.device))

    def _prefilled(self, tokens: Tokens, state: Any) -> Any:
        return self.model.prefill(tokens, state) if tokens.ids.shape[1] else state

    def step(self, tokens: Tensor, state: ContinuationState) -> tuple[Tensor, ContinuationState]:
        """Consume tokens (N,), or the prompts' last ones; logits (N, V) of what follows, and the state after."""
        reader: Any = state.reader
        with BatchInvariant() if self.batch_invariant else nullcontext():
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
