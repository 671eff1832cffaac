"""Answers against the right ones, by the official metrics of SQuAD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regard.metrics.answers import squad2_scores, squad_scores
from regard.tasks.question_answering.findings import Answer

THRESHOLD = "no_answer_threshold"
"""The metric that says above which lead "no answer" is believed."""


def judged(answers: Sequence[Sequence[str]], said: Sequence[Answer], *, threshold: float | None) -> dict[str, float]:
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
