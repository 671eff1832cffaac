"""What was found in the windows of a question: the best passages, and whether there is one at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

N_BEST = 20
"""Passages that a probability is among, unless more are asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A passage of a context that may answer a question.

    Arguments:
        text: the passage, as it stands in the context.
        start, end: where, in characters; `context[start:end]` is the text.
        probability: among the best passages of all windows, and where that is a choice also that there is no answer.
        start_logit, end_logit: of its first and its last token.
    """

    text: str
    start: int
    end: int
    probability: float
    start_logit: float
    end_logit: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a model answers to a question.

    Arguments:
        question: what was asked.
        text: the answer, as it stands in the context; empty where the model says that there is none.
        start, end: where, in characters; `context[start:end]` is the text. None where there is no answer.
        probability: of this answer, among the best passages of all windows.
        passages: the best passages, as many as asked for, each with another text: the answer first, where there is one.
        no_answer_probability: that there is no answer, among the same; None for a model that always gives one.
        no_answer_score: the score of there being none, less that of the best passage; there is no answer where this is above the
            threshold.
        id: of the question, where it was read with one.
    """

    question: str
    text: str
    start: int | None
    end: int | None
    probability: float
    passages: tuple[Passage, ...] = ()
    no_answer_probability: float | None = None
    no_answer_score: float | None = None
    id: str = ""

    @property
    def alternatives(self) -> tuple[Passage, ...]:
        """The passages that the answer was preferred to."""
        return self.passages if self.start is None else self.passages[1:]


@dataclass(frozen=True, slots=True)
class _Found:
    text: str
    start: int
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        return self.start_logit + self.end_logit


class Findings:
    """The best passages of one question, gathered window by window; the memory does not grow with the context.

    Of passages with the same text only the best is kept, as in the authors' code; of equal ones the first in the context.

    Arguments:
        context: what they are of.
        keep: how many.
    """

    def __init__(self, context: str, keep: int = N_BEST) -> None:
        self._context = context
        self.keep = keep
        self._found: list[_Found] = []
        self.no_answer = math.inf
        """The score of there being no answer: the lowest of all windows (the authors' code), each of which must hold none."""

    def add(self, passages: Sequence[tuple[float, float, int, int]], no_answer: float) -> None:
        """What one window holds.

        Arguments:
            passages: logit of the start and of the end, and where the passage stands in the context, in characters.
            no_answer: the sum of the two logits at [CLS].
        """
        self.no_answer = min(self.no_answer, no_answer)
        for start_logit, end_logit, start, end in passages:
            text = self._context[start:end]
            if bare := text.strip():  # tokens of some kinds have the space before them in them
                self._found.append(_Found(bare, start + len(text) - len(text.lstrip()), start_logit, end_logit))
        best: dict[str, _Found] = {}
        for found in sorted(self._found, key=lambda found: (-found.score, found.start, len(found.text))):
            best.setdefault(found.text, found)
            if len(best) == self.keep:
                break
        self._found = list(best.values())

    def wants(self, score: float) -> bool:
        """Whether a passage of this score may be among the best."""
        return len(self._found) < self.keep or self._found[-1].score < score

    def passages(self, *, with_none: bool) -> tuple[list[Passage], float | None]:
        """The best passages, and the probability that there is no answer.

        Arguments:
            with_none: whether that there is none is one of the choices; the probability is None otherwise.
        """
        found = self._found
        scores = [each.score for each in found] + ([self.no_answer] if with_none else [])
        highest = max(scores, default=0.0)
        shares = [math.exp(score - highest) for score in scores]
        total = math.fsum(shares)
        passages = [
            Passage(
                text=each.text,
                start=each.start,
                end=each.start + len(each.text),
                probability=share / total,
                start_logit=each.start_logit,
                end_logit=each.end_logit,
            )
            for each, share in zip(found, shares, strict=False)
        ]
        return passages, shares[-1] / total if with_none else None

    def answer(self, question: str, *, n_best: int, threshold: float | None) -> Answer:
        """The best passage, or that there is none.

        Arguments:
            n_best: passages told.
            threshold: the lead of "no answer" over the best passage above which it is believed; None = never.
        """
        passages, none = self.passages(with_none=threshold is not None)
        lead: float | None = None
        if threshold is not None:
            lead = self.no_answer - (passages[0].start_logit + passages[0].end_logit) if passages else math.inf
        best = (
            None if not passages or (threshold is not None and lead is not None and lead > threshold) else passages[0]
        )
        return Answer(
            question=question,
            text="" if best is None else best.text,
            start=None if best is None else best.start,
            end=None if best is None else best.end,
            probability=best.probability if best is not None else 1.0 if none is None else none,
            passages=tuple(passages[:n_best]),
            no_answer_probability=none,
            no_answer_score=lead,
        )
