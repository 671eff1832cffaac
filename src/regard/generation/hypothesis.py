"""The hypotheses of a search, the paths in progress, and observers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regard.layers import Source


@dataclass(frozen=True, kw_only=True, slots=True)
class Hypothesis:
    """A target sequence that a search found, with its probabilities.

    Each of k calls of `decoder.step` emits one token, so `len(token_log_probabilities) == len(rows) == k`. This number is
    |Y|; it counts the end token, if there is one.

    Arguments:
        tokens: the ids, without start and end token; a stop sequence is kept.
        finished: True = ended by the end token or a stop rule, False = cut at the maximum length.
        log_probability: sum of `token_log_probabilities` in natural-log units, accumulated in float32.
        score: the value by which hypotheses are ranked: log-probability / length penalty + coverage penalty.
        token_log_probabilities: of each emitted token, with the end token; by the model, before any transform.
        rows: `rows[t]` is the batch row of this hypothesis in call t of `decoder.step`; call 0 consumes the start token.
            With it the record of all calls gives the record of this hypothesis.

    >>> Hypothesis(tokens=(5,), finished=True, log_probability=-3.0, score=-1.5,
    ...            token_log_probabilities=(-1.0, -2.0), rows=(0, 3)).length
    2
    """

    tokens: tuple[int, ...]
    finished: bool
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...]
    rows: tuple[int, ...]

    @property
    def length(self) -> int:
        """|Y|, the number of emitted tokens, with the end token."""
        return len(self.token_log_probabilities)


# The hypotheses that are under way, one per row of the decoder's batch.


class Paths:
    """The tokens that each of N rows has emitted in T steps, and its previous rows. Transforms and stop rules read it.

    Arguments:
        sources: (N,) int64, the source row of each row.
        tokens: (N, T) int64, emitted so far, without the start token.
        log_probabilities: (N, T) float32, of these tokens.
        totals: (N,) float32, their sums.
        rows: (N, T) int64, the batch row of each path in each call of `decoder.step`.

    >>> paths = Paths.begin(2, "cpu")
    >>> paths = paths.advanced(torch.tensor([1, 1]), torch.tensor([7, 8]), torch.tensor([-1.0, -2.0]))
    >>> paths.tokens.tolist(), paths.rows.tolist(), paths.sources.tolist()
    ([[7], [8]], [[1], [1]], [1, 1])
    """

    __slots__ = ("_later", "_whole", "sources")

    def __init__(
        self, *, sources: Tensor, tokens: Tensor, log_probabilities: Tensor, totals: Tensor, rows: Tensor
    ) -> None:
        self.sources = sources
        self._whole = (tokens, log_probabilities, totals, rows)
        # Of the steps after, in which each row continued itself; put together with those before when somebody reads them.
        self._later: tuple[tuple[Tensor, Tensor], ...] = ()

    @classmethod
    def begin(cls, count: int, device: torch.device | str) -> Paths:
        """One empty path for each of `count` sources."""
        return cls(
            sources=torch.arange(count, device=device),
            tokens=torch.empty(count, 0, dtype=torch.long, device=device),
            log_probabilities=torch.empty(count, 0, dtype=torch.float32, device=device),
            totals=torch.zeros(count, dtype=torch.float32, device=device),
            rows=torch.empty(count, 0, dtype=torch.long, device=device),
        )

    @property
    def tokens(self) -> Tensor:
        """(N, T) int64, emitted so far, without the start token."""
        return self._columns()[0]

    @property
    def log_probabilities(self) -> Tensor:
        """(N, T) float32, of these tokens."""
        return self._columns()[1]

    @property
    def rows(self) -> Tensor:
        """(N, T) int64, the batch row of each path in each call of `decoder.step`."""
        return self._columns()[3]

    @property
    def totals(self) -> Tensor:
        """(N,) float32, the sums of the log-probabilities."""
        return self._columns()[2]

    @property
    def newest(self) -> tuple[Tensor, Tensor]:
        """The last token of each row and its log-probability, (N,) each, after one step at least."""
        return self._later[-1] if self._later else (self.tokens[:, -1], self.log_probabilities[:, -1])

    @property
    def length(self) -> int:
        """T, tokens emitted so far."""
        return self._whole[0].shape[1] + len(self._later)

    def __len__(self) -> int:
        return self.sources.shape[0]

    def _columns(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if self._later:
            tokens, log_probabilities, totals, rows = self._whole
            for _, more in self._later:
                totals = totals + more
            later, of_later = (torch.stack(steps, dim=1) for steps in zip(*self._later, strict=True))
            own = torch.arange(len(self), device=rows.device)[:, None].expand_as(later)
            tokens, rows = torch.cat((tokens, later), dim=1), torch.cat((rows, own), dim=1)
            self._whole = tokens, torch.cat((log_probabilities, of_later), dim=1), totals, rows
            self._later = ()
        return self._whole

    def select(self, rows: Tensor) -> Paths:
        """These rows, in that order, between two calls of the decoder."""
        tokens, log_probabilities, totals, before = (part.index_select(0, rows) for part in self._columns())
        return Paths(
            sources=self.sources.index_select(0, rows),
            tokens=tokens,
            log_probabilities=log_probabilities,
            totals=totals,
            rows=before,
        )

    def advanced(self, parents: Tensor, tokens: Tensor, log_probabilities: Tensor) -> Paths:
        """The paths one call later: row i continues row `parents[i]` with `tokens[i]`.

        Arguments:
            parents: (M,) int64, rows of the last call.
            tokens: (M,) int64.
            log_probabilities: (M,) float32.
        """
        chosen = self.select(parents)
        return Paths(
            sources=chosen.sources,
            tokens=torch.cat((chosen.tokens, tokens[:, None]), dim=1),
            log_probabilities=torch.cat((chosen.log_probabilities, log_probabilities[:, None]), dim=1),
            totals=chosen.totals + log_probabilities,
            rows=torch.cat((chosen.rows, parents[:, None]), dim=1),
        )

    def lengthened(self, tokens: Tensor, log_probabilities: Tensor) -> Paths:
        """`advanced` with each row continuing itself."""
        longer = object.__new__(Paths)
        longer.sources, longer._whole = self.sources, self._whole
        longer._later = (*self._later, (tokens, log_probabilities))
        return longer

    def hypotheses(self, *, end_id: int, finished: Sequence[bool], scores: Sequence[float]) -> list[Hypothesis]:
        """Every row as a hypothesis; a final end token counts, but is not among its tokens."""
        columns = (self.tokens, self.log_probabilities, self.totals, self.rows)
        return [
            Hypothesis(
                tokens=tuple(tokens[:-1] if tokens and tokens[-1] == end_id else tokens),
                finished=complete,
                log_probability=total,
                score=score,
                token_log_probabilities=tuple(parts),
                rows=tuple(rows),
            )
            for tokens, parts, total, rows, complete, score in zip(
                *(column.tolist() for column in columns), finished, scores, strict=True
            )
        ]


# Who wants to know that a search happens.


class SearchObserver(Protocol):
    """Called at the beginning and the end of a search, so that a recording of the calls in between can be sorted.

    Between the two calls the search calls `decoder.start` once and then `decoder.step` for call 0, 1, 2, ...;
    `Hypothesis.rows` holds the row of a hypothesis in each call. A search over no sentences makes no call of the decoder.
    A search that raises, or a stream that is not read to the end, is not reported as finished.
    """

    def search_started(self, source: Source) -> None:
        """Called before `decoder.start`, with its batch."""
        ...

    def search_finished(self, hypotheses: list[list[Hypothesis]]) -> None:
        """Called at the end, with the hypotheses of each source row, best first."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SearchStep:
    """One step of a beam search: the ranked continuations, and the rows of the next call.

    Arguments:
        sources: the R source rows that are not done.
        parents: (R, C) int64, the row of the last call that each continuation continues; best first.
        tokens: (R, C) int64, the token of each continuation.
        totals: (R, C) float32, log-probability of the whole hypothesis; minus infinity for an empty place.
        ended: (R, C) bool, whether it is complete and was scored.
        next_parents, next_tokens: (N,) int64, for each row of the next call; empty after the last.
    """

    sources: tuple[int, ...]
    parents: Tensor
    tokens: Tensor
    totals: Tensor
    ended: Tensor
    next_parents: Tensor
    next_tokens: Tensor


class StepObserver(SearchObserver, Protocol):
    """A search observer that a beam search also calls after each step."""

    def search_stepped(self, step: SearchStep) -> None:
        """Called after each call of the decoder."""
        ...


class PauseObserver(SearchObserver, Protocol):
    """A search observer that is also called between the steps of any search, beam or not."""

    def search_paused(self) -> None:
        """Called after each call of the decoder and the choice of the next tokens; an exception ends the search."""
        ...
