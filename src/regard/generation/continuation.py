"""Generation with language models: `Continuation` makes one a `Decoder`, whose source is the prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.attention import AttentionLayer, BatchInvariant
from regard.attention.kernels import ALIGNED, VECTOR
from regard.errors import InputError
from regard.generation.penalties import LengthLimit
from regard.kernels.building import has_bfloat16_products
from regard.layers import TARGET, CausalLM, CausalStack, DecoderState, GreedySteps, LeftToRight, Source, Tokens, join

S = TypeVar("S", bound=DecoderState)
D = TypeVar("D", bound=DecoderState)


@dataclass(frozen=True, slots=True)
class ContinuationConfig:
    """The special tokens that a search needs. There is no start token: a continuation starts with its prompt."""

    target_vocabulary: int
    padding_id: int
    start_id: int
    end_id: int


@dataclass(frozen=True, kw_only=True, eq=False)
class ContinuationState(DecoderState):
    """The state of the language model, and the last token of the prompt until it is read.

    Arguments:
        reader: the state of the language model, whose rows are the hypotheses.
        last: (N,) int64, the last token of the prompts; None after it was read.
    """

    reader: DecoderState
    last: Tensor | None = field(default=None, metadata=TARGET)

    def _cut(self, length: int, cut: Callable[[Any, int], Any]) -> Self:
        """The state after `length` tokens of the continuation, at least 1."""
        if length != self.length and not 1 <= length < self.length:
            raise ValueError(f"the continuation holds {self.length} tokens and cannot be cropped to {length}")
        return replace(self, length=length, reader=self.reader._cut(self.reader.length - self.length + length, cut))

    def _moved(self, rows: Tensor, sources: Tensor | None, width: int) -> Self:
        return replace(super()._moved(rows, sources, width), reader=self.reader._moved(rows, sources, width))

    @classmethod
    def _joined(cls, states: Sequence[Any]) -> Self:
        return replace(super()._joined(states), reader=join([state.reader for state in states]))

    def reserved(self, columns: int) -> Self:
        """The same state with memory for this many more columns of keys and values."""
        return replace(self, reader=self.reader.reserved(columns))


class Continuation(Generic[S]):
    """Continues prompts: `start` reads all but their last token; the first `step` reads the last token instead of a start token.

    Prompts of different lengths can be padded on either side; padding does not change the result. On a processor, decoders of the
    GPT family read each prompt without its padding; other models read them padded on the left, so that all end in the last
    column.

    Arguments:
        model: the language model.
        before: its state, of one row, after a common prefix of all prompts; None = no prefix. It is not changed, so one state
            serves any number of prompts.
        batch_invariant: whether the logits of a text have the same bits alone and in any batch, on a processor
            (`regard.attention.BatchInvariant`). In float32 a text alone takes longer with it, about twice as long with a GPT-2;
            in bfloat16 it takes little more time on processors without AVX-512, and up to 50 % more on those with it. None =
            True in bfloat16, else False. Decoders for inference (`regard.quantization.InferenceDecoder`) with compiled kernels
            are always batch-invariant.
    """

    has_alignment = False
    maximum_target_length: int | None = None

    def __init__(self, model: CausalLM[S], before: S | None = None, *, batch_invariant: bool | None = None) -> None:
        self.model = model
        self.before = before
        if batch_invariant is None:
            parts = model.parameters() if isinstance(model, nn.Module) else ()
            batch_invariant = any(part.dtype == torch.bfloat16 for part in parts)
        self.batch_invariant = batch_invariant
        self.same_alone = batch_invariant and not self._own_rows and _same_alone(model)
        config = model.config
        self.config = ContinuationConfig(config.vocabulary, config.padding_id, config.padding_id, config.end_id)

    @property
    def maximum_source_length(self) -> int | None:
        """The longest prompt in tokens."""
        limit = self.model.maximum_length
        return limit if limit is None or self.before is None else limit - self.before.length

    @property
    def length_setting(self) -> str:
        """The setting that raises this maximum."""
        return self.model.length_setting

    def start(self, source: Tokens) -> ContinuationState:
        """Read prompts (B, P).

        Raises:
            InputError: for an empty prompt.
        """
        source = _ending_together(source)
        with BatchInvariant() if self.batch_invariant and not self._own_rows else nullcontext():
            state = self._read(source)
        return ContinuationState(source_valid=source.valid, reader=state, last=source.ids[:, -1])

    def _read(self, source: Tokens) -> Any:
        """The state after prompts that are aligned at the last column, without that column."""
        model: Any = self.model
        if source.ids.shape[1] > 1 and source.device.type == "cpu":
            texts = [ids[valid] for ids, valid in zip(source.ids[:, :-1], source.valid[:, :-1], strict=True)]
            if isinstance(model, CausalStack):
                return model.read_texts(texts, cast(Any, self.before))
            if self.batch_invariant:
                return join([self._prefilled(Tokens.pad([text.tolist()]), self._begun(1)) for text in texts])
        before = Tokens(source.ids[:, :-1], source.valid[:, :-1], source.padding_side)
        return self._prefilled(before, self._begun(len(source)))

    def _begun(self, rows: int) -> Any:
        """The state before this many prompts."""
        if self.before is None:
            return self.model.start(rows)
        return self.before.select(torch.zeros(rows, dtype=torch.long, device=self.before.source_valid.device))

    def _prefilled(self, tokens: Tokens, state: Any) -> Any:
        return self.model.prefill(tokens, state) if tokens.ids.shape[1] else state

    @property
    def _own_rows(self) -> bool:
        """Whether the model gives a row the same bits in any batch without `BatchInvariant`."""
        return isinstance(self.model, CausalStack) and self.model.batch_invariant_steps

    def step(self, tokens: Tensor, state: ContinuationState) -> tuple[Tensor, ContinuationState]:
        """Consume tokens (N,), or the last tokens of the prompts; return the logits (N, V) of the next, and the state after."""
        return self._step(self.model.step, tokens, state)

    def undisturbed(self) -> Callable[[Tensor, ContinuationState], tuple[Tensor, ContinuationState]]:
        """`step`, for a caller between whose calls nothing changes the model, see `LeftToRight.undisturbed`."""
        if self._steps_itself or not isinstance(self.model, LeftToRight):
            return self.step
        return partial(self._step, self.model.undisturbed())

    @property
    def _steps_itself(self) -> bool:
        """Whether `step` is not the one of this class."""
        return type(self).step is not Continuation.step or "step" in self.__dict__

    def greedy_steps(
        self, tokens: Tensor, state: ContinuationState, *, most: int, forbidden: Sequence[int], ends: Sequence[int]
    ) -> GreedySteps[ContinuationState] | None:
        """Several steps of greedy search in one call of the model, see `LeftToRight.greedy_steps`; None where it makes none."""
        if self._steps_itself or not isinstance(self.model, LeftToRight) or not self._own_rows:
            return None
        given, reader = tokens if state.last is None else state.last, cast(Any, state.reader)
        made = self.model.greedy_steps(given, reader, most=most, forbidden=forbidden, ends=ends)
        if made is None or not len(made.tokens):
            return None
        after = state.advanced(steps=len(made.tokens), reader=made.state, last=None)
        return GreedySteps(made.tokens, made.logits, after)

    def _step(
        self, step: Callable[[Tensor, Any], tuple[Tensor, Any]], tokens: Tensor, state: ContinuationState
    ) -> tuple[Tensor, ContinuationState]:
        reader: Any = state.reader
        plain = self._own_rows or (self.same_alone and len(tokens) == 1 and reader.cache.seen is None)
        with BatchInvariant() if self.batch_invariant and not plain else nullcontext():
            logits, after = step(tokens if state.last is None else state.last, reader)
        return logits, state.advanced(reader=after, last=None)

    def alignment(self, state: ContinuationState) -> Tensor:
        """Zeros: a language model has no single attention that is an alignment."""
        return state.no_alignment()


def _same_alone(model: object) -> bool:
    """Whether `BatchInvariant` changes no bit of a step of a single text without padding, so that it can be skipped."""
    if not isinstance(model, CausalStack) or not model.packs_texts or any(model.sliding_windows):
        return False
    if has_bfloat16_products():
        return False
    layers: list[Any] = [part for part in model.modules() if isinstance(part, AttentionLayer)]
    heads = [layer.key.out_features // layer.key_heads for layer in layers]
    return (
        all(part.dtype == torch.bfloat16 for part in model.parameters())
        and all(part.out_features % VECTOR == 0 for part in model.modules() if isinstance(part, nn.Linear))
        and all(width * torch.bfloat16.itemsize % ALIGNED == 0 for width in heads)
    )


def _ending_together(prompts: Tokens) -> Tokens:
    """The same prompts, padded on the left.

    Raises:
        InputError: for an empty prompt.
    """
    valid = prompts.valid
    if prompts.padding_side == "nowhere" and valid.shape[1]:
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
class PositionLimit:
    """A length limit within the model's positions: the prompt takes some, and the last generated token takes none.

    Arguments:
        limit: the requested limit.
        positions: the number of positions of the model; None = unlimited.

    >>> from regard.generation import FixedLength
    >>> PositionLimit(FixedLength(9), 10)(Tokens.pad([[5, 6, 7], [8]])).tolist()
    [8, 9]
    """

    limit: LengthLimit
    positions: int | None

    def __call__(self, source: Source) -> Tensor:
        """(B,) int64, as `LengthLimit`."""
        asked = self.limit(source)
        return asked if self.positions is None else torch.minimum(asked, self.positions + 1 - source.lengths)
