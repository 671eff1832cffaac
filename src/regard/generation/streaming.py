"""Greedy search and sampling: one hypothesis per source, token by token."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from regard.generation.choosing import Choice, Chooser, Greedy, allowed_best, check_choosable, most_probable
from regard.generation.hypothesis import Hypothesis, Paths, SearchObserver
from regard.generation.penalties import (
    GnmtLength,
    LengthLimit,
    LengthPenalty,
    RelativeLength,
    StopRule,
    row_limits,
    whole,
)
from regard.generation.transforms import Forbid, LogitTransform, are_among, forbidden_ids
from regard.layers import Decoder, DecoderConfig, DecoderState, Source

S = TypeVar("S", bound=DecoderState)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """The result of one call of the decoder.

    Arguments:
        sources: the source row of each row still in the batch; with several samples, rows are counted over all samples.
        tokens: the token that each of them emitted, end tokens included.
        log_probabilities: of these tokens, by the model.
        left: by source row, the hypotheses that this step completed; their rows leave the batch.
    """

    sources: tuple[int, ...]
    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    left: dict[int, Hypothesis]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NextToken:
    """The rules by which rows of a search get their next token, and end.

    Arguments:
        config: of the decoder.
        choice: chooses a token for each row from the changed logits.
        transforms: changes to the logits, in order; padding and start tokens are excluded before.
        stop: rules that end a row, besides the end token.
        minimum_length: tokens before the end token is allowed.
        forced_end: whether the last token within the limit is always the end token.
        forced_start: the first token of every answer; None = any token.
        end_tokens: ids that end an answer, instead of the model's own end token.
    """

    config: DecoderConfig
    choice: Choice
    transforms: Sequence[LogitTransform] = ()
    stop: Sequence[StopRule] = ()
    minimum_length: int = 0
    forced_end: bool = False
    forced_start: int | None = None
    end_tokens: tuple[int, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether this is plain greedy search: no changes of logits but forbidden tokens, and only end tokens end a row."""
        return self._most_probable and not (self.stop or self.forced_end or self.forced_start is not None)

    @property
    def _most_probable(self) -> bool:
        """Whether the next token is the most probable one that is not forbidden."""
        return self.choice is most_probable and all(type(change) is Forbid for change in self.transforms)

    def forbidden(self, length: int) -> tuple[int, ...]:
        """The tokens that no row may emit after this many tokens."""
        return forbidden_ids(self.config, self.minimum_length, length, self.end_tokens)

    def ruled_out(self, length: int) -> tuple[int, ...]:
        """`forbidden`, and the tokens that a transform forbids, in ascending order."""
        own = [index for change in self.transforms if isinstance(change, Forbid) for index in change.ids]
        return tuple(sorted({*self.forbidden(length), *own})) if own else self.forbidden(length)

    def constant(self, length: int) -> tuple[int, tuple[int, ...]]:
        """For how many steps after this many tokens `ruled_out` is the same, and what it is; at least one step."""
        more = self.minimum_length - length
        return more if more > 0 else sys.maxsize, self.ruled_out(length)

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a row."""
        return self.end_tokens or (self.config.end_id,)

    def __call__(self, logits: Tensor, paths: Paths, limits: Tensor) -> tuple[Paths, Tensor]:
        """The paths with one more token, and which of them have ended before the limit, (N,) bool.

        Arguments:
            logits: (N, V) float32, of the model.
            paths: the tokens of the N rows so far.
            limits: (N,) int64, the maximum number of tokens of each.

        Raises:
            InputError: for NaN or infinite logits, and if every token is forbidden.
        """
        end_id = self.config.end_id
        tokens = self._best(logits, paths.length)
        if tokens is None:
            allowed = Forbid(self.forbidden(paths.length))(logits, paths)
            for transform in self.transforms:
                allowed = transform(allowed, paths)
            check_choosable(allowed.amax(dim=-1), paths.length)
            tokens = self.choice(allowed, paths)
        if self.forced_start is not None and paths.length == 0:
            tokens = torch.full_like(tokens, self.forced_start)
        if self.forced_end:
            tokens = torch.where(limits <= paths.length + 1, end_id, tokens)
        paths = paths.lengthened(tokens, _log_probabilities(logits, tokens))
        finished = are_among(tokens, self.ends)
        for rule in self.stop:
            finished = finished | rule(paths)
        return paths, finished

    def _best(self, logits: Tensor, length: int) -> Tensor | None:
        """The next tokens of plain rules, in one pass over the logits; None for other rules, and where something is wrong."""
        if logits.device.type != "cpu" or not self._most_probable:
            return None
        found = allowed_best(logits, [self.ruled_out(length)] * logits.shape[0])
        return None if -1 in found.tolist() else torch.from_numpy(found)


def _log_probabilities(logits: Tensor, tokens: Tensor) -> Tensor:
    """(...,), of the tokens (...,) by the logits (..., V)."""
    return logits.log_softmax(dim=-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


@torch.no_grad()
def stream(
    decoder: Decoder[S],
    source: Source,
    *,
    draws: int = 1,
    choose: Chooser | None = None,
    transforms: Sequence[LogitTransform] = (),
    stop: Sequence[StopRule] = (),
    limit: LengthLimit | None = None,
    minimum_length: int = 0,
    length_penalty: LengthPenalty | None = None,
    forced_end: bool = False,
    forced_start: int | None = None,
    end_tokens: tuple[int, ...] = (),
    observer: SearchObserver | None = None,
    undisturbed: bool = False,
) -> Iterator[Step]:
    """Decode one hypothesis per source row, or several samples, and yield each step.

    Arguments:
        undisturbed: whether whoever takes the steps changes nothing of the model between them. In plain greedy search without an
            observer a model for inference is then examined once for several tokens, which it makes in one call.

    The others are those of `generate`.

    >>> from types import SimpleNamespace
    >>> from regard.layers import Tokens
    >>> class Counting:  # after token n comes n + 1; 4 ends
    ...     config = SimpleNamespace(target_vocabulary=5, padding_id=0, start_id=1, end_id=4)
    ...     has_alignment, length_setting = True, ""
    ...     maximum_source_length = maximum_target_length = None
    ...     def start(self, source): return DecoderState(source_valid=source.valid)
    ...     def step(self, tokens, state):
    ...         return 9.0 * torch.nn.functional.one_hot((tokens + 1) % 5, 5), state.advanced()
    ...     def alignment(self, state): return state.source_valid.float()
    >>> [step.tokens for step in stream(Counting(), Tokens.pad([[7, 8]]))]
    [(2,), (3,), (4,)]
    """
    config = decoder.config
    choose = Greedy() if choose is None else choose
    limit = RelativeLength() if limit is None else limit
    length_penalty = GnmtLength(0.0) if length_penalty is None else length_penalty
    whole("minimum_length", minimum_length, least=0)
    whole("draws", draws, least=1)
    if observer is not None:
        observer.search_started(source)
    device = source.device
    rows = torch.arange(len(source), device=device).repeat_interleave(draws)
    limits = torch.tensor(row_limits(decoder, source, limit), dtype=torch.long, device=device)[rows]
    results: dict[int, Hypothesis] = {}
    if len(source):
        following = NextToken(
            config=config,
            choice=choose.begin(len(rows)),
            transforms=transforms,
            stop=stop,
            minimum_length=minimum_length,
            forced_end=forced_end,
            forced_start=forced_start,
            end_tokens=end_tokens,
        )
        paths = Paths.begin(len(rows), device)
        tokens = torch.full((len(rows),), config.start_id, dtype=torch.long, device=device)
        state = decoder.start(source)
        if draws > 1:  # what was read once continues as often
            state = state.select(rows)
        sources = tuple(range(len(rows)))
        paused = getattr(observer, "search_paused", None)
        alone = undisturbed and observer is None and following.is_plain
        step = getattr(decoder, "undisturbed", lambda: decoder.step)() if alone else decoder.step
        several = getattr(decoder, "greedy_steps", None) if alone else None
        soonest = int(limits.min())
        ahead: Iterator[tuple[Tensor, Tensor]] = iter(
            ()
        )  # tokens that are chosen and not yielded yet, log-probabilities
        while sources:
            chosen = next(ahead, None)
            if chosen is None and several is not None:
                most, forbidden = following.constant(paths.length)
                made = several(
                    tokens, state, most=min(most, soonest - paths.length), forbidden=forbidden, ends=following.ends
                )
                if made is None:
                    several = None
                else:
                    state, ahead = (
                        made.state,
                        zip(made.tokens, _log_probabilities(made.logits, made.tokens), strict=True),
                    )
                    chosen = next(ahead)
            if chosen is None:
                logits, state = step(tokens, state)
                paths, finished = following(logits.float(), paths, limits)
            else:
                paths = paths.lengthened(*chosen)
                finished = are_among(chosen[0], following.ends)
            tokens, log_probabilities = paths.newest
            emitted = tuple(tokens.tolist())
            made = Step(sources=sources, tokens=emitted, log_probabilities=tuple(log_probabilities.tolist()), left={})
            if paths.length >= soonest or bool(finished.any()):
                leaving = finished | (limits <= paths.length)
                gone, staying = leaving.nonzero().squeeze(1), (~leaving).nonzero().squeeze(1)
                ended = paths.select(gone)
                divisor = length_penalty(paths.length)
                hypotheses = ended.hypotheses(
                    end_id=config.end_id,
                    finished=finished[gone].tolist(),
                    scores=[total / divisor for total in ended.totals.tolist()],
                )
                made.left.update(zip(ended.sources.tolist(), hypotheses, strict=True))
                results.update(made.left)
                paths, tokens, limits = paths.select(staying), tokens[staying], limits[staying]
                sources = tuple(paths.sources.tolist())
                if sources:
                    state, soonest = state.select(staying), int(limits.min())
            if paused is not None:
                paused()
            yield made
    if observer is not None:
        answers = [results[row] for row in range(len(rows))]
        observer.search_finished([answers[first : first + draws] for first in range(0, len(rows), draws)])


def generate(
    decoder: Decoder[S],
    source: Source,
    *,
    draws: int = 1,
    choose: Chooser | None = None,
    transforms: Sequence[LogitTransform] = (),
    stop: Sequence[StopRule] = (),
    limit: LengthLimit | None = None,
    minimum_length: int = 0,
    length_penalty: LengthPenalty | None = None,
    forced_end: bool = False,
    forced_start: int | None = None,
    end_tokens: tuple[int, ...] = (),
    observer: SearchObserver | None = None,
) -> list[Hypothesis]:
    """One hypothesis per source row, by greedy search or sampling. Rows that end leave the batch.

    No gradients are computed. The caller puts the decoder in evaluation mode (`decoder.eval()`); with dropout results vary.

    Arguments:
        decoder: the model.
        source: B sentences.
        draws: the number of samples per sentence, which share the encoded source.
        choose: None = `Greedy()`; or `Sample(generator)`.
        transforms: changes to the logits, in order; padding and start tokens are excluded before.
        stop: rules that end a row, besides the end token.
        limit: the maximum number of tokens of each answer, with the end token; None = input length + 50. A decoder with
            limited positions lowers it.
        minimum_length: tokens before the end token is allowed.
        length_penalty: only divides `score`, to make it comparable with that of a beam search; None = no penalty.
        forced_end: whether the last token within the limit is always the end token.
        forced_start: the first token of every answer; None = any token.
        end_tokens: ids that end an answer, instead of the model's own end token.
        observer: called at the beginning and the end; a `PauseObserver` also after each step.

    Returns:
        B hypotheses in the order of the source; with several samples B * draws, grouped by sentence.

    Raises:
        InputError: for NaN or infinite logits, and if every token is forbidden.

    >>> from types import SimpleNamespace
    >>> from regard.layers import Tokens
    >>> class Counting:  # after token n comes n + 1; 4 ends
    ...     config = SimpleNamespace(target_vocabulary=5, padding_id=0, start_id=1, end_id=4)
    ...     has_alignment, length_setting = True, ""
    ...     maximum_source_length = maximum_target_length = None
    ...     def start(self, source): return DecoderState(source_valid=source.valid)
    ...     def step(self, tokens, state):
    ...         return 9.0 * torch.nn.functional.one_hot((tokens + 1) % 5, 5), state.advanced()
    ...     def alignment(self, state): return state.source_valid.float()
    >>> [hypothesis.tokens for hypothesis in generate(Counting(), Tokens.pad([[7, 8], [9]]))]
    [(2, 3), (2, 3)]
    """
    results: dict[int, Hypothesis] = {}
    for step in stream(
        decoder,
        source,
        draws=draws,
        choose=choose,
        transforms=transforms,
        stop=stop,
        limit=limit,
        minimum_length=minimum_length,
        length_penalty=length_penalty,
        forced_end=forced_end,
        forced_start=forced_start,
        end_tokens=end_tokens,
        observer=observer,
        undisturbed=True,
    ):
        results.update(step.left)
    return [results[row] for row in sorted(results)]
