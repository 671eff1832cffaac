"""Metrics of answers: the threshold for "no answer" that is chosen is the best there is, with room on both sides."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.answers import squad2_scores
from regard.tasks.answer_spans import Answer, Passage, answer_metrics


def said(text: str, lead: float | None) -> Answer:
    """An answer of a model that prefers this passage."""
    passage = Passage(text=text, start=0, end=len(text), probability=1.0, start_logit=0.0, end_logit=0.0)
    return Answer(
        question="?", text=text, start=0, end=len(text), probability=1.0, passages=(passage,), no_answer_score=lead
    )


# Answers, whether the passage is right, and the lead of "no answer".
CASES = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.integers(-20, 20)), min_size=1, max_size=12, unique_by=lambda c: c[2]
)


@given(cases=CASES)
@settings(max_examples=100, deadline=None)
def test_no_threshold_gives_a_better_f1_than_the_one_chosen(cases):
    right = [("a b",) if answerable else () for answerable, _, _ in cases]
    answers = [said("a b" if correct else "c", float(lead)) for _, correct, lead in cases]
    found = answer_metrics(right, answers, threshold=None)
    every = {str(i): list(texts) for i, texts in enumerate(right)}
    texts = {str(i): answer.text for i, answer in enumerate(answers)}
    leads = {str(i): float(lead) for i, (_, _, lead) in enumerate(cases)}
    tried = [
        squad2_scores(every, texts, leads, threshold=threshold).overall.f1
        for threshold in [lead + 0.5 for lead in leads.values()] + [-99.0]
    ]
    assert 100 * found["f1"] == pytest.approx(max(tried))
    assert found["f1"] == pytest.approx(found["f1.best"])


def test_the_threshold_stands_halfway_between_those_it_parts():
    right = [("a",), ("a",), (), ()]
    answers = [said("a", -4.0), said("a", -2.0), said("b", 1.0), said("b", 5.0)]
    assert answer_metrics(right, answers, threshold=None)["no_answer_threshold"] == -0.5
    # Silent throughout is best: below every lead.
    assert answer_metrics([(), ()], answers[2:], threshold=None)["no_answer_threshold"] < 1.0
    # A given one is taken as it is.
    found = answer_metrics(right, answers, threshold=-3.0)
    assert (found["no_answer_threshold"], found["f1.has_answer"], found["f1.no_answer"]) == (-3.0, 0.5, 1.0)
    assert found["f1.best"] == 1.0


def test_without_leads_and_with_answers_to_all_it_is_the_first_version():
    assert answer_metrics([("a", "b")], [said("b", None)], threshold=None) == {"exact_match": 1.0, "f1": 1.0}
    mixed = answer_metrics([("a",), ()], [said("a", None), said("b", None)], threshold=None)
    assert mixed == {
        "exact_match": 0.5,
        "f1": 0.5,
        "exact_match.has_answer": 1.0,
        "f1.has_answer": 1.0,
        "exact_match.no_answer": 0.0,
        "f1.no_answer": 0.0,
    }
