"""The tree of a beam search: every continuation that it ranked, including those that it dropped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from regard.generation.hypothesis import Hypothesis, SearchStep


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """A continuation that was ranked.

    Arguments:
        step: from 0.
        parent: the continuation before it, an index in `BeamTree.tried`; None at the beginning.
        token: its id.
        log_probability: of all tokens up to it, natural log.
        fate: `kept` in the beam; `ended` = complete and scored; `dropped` = others were better.
    """

    step: int
    parent: int | None
    token: int
    log_probability: float
    fate: Literal["kept", "ended", "dropped"]


class BeamTree:
    """Observes a beam search, and stores the continuations of one source row (`regard.tasks.Predictor.observing`).

    For greedy search and sampling it stores only the hypotheses.

    Arguments:
        source: the row, from 0.
    """

    def __init__(self, source: int = 0) -> None:
        self.source = source
        self.tried: list[Tried] = []
        self.hypotheses: list[Hypothesis] = []
        self._rows: dict[int, int | None] = {}
        self._step = 0

    def search_started(self, source: Any) -> None:
        """Clear the tree."""
        self.tried, self.hypotheses, self._step = [], [], 0
        self._rows = {self.source: None}

    def search_stepped(self, step: SearchStep) -> None:
        """Store the continuations of the source row."""
        if self.source not in step.sources:
            return
        place = step.sources.index(self.source)
        following = list(zip(step.next_parents.tolist(), step.next_tokens.tolist(), strict=True))
        columns = (each[place].tolist() for each in (step.parents, step.tokens, step.totals, step.ended))
        made: dict[tuple[int, int], int] = {}
        for parent, token, total, ended in zip(*columns, strict=True):
            if total == -math.inf:
                continue
            fate: Any = "ended" if ended else "kept" if (parent, token) in following else "dropped"
            made[parent, token] = len(self.tried)
            self.tried.append(
                Tried(step=self._step, parent=self._rows[parent], token=token, log_probability=total, fate=fate)
            )
        self._rows = {row: made[each] for row, each in enumerate(following) if each in made}
        self._step += 1

    def search_finished(self, hypotheses: list[list[Hypothesis]]) -> None:
        """Store the best hypotheses."""
        self.hypotheses = hypotheses[self.source]

    def path(self, place: int) -> tuple[int, ...]:
        """The tokens from the beginning to a continuation."""
        found, at = [], place
        while at is not None:
            found.append(self.tried[at].token)
            at = self.tried[at].parent
        return tuple(reversed(found))

    def place_of(self, hypothesis: Hypothesis) -> int | None:
        """The index in `tried` at which a hypothesis was complete; None if no beam search found it."""
        for place, each in enumerate(self.tried):
            complete = each.fate == "ended" and each.step + 1 == hypothesis.length
            if complete and self.path(place)[: len(hypothesis.tokens)] == hypothesis.tokens:
                return place
        return None

    def read(self, tokens: Any) -> None:
        """Does nothing: texts that are read in parts are not stored."""

    def predicted(self, predictions: Any, hypotheses: Any) -> None:
        """Does nothing: predictions are not stored."""
