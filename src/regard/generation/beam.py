"""Beam search over a batch of sentences, and the n-best list of each."""

from __future__ import annotations

import math
from bisect import insort_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation.choosing import check_choosable, leading_continuations, leading_sums
from regard.generation.hypothesis import Hypothesis, Paths, SearchObserver, SearchStep
from regard.generation.penalties import (
    CoveragePenalty,
    GnmtLength,
    LengthLimit,
    LengthPenalty,
    RelativeLength,
    check_coverage,
    row_limits,
    whole,
)
from regard.generation.transforms import Forbid, LogitTransform, are_among, forbidden_ids
from regard.layers import Decoder, DecoderState, Source
from regard.old_names import old_keywords

S = TypeVar("S", bound=DecoderState)

ROOM = 128
"""The number of steps for which cache memory is allocated at the start, if the limit allows, so that it need not grow."""


@torch.no_grad()
@old_keywords(enough="early_stopping")
def beam_search(
    decoder: Decoder[S],
    source: Source,
    *,
    beam: int = 4,
    n_best: int = 1,
    length_penalty: LengthPenalty | None = None,
    coverage_penalty: CoveragePenalty | None = None,
    transforms: Sequence[LogitTransform] = (),
    limit: LengthLimit | None = None,
    minimum_length: int = 0,
    early_stopping: int | None = None,
    search_end: Literal["proof", "estimate"] = "proof",
    forced_end: bool = False,
    forced_start: int | None = None,
    end_tokens: tuple[int, ...] = (),
    observer: SearchObserver | None = None,
) -> list[list[Hypothesis]]:
    """The n best hypotheses of a beam search for each source row.

    They are compared by log P(Y|X) / lp(Y) + cp(X; Y) (Wu et al. 2016, equation 14).

    Each step ranks all continuations of a sentence's live hypotheses by log-probability, and takes the best 2 * beam (beam
    more for each further end token). Ties are ordered by hypothesis, then by token id. Of the first `beam` candidates, those
    that end are finished and scored; the first `beam` candidates that do not end continue. A sentence is done when no live
    hypothesis can still enter its n best: log-probability only decreases, lp does not decrease and cp is at most 0, so
    log P / lp(limit) is an upper bound of the final score of a live hypothesis. A finished sentence leaves the batch. At the
    limit the first `beam` candidates are all complete, with or without an end token. With beam 1 and no length penalty this
    is greedy search; with beam 1 and `early_stopping=1` always.

    No gradients are computed. The caller puts the decoder in evaluation mode (`decoder.eval()`); with dropout results vary.

    Arguments:
        decoder: the model.
        source: B sentences.
        beam: live hypotheses per sentence.
        n_best: hypotheses to return per sentence; at most `beam`.
        length_penalty: lp; None = `GnmtLength(0.6)`. |Y| counts the end token.
        coverage_penalty: cp, over the weights of `decoder.alignment`; None = no penalty, and then alignment is not
            computed. It needs a decoder with attention.
        transforms: only their minus infinities count: these tokens are no candidates. Scores remain the model's own.
        limit: the maximum number of tokens of each answer, with the end token; None = input length + 50. A decoder with
            limited positions lowers it.
        minimum_length: tokens before the end token is allowed.
        early_stopping: a sentence also ends when this many of its hypotheses have finished, although a live one might
            still be better; at least `n_best`. None = until no live one can be better, which with a length penalty and a
            large limit can take many more steps.
        search_end: `proof` as above; with `estimate` a sentence also ends when `beam` hypotheses have finished and the
            score of the best live one at its current length is not better than the worst of them, as in `transformers`
            with `early_stopping=False`.
        forced_end: whether the last token within the limit is always the end token, with probability 1.
        forced_start: the first token of every hypothesis, with probability 1; None = any token.
        end_tokens: ids that end an answer, instead of the model's own end token.
        observer: called at the beginning and the end; a `StepObserver` and a `PauseObserver` also after each step.

    Returns:
        For each source row at most `n_best` distinct hypotheses, best first, including those that the limit cut.
        Never empty.

    Raises:
        InputError: for settings out of range, a coverage penalty with a decoder without alignment, NaN or infinite
            logits, and if every token is forbidden.

    >>> from types import SimpleNamespace
    >>> from regard.layers import Tokens
    >>> class Counting:  # after token n most likely comes n + 1; 4 ends
    ...     config = SimpleNamespace(target_vocabulary=5, padding_id=0, start_id=1, end_id=4)
    ...     has_alignment, length_setting = True, ""
    ...     maximum_source_length = maximum_target_length = None
    ...     def start(self, source): return DecoderState(source_valid=source.valid)
    ...     def step(self, tokens, state):
    ...         return 2.0 * torch.nn.functional.one_hot((tokens + 1) % 5, 5), state.advanced()
    ...     def alignment(self, state): return state.source_valid.float()
    >>> [best.tokens for best in beam_search(Counting(), Tokens.pad([[7, 8]]), n_best=2)[0]]
    [(2, 3), ()]
    """
    whole("beam", beam, least=1)
    whole("n_best", n_best, least=1)
    whole("minimum_length", minimum_length, least=0)
    if n_best > beam:
        raise InputError(f"n_best: {n_best} is more than the beam of {beam}; lower n_best or widen the beam")
    if early_stopping is not None:
        whole("early_stopping", early_stopping, least=n_best)
    if coverage_penalty is not None:
        check_coverage(decoder)
    if observer is not None:
        observer.search_started(source)
    # Nobody else is called between two steps, so that a model that examines itself at each does so once.
    alone = observer is None and not transforms and coverage_penalty is None
    ends = end_tokens or (decoder.config.end_id,)
    search = _BeamSearch(
        decoder=decoder,
        next_logits=getattr(decoder, "undisturbed", lambda: decoder.step)() if alone else decoder.step,
        beam=beam,
        length_penalty=GnmtLength(0.6) if length_penalty is None else length_penalty,
        coverage_penalty=coverage_penalty,
        transforms=tuple(transforms),
        minimum_length=minimum_length,
        limits=row_limits(decoder, source, RelativeLength() if limit is None else limit),
        early_stopping=early_stopping,
        forced_end=forced_end,
        forced_start=forced_start,
        ends=ends,
        forbid_first=Forbid(forbidden_ids(decoder.config, 1, 0, ends)),
        forbid=Forbid(forbidden_ids(decoder.config, 0, 0, ends)),
        estimated=search_end == "estimate",
        stepped=getattr(observer, "search_stepped", None),
        paused=getattr(observer, "search_paused", None),
        results=[NBest(beam if search_end == "estimate" else n_best) for _ in range(len(source))],
    )
    hypotheses = [found[:n_best] for found in search.run(source)]
    if observer is not None:
        observer.search_finished(hypotheses)
    return hypotheses


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Beams(Generic[S]):
    """The live hypotheses between two calls of the decoder: K rows for each of R sentences, grouped by sentence.

    A row whose total is minus infinity is empty, because there were too few candidates; so are its continuations.
    """

    sentences: list[int]
    paths: Paths
    tokens: Tensor
    state: S
    coverage: Tensor | None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Candidates:
    """The best continuations of each sentence, best first; every tensor is (R, 2 * beam), or wider with more end tokens.

    `parents` are rows of the last call; `log_probabilities` are those of `tokens`, `totals` those of the whole hypothesis;
    `end` says which tokens are end tokens.
    """

    totals: Tensor
    parents: Tensor
    tokens: Tensor
    log_probabilities: Tensor
    end: Tensor


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _BeamSearch(Generic[S]):
    """One beam search: its constants, and the results so far."""

    decoder: Decoder[S]
    next_logits: Callable[[Tensor, S], tuple[Tensor, S]]
    beam: int
    length_penalty: LengthPenalty
    coverage_penalty: CoveragePenalty | None
    transforms: tuple[LogitTransform, ...]
    minimum_length: int
    limits: list[int]
    early_stopping: int | None
    forced_end: bool
    forced_start: int | None
    ends: tuple[int, ...]
    forbid_first: Forbid
    forbid: Forbid
    estimated: bool
    stepped: Callable[[SearchStep], None] | None
    paused: Callable[[], None] | None
    results: list[NBest]

    def run(self, source: Source) -> list[list[Hypothesis]]:
        count, device = len(source), source.device
        if count:
            state = self.decoder.start(source).reserved(self.beam * min(max(self.limits), ROOM))
            beams: _Beams[S] | None = _Beams(
                sentences=list(range(count)),
                paths=Paths.begin(count, device),
                tokens=torch.full((count,), self.decoder.config.start_id, dtype=torch.long, device=device),
                state=state,
                coverage=None if self.coverage_penalty is None else state.no_alignment(),
            )
            while beams is not None:
                beams = self.step(beams)
                if self.paused is not None:
                    self.paused()
        return [best.hypotheses for best in self.results]

    def step(self, beams: _Beams[S]) -> _Beams[S] | None:
        """One call of the decoder, and the next live hypotheses; None when every sentence is done."""
        logits, state = self.next_logits(beams.tokens, beams.state)
        coverage = beams.coverage
        if coverage is not None:
            coverage = coverage + self.decoder.alignment(state)
        beams = replace(beams, state=state, coverage=coverage)
        candidates = self.ranked(logits, beams)
        ending = self.ending(candidates, beams)
        self.finish(candidates, ending, beams)
        after = self.go_on(candidates, beams)
        if self.stepped is not None:
            nothing = candidates.tokens.new_empty(0)
            step = SearchStep(
                sources=tuple(beams.sentences),
                parents=candidates.parents,
                tokens=candidates.tokens,
                totals=candidates.totals,
                ended=torch.nn.functional.pad(ending, (0, candidates.tokens.shape[1] - ending.shape[1])),
                next_parents=nothing if after is None else after.paths.rows[:, -1],
                next_tokens=nothing if after is None else after.tokens,
            )
            self.stepped(step)
        return after

    def ranked(self, logits: Tensor, beams: _Beams[S]) -> _Candidates:
        """The best continuations, in order."""
        rows, vocabulary = logits.shape
        sentences = len(beams.sentences)
        width, count = rows // sentences, max(2, 1 + len(self.ends)) * self.beam  # so that as many continue as may end
        totals, never = beams.paths.totals.view(sentences, width), self.forbidden(beams, vocabulary)
        found = None if self.replaces(beams) else leading_continuations(logits, totals, count, never)
        if found is None:
            log_probabilities = self.allowed(logits, beams, never)
            sums, index = leading_sums(log_probabilities.view(sentences, width, vocabulary), totals, count)
            found = sums, index, log_probabilities.view(sentences, -1).gather(1, index)
        sums, index, own = found
        check_choosable(sums[:, 0], beams.paths.length)
        first = torch.arange(0, rows, width, device=index.device)[:, None]
        parents, tokens = first + index // vocabulary, index % vocabulary
        end = are_among(tokens, self.ends)
        return _Candidates(totals=sums, parents=parents, tokens=tokens, log_probabilities=own, end=end)

    def forbidden(self, beams: _Beams[S], vocabulary: int) -> tuple[int, ...]:
        """The tokens that no hypothesis may emit in this step.

        Raises:
            InputError: for an id that no token has.
        """
        forbid = self.forbid_first if beams.paths.length < self.minimum_length else self.forbid
        forbid.check(vocabulary)
        return forbid.ids

    def replaces(self, beams: _Beams[S]) -> bool:
        """Whether log-probabilities are changed in this step, beside those of `forbidden`."""
        starts = self.forced_start is not None and beams.paths.length == 0
        return bool(self.transforms) or starts or (self.forced_end and any(self.at_limit(beams)))

    def allowed(self, logits: Tensor, beams: _Beams[S], never: tuple[int, ...]) -> Tensor:
        """The log-probabilities (N, V), minus infinity where a token is not allowed."""
        log_probabilities = logits.log_softmax(dim=-1, dtype=torch.float32)
        # The one new (N, V) tensor of a step; what is ruled out is struck from it in place.
        log_probabilities[:, list(never)] = -torch.inf
        if self.transforms:
            allowed = log_probabilities
            for transform in self.transforms:
                allowed = transform(allowed, beams.paths)
            log_probabilities.masked_fill_(allowed == -torch.inf, -torch.inf)
        if self.forced_start is not None and beams.paths.length == 0:
            log_probabilities.fill_(-torch.inf)
            log_probabilities[:, self.forced_start] = 0.0
        if self.forced_end:
            last = torch.tensor(self.at_limit(beams), device=logits.device)
            last = last.repeat_interleave(len(logits) // len(beams.sentences))
            log_probabilities[last] = -torch.inf
            log_probabilities[last, self.decoder.config.end_id] = 0.0
        return log_probabilities

    def at_limit(self, beams: _Beams[S]) -> list[bool]:
        """For each sentence whether this step's token is the last one within its limit."""
        length = beams.paths.length + 1
        return [length >= self.limits[sentence] for sentence in beams.sentences]

    def ending(self, candidates: _Candidates, beams: _Beams[S]) -> Tensor:
        """(R, beam) bool: which of the best candidates end, or reach the limit."""
        ending, last = candidates.end[:, : self.beam], self.at_limit(beams)
        if any(last):
            ending = ending | torch.tensor(last, device=ending.device)[:, None]
        return ending & (candidates.totals[:, : self.beam] > -torch.inf)

    def finish(self, candidates: _Candidates, ending: Tensor, beams: _Beams[S]) -> None:
        """Score the candidates that end, or reach the limit, and add them to the n-best list of their sentence."""
        first = slice(0, self.beam)
        if not ending.any():
            return
        parents = candidates.parents[:, first][ending]
        totals = candidates.totals[:, first][ending]
        scores = self.scores(totals, parents, beams.paths.length + 1, beams)
        positions = ending.nonzero()[:, 0].tolist()
        kept: list[int] = []
        for place, (position, score) in enumerate(zip(positions, scores, strict=True)):
            if self.results[beams.sentences[position]].admits(score):
                kept.append(place)
        if not kept:
            return
        chosen = torch.tensor(kept, device=parents.device)
        paths = beams.paths.advanced(
            parents[chosen],
            candidates.tokens[:, first][ending][chosen],
            candidates.log_probabilities[:, first][ending][chosen],
        )
        finished = paths.hypotheses(
            end_id=self.decoder.config.end_id,
            finished=are_among(paths.tokens[:, -1], self.ends).tolist(),
            scores=[scores[place] for place in kept],
        )
        for place, hypothesis in zip(kept, finished, strict=True):
            self.results[beams.sentences[positions[place]]].add(hypothesis)

    def scores(self, totals: Tensor, parents: Tensor, length: int, beams: _Beams[S]) -> list[float]:
        """(log P / lp + cp) of candidates of one length, with the coverage of the rows they continue."""
        divisor = self.length_penalty(length)
        normalised = [total / divisor for total in totals.tolist()]
        if self.coverage_penalty is None or beams.coverage is None:
            return normalised
        penalties = self.coverage_penalty(
            beams.coverage[parents], beams.state.source_valid[parents // beams.state.width]
        )
        return [score + penalty for score, penalty in zip(normalised, penalties.tolist(), strict=True)]

    def go_on(self, candidates: _Candidates, beams: _Beams[S]) -> _Beams[S] | None:
        """The best candidates that do not end, of the sentences that are not done; other rows leave the batch."""
        totals = candidates.totals.masked_fill(candidates.end, -torch.inf)
        totals, order = totals.sort(dim=1, descending=True, stable=True)
        totals, order = totals[:, : self.beam], order[:, : self.beam]
        parents = candidates.parents.gather(1, order)
        log_probabilities = candidates.log_probabilities.gather(1, order)
        paths = beams.paths.advanced(
            parents.flatten(),
            candidates.tokens.gather(1, order).flatten(),
            # An end token that took an empty place must not come to life: its total stays minus infinity.
            log_probabilities.masked_fill(totals == -torch.inf, -torch.inf).flatten(),
        )
        length = paths.length
        best = zip(beams.sentences, totals[:, 0].tolist(), strict=True)
        staying = [position for position, (sentence, total) in enumerate(best) if self.goes_on(sentence, total, length)]
        if not staying:
            return None
        rows, keep = parents.flatten(), None
        if len(staying) < len(beams.sentences):
            keep = torch.tensor(staying, device=parents.device)
            rows = parents[keep].flatten()
            slots = torch.arange(self.beam, device=parents.device)
            paths = paths.select((keep[:, None] * self.beam + slots).flatten())
        return _Beams(
            sentences=[beams.sentences[position] for position in staying],
            paths=paths,
            tokens=paths.tokens[:, -1],
            state=beams.state.reorder(rows, keep),
            coverage=None if beams.coverage is None else beams.coverage.index_select(0, rows),
        )

    def goes_on(self, sentence: int, total: float, length: int) -> bool:
        """Whether a sentence is not done, given log-probability and length of its best live hypothesis."""
        limit, best = self.limits[sentence], self.results[sentence]
        if length >= limit or total == -math.inf:
            return False
        if self.early_stopping is not None and best.seen >= self.early_stopping:
            return False
        return best.room > 0 or best.threshold < total / self.length_penalty(length if self.estimated else limit)


# The best finished hypotheses of one sentence.


class NBest:
    """At most `size` hypotheses, best first; ties are ordered by the time of insertion.

    Arguments:
        size: n, at least 1.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.hypotheses: list[Hypothesis] = []
        self.seen = 0

    @property
    def threshold(self) -> float:
        """The score that a hypothesis must exceed; minus infinity while there is room."""
        return self.hypotheses[-1].score if len(self.hypotheses) == self.size else -math.inf

    @property
    def room(self) -> int:
        """The number of hypotheses still missing."""
        return self.size - len(self.hypotheses)

    def admits(self, score: float) -> bool:
        """Whether a hypothesis with this score is among the best; called once for each finished hypothesis."""
        self.seen += 1
        return self.room > 0 or score > self.threshold

    def add(self, hypothesis: Hypothesis) -> None:
        """Insert a hypothesis; if the list was full, the last one is removed."""
        insort_right(self.hypotheses, hypothesis, key=lambda other: -other.score)
        del self.hypotheses[self.size :]
