"""Exact match and F1 of answers: what normalising takes away, missing predictions, thresholds."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.metrics.answers import exact_match, normalized, squad2_scores, squad_scores, squad_values, token_f1

texts = st.text(st.sampled_from("aAnN thTHeE.,'-’éß \t\n\u00a0中1_"), max_size=12)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The  Cat", "cat"),
        ("the-cat", "thecat"),
        ("a. an the", ""),
        ("another theatre", "another theatre"),
        ("l'été — “quoted”", "lété — “quoted”"),
        ("\u00a0a\u2028b ", "b"),
        ("ΑΣ İ", "ας i̇"),
    ],
)
def test_normalising(text: str, wanted: str) -> None:
    assert normalized(text) == wanted


@given(prediction=texts, answers=st.lists(texts, min_size=1, max_size=3))
@settings(max_examples=200, deadline=None)
def test_exact_is_best_and_more_answers_never_score_less(prediction: str, answers: list[str]) -> None:
    exact, f1 = exact_match(answers, prediction), token_f1(answers, prediction)
    assert exact in (0.0, 1.0)
    assert 0.0 <= f1 <= 1.0
    if exact and normalized(prediction):
        assert f1 == 1.0
    assert exact == max(exact_match([answer], prediction) for answer in answers)
    assert f1 == max(token_f1([answer], prediction) for answer in answers)
    assert token_f1([answers[0]], prediction) == pytest.approx(token_f1([prediction], answers[0]))
    assert normalized(normalized(prediction)) == normalized(prediction)


def test_words_count_as_often_as_they_stand() -> None:
    assert token_f1(["to be"], "to be or not to be") == pytest.approx(2 * (2 / 6) * 1 / (2 / 6 + 1))
    assert token_f1(["to be"], "be be") == 0.5


def test_a_question_without_a_prediction_scores_nothing_and_counts() -> None:
    answers = {"1": ["Paris"], "2": ["Rome"]}
    assert squad_scores(answers, {"1": "Paris", "other": "x"}).exact_match == 50.0
    assert squad_values(answers, {"2": "in Rome"}) == ({"1": 0.0, "2": 0.0}, {"1": 0.0, "2": pytest.approx(2 / 3)})


def test_questions_that_the_metric_cannot_judge_are_named() -> None:
    with pytest.raises(InputError, match="'2' has no answer"):
        squad_scores({"1": ["Paris"], "2": []}, {"1": "Paris"})
    with pytest.raises(InputError, match=r"1 of 2 questions have no prediction \('2'\)"):
        squad2_scores({"1": ["Paris"], "2": []}, {"1": "Paris"})
    with pytest.raises(InputError, match="no-answer probability"):
        squad2_scores({"1": ["Paris"]}, {"1": "Paris"}, {})
    for metric in (squad_scores, squad2_scores):
        with pytest.raises(InputError, match="no question"):
            metric({}, {})


def test_only_one_kind_of_question() -> None:
    scores = squad2_scores({"1": ["Paris"]}, {"1": "Paris"})
    assert scores.no_answer is None
    assert scores.has_answer == scores.overall
    scores = squad2_scores({"1": []}, {"1": ""})
    assert scores.has_answer is None
    assert scores.overall.f1 == 100.0


def test_the_threshold_silences_what_is_above_it() -> None:
    answers, said = {"1": ["Paris"], "2": []}, {"1": "Paris", "2": "May"}
    odds = {"1": 0.4, "2": 0.6}
    assert squad2_scores(answers, said, odds).overall.f1 == 50.0
    assert squad2_scores(answers, said, odds, threshold=0.6).overall.f1 == 50.0  # above, not at
    assert squad2_scores(answers, said, odds, threshold=0.5).overall.f1 == 100.0
    assert squad2_scores(answers, said, odds, threshold=0.1).has_answer.exact_match == 0.0  # type: ignore[union-attr]


odds_lists = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 5)), min_size=1, max_size=12)


@given(questions=odds_lists)
@settings(max_examples=100, deadline=None)
def test_no_threshold_is_better_than_the_best_one(questions: list[tuple[bool, bool, int]]) -> None:
    answers = {str(number): ["Paris"] if has else [] for number, (has, _, _) in enumerate(questions)}
    said = {str(number): "Paris" if right == has else "" for number, (has, right, _) in enumerate(questions)}
    odds = {str(number): float(number) + rank / 10 for number, (_, _, rank) in enumerate(questions)}
    best = squad2_scores(answers, said, odds).best_exact_match
    assert best is not None
    tried = [
        squad2_scores(answers, said, odds, threshold=threshold).overall.exact_match
        for threshold in (-1.0, *odds.values())
    ]
    assert best.score == pytest.approx(max(tried))


def test_results_are_plain_values() -> None:
    scores = squad2_scores({"1": ["Paris"], "2": []}, {"1": "Paris", "2": ""}, {"1": 0.1, "2": 0.9})
    assert json.loads(json.dumps(asdict(scores)))["best_f1"] == {"score": 100.0, "threshold": 0.1}
