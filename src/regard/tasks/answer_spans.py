"""From the logits of windows to an answer: the best spans, what is found of one question, and the official metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.metrics.answers import squad2_scores, squad_scores


class BestSpans(NamedTuple):
    """The best passages of each window, the best first.

    Arguments:
        scores: (B, N) float32, the sum of the two logits; -inf where a window has fewer passages.
        starts, ends: (B, N) int64, the places of the first and the last token.
    """

    scores: Tensor
    starts: Tensor
    ends: Tensor


def best_spans(
    start: Tensor, end: Tensor, *, may_start: Tensor, may_end: Tensor, maximum: int, count: int
) -> BestSpans:
    """The passages with the highest scores (Devlin et al. 2019, section 4.2).

        score(i, j) = start_i + end_j,   i <= j < i + maximum

    All pairs that are allowed are compared, as a band next to the diagonal. The authors' code compares those of the best
    `count` starts and the best `count` ends, which may miss the best pair.

    Arguments:
        start, end: (B, L), the logits.
        may_start, may_end: (B, L) bool, True = a passage may begin, or end, with this token.
        maximum: the most tokens of a passage.
        count: the most passages of a window.

    >>> start, end, every = torch.tensor([[0.0, 2.0, 1.0]]), torch.tensor([[3.0, 0.0, 1.0]]), torch.ones(1, 3, dtype=torch.bool)
    >>> found = best_spans(start, end, may_start=every, may_end=every, maximum=2, count=2)
    >>> found.starts.tolist(), found.ends.tolist(), found.scores.tolist()
    ([[0, 1]], [[0, 2]], [[3.0, 3.0]])
    """
    length = start.shape[1]
    width = min(maximum, length)
    first = start.float().masked_fill(~may_start, -torch.inf)
    last = F.pad(end.float().masked_fill(~may_end, -torch.inf), (0, width - 1), value=-torch.inf)
    scores = first.unsqueeze(2) + last.unfold(1, width, 1)  # at [b, i, d] of the passage from i to i + d
    found, places = scores.flatten(1).topk(min(count, length * width))
    starts = places // width
    return BestSpans(found, starts, starts + places % width)


N_BEST = 20
"""Passages that a probability is among, unless more are asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A passage of a context that may answer a question.

    Arguments:
        text: the passage, as it is in the context.
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
        text: the answer, as it is in the context; empty where the model says that there is none.
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
            passages: logit of the start and of the end, and where the passage is in the context, in characters.
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
            n_best: number of passages returned.
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


THRESHOLD = "no_answer_threshold"
"""The metric that says above which lead "no answer" is believed."""


def answer_metrics(
    answers: Sequence[Sequence[str]], said: Sequence[Answer], *, threshold: float | None
) -> dict[str, float]:
    """The metrics of answers, as shares; apart for questions with and without an answer where there are both.

    Arguments:
        answers: the right ones to each question; none where there is none.
        said: what the model answers, asked for one passage at least.
        threshold: the lead above which "no answer" is believed; None = the one that gives the best F1. It is no matter where the
            model does not tell leads.
    """
    right = {str(number): texts for number, texts in enumerate(answers)}
    leads = {str(number): answer.no_answer_score for number, answer in enumerate(said)}
    known = {id: lead for id, lead in leads.items() if lead is not None}
    texts = {str(number): answer.passages[0].text if answer.passages else "" for number, answer in enumerate(said)}
    if not known and all(right.values()):
        scores = squad_scores(right, texts)
        return {"exact_match": scores.exact_match / 100, "f1": scores.f1 / 100}
    limit = _best_threshold(right, texts, known) if threshold is None and known else threshold
    found = squad2_scores(right, texts, known, threshold=limit or 0.0) if known else squad2_scores(right, texts)
    metrics = {"exact_match": found.overall.exact_match / 100, "f1": found.overall.f1 / 100}
    if found.has_answer is not None and found.no_answer is not None:
        for group, part in (("has_answer", found.has_answer), ("no_answer", found.no_answer)):
            metrics |= {f"exact_match.{group}": part.exact_match / 100, f"f1.{group}": part.f1 / 100}
    if known and found.best_f1 is not None:
        metrics |= {THRESHOLD: limit or 0.0, "f1.best": found.best_f1.score / 100}
    return metrics


def _best_threshold(right: Mapping[str, Sequence[str]], texts: Mapping[str, str], leads: Mapping[str, float]) -> float:
    """The lead above which "no answer" is to be believed for the best F1.

    The official search gives a lead that some question has; what is halfway to the next larger one scores the same there, and
    is likelier to do so elsewhere.
    """
    best = squad2_scores(right, texts, leads).best_f1
    # It also gives 0 where silence is best throughout, which is right for probabilities, not for leads.
    silent = 100 * sum(not answers for answers in right.values()) / len(right)
    if best is None or best.score <= silent:
        return min(leads.values()) - 1.0
    larger = min((lead for lead in leads.values() if lead > best.threshold), default=best.threshold)
    return (best.threshold + larger) / 2
