"""From the logits of windows to an answer: the best spans, the candidates of one question, and the official metrics."""

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
        starts, ends: (B, N) int64, the positions of the first and the last token.
    """

    scores: Tensor
    starts: Tensor
    ends: Tensor


def best_spans(
    start: Tensor, end: Tensor, *, may_start: Tensor, may_end: Tensor, maximum: int, count: int
) -> BestSpans:
    """The passages with the highest scores (Devlin et al. 2019, section 4.2).

        score(i, j) = start_i + end_j,   i <= j < i + maximum

    All allowed pairs are compared, as a band along the diagonal. The authors' code compares only pairs of the best `count` starts
    and the best `count` ends, which may miss the best pair.

    Arguments:
        start, end: (B, L), the logits.
        may_start, may_end: (B, L) bool, True = a passage may begin, or end, with this token.
        maximum: the maximum number of tokens of a passage.
        count: the maximum number of passages of a window.

    >>> start, end, every = torch.tensor([[0.0, 2.0, 1.0]]), torch.tensor([[3.0, 0.0, 1.0]]), torch.ones(1, 3, dtype=torch.bool)
    >>> found = best_spans(start, end, may_start=every, may_end=every, maximum=2, count=2)
    >>> found.starts.tolist(), found.ends.tolist(), found.scores.tolist()
    ([[0, 1]], [[0, 2]], [[3.0, 3.0]])
    """
    length = start.shape[1]
    width = min(maximum, length)
    first = start.float().masked_fill(~may_start, -torch.inf)
    last = F.pad(end.float().masked_fill(~may_end, -torch.inf), (0, width - 1), value=-torch.inf)
    scores = first.unsqueeze(2) + last.unfold(1, width, 1)  # scores[b, i, d]: the passage from i to i + d
    found, places = scores.flatten(1).topk(min(count, length * width))
    starts = places // width
    return BestSpans(found, starts, starts + places % width)


N_BEST = 20
"""The number of passages over which probabilities are normalised, unless more are requested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A passage of a context that may answer a question.

    Arguments:
        text: the text of the passage.
        start, end: its position in characters; `context[start:end]` is the text.
        probability: a softmax over the best passages of all windows and, if the model can abstain, "no answer".
        start_logit, end_logit: the start logit of its first token, and the end logit of its last token.
    """

    text: str
    start: int
    end: int
    probability: float
    start_logit: float
    end_logit: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The prediction of a model for one question.

    Arguments:
        question: the question.
        text: the answer, a passage of the context; empty if the model predicts that there is no answer.
        start, end: its position in characters; `context[start:end]` is the text. None if there is no answer.
        probability: the probability of this answer, a softmax over the best passages of all windows and "no answer".
        passages: the best passages, with different texts, best first; as many as requested.
        no_answer_probability: the probability of "no answer" in the same softmax; None for a model that always answers.
        no_answer_score: the score of "no answer" minus the score of the best passage; "no answer" is predicted if this is above
            the threshold.
        id: the id of the question in its file; empty if it has none.
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
        """The passages with lower scores than the answer."""
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
    """The best passages of one question, collected window by window, in memory that does not grow with the context.

    Of passages with the same text only the best is kept, as in the authors' code; of equal scores the first in the context.

    Arguments:
        context: the context.
        keep: the number of passages to keep.
    """

    def __init__(self, context: str, keep: int = N_BEST) -> None:
        self._context = context
        self.keep = keep
        self._found: list[_Found] = []
        self.no_answer = math.inf
        """The score of "no answer": the minimum over windows, as in the authors' code, because no window may have an answer."""

    def add(self, passages: Sequence[tuple[float, float, int, int]], no_answer: float) -> None:
        """Add the passages of one window.

        Arguments:
            passages: (start logit, end logit, start, end) of each passage; the positions are characters of the context.
            no_answer: the sum of the two logits at [CLS].
        """
        self.no_answer = min(self.no_answer, no_answer)
        for start_logit, end_logit, start, end in passages:
            text = self._context[start:end]
            if bare := text.strip():  # the tokens of some tokenizers include the space before them
                self._found.append(_Found(bare, start + len(text) - len(text.lstrip()), start_logit, end_logit))
        best: dict[str, _Found] = {}
        for found in sorted(self._found, key=lambda found: (-found.score, found.start, len(found.text))):
            best.setdefault(found.text, found)
            if len(best) == self.keep:
                break
        self._found = list(best.values())

    def wants(self, score: float) -> bool:
        """Whether a passage with this score may be one of the best."""
        return len(self._found) < self.keep or self._found[-1].score < score

    def passages(self, *, with_none: bool) -> tuple[list[Passage], float | None]:
        """The best passages, best first, and the probability of "no answer".

        Arguments:
            with_none: whether "no answer" is part of the softmax; else its probability is None.
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
        """The best passage, or "no answer".

        Arguments:
            n_best: the number of passages to return.
            threshold: "no answer" is predicted if its score minus that of the best passage is above this; None = never.
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
"""The metric with the threshold above which "no answer" is predicted."""


def answer_metrics(
    answers: Sequence[Sequence[str]], said: Sequence[Answer], *, threshold: float | None
) -> dict[str, float]:
    """Exact match and F1 in [0, 1]; also of questions with and without an answer separately, if there are both.

    Arguments:
        answers: the correct answers of each question; empty if it has none.
        said: the predictions, with at least one passage each.
        threshold: "no answer" is predicted above this score difference; None = the threshold with the best F1. Ignored if the
            predictions have no `no_answer_score`.
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
    """The threshold for "no answer" with the best F1.

    The official search returns the score difference of one of the questions. This returns the middle between that value and the
    next larger one, which has the same F1 on these questions and is more robust on others.
    """
    best = squad2_scores(right, texts, leads).best_f1
    # If "no answer" is best for all questions, the search returns 0, which is right for probabilities but not for differences.
    silent = 100 * sum(not answers for answers in right.values()) / len(right)
    if best is None or best.score <= silent:
        return min(leads.values()) - 1.0
    larger = min((lead for lead in leads.values() if lead > best.threshold), default=best.threshold)
    return (best.threshold + larger) / 2
