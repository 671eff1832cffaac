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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
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

    sources: Tensor
    tokens: Tensor
    log_probabilities: Tensor
    totals: Tensor
    rows: Tensor

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
    def length(self) -> int:
        """T, tokens emitted so far."""
        return self.tokens.shape[1]

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def select(self, rows: Tensor) -> Paths:
        """These rows, in that order, between two calls of the decoder."""
        return Paths(
            sources=self.sources.index_select(0, rows),
            tokens=self.tokens.index_select(0, rows),
            log_probabilities=self.log_probabilities.index_select(0, rows),
            totals=self.totals.index_select(0, rows),
            rows=self.rows.index_select(0, rows),
        )

    def advanced(self, parents: Tensor, tokens: Tensor, log_probabilities: Tensor) -> Paths:
        """The paths one call later: row i continues row `parents[i]` with `tokens[i]`.

        Arguments:
            parents: (M,) int64, rows of the last call.
            tokens: (M,) int64.
            log_probabilities: (M,) float32.
        """
        return self.select(parents)._followed(parents, tokens, log_probabilities)

    def lengthened(self, tokens: Tensor, log_probabilities: Tensor) -> Paths:
        """`advanced` with each row continuing itself."""
        return self._followed(torch.arange(len(self), device=tokens.device), tokens, log_probabilities)

    def _followed(self, rows: Tensor, tokens: Tensor, log_probabilities: Tensor) -> Paths:
        return Paths(
            sources=self.sources,
            tokens=torch.cat((self.tokens, tokens[:, None]), dim=1),
            log_probabilities=torch.cat((self.log_probabilities, log_probabilities[:, None]), dim=1),
            totals=self.totals + log_probabilities,
            rows=torch.cat((self.rows, rows[:, None]), dim=1),
        )

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
