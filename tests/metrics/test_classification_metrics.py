"""Accuracy, F1 and Matthews' correlation beside scikit-learn's, and what they say of nothing."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.metrics.classification import accuracy, classification_scores, f1, matthews_correlation

pytestmark = pytest.mark.filterwarnings("ignore:A single label was found")

labels = st.sampled_from(["a", "b", "c", "d"])
examples = st.lists(st.tuples(labels, labels), min_size=1, max_size=40)
two = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)


@given(pairs=examples)
@settings(max_examples=50, deadline=None)
def test_all_scores_are_those_of_scikit_learn(pairs) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    gold, said = map(list, zip(*pairs, strict=True))
    scores = classification_scores(gold, said)
    assert scores.accuracy == accuracy(gold, said) == pytest.approx(metrics.accuracy_score(gold, said))
    for kind in ("macro", "micro", "weighted"):
        wanted = metrics.f1_score(gold, said, average=kind, zero_division=0)
        assert getattr(scores, f"{kind}_f1") == pytest.approx(wanted), kind
    wanted = metrics.precision_recall_fscore_support(gold, said, zero_division=0)
    found = [(score.precision, score.recall, score.f1, score.gold) for score in scores.classes.values()]
    assert found == [pytest.approx(row) for row in zip(*wanted, strict=True)]
    assert list(scores.classes) == sorted({*gold, *said})
    assert scores.matthews_correlation == pytest.approx(metrics.matthews_corrcoef(gold, said))


@given(pairs=two)
@settings(max_examples=50, deadline=None)
def test_two_classes(pairs) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    gold, said = map(list, zip(*pairs, strict=True))
    for positive in (False, True):
        wanted = metrics.f1_score(gold, said, pos_label=positive, zero_division=0)
        assert f1(gold, said, positive=positive) == pytest.approx(wanted)
    assert matthews_correlation(gold, said) == pytest.approx(metrics.matthews_corrcoef(gold, said))


@given(pairs=examples)
@settings(max_examples=50, deadline=None)
def test_some_classes_only(pairs) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    gold, said = map(list, zip(*pairs, strict=True))
    scores = classification_scores(gold, said, labels=["c", "a", "never"])
    assert list(scores.classes) == ["c", "a", "never"]
    for kind in ("macro", "micro", "weighted"):
        wanted = metrics.f1_score(gold, said, labels=["c", "a", "never"], average=kind, zero_division=0)
        assert getattr(scores, f"{kind}_f1") == pytest.approx(wanted), kind


def test_worked_by_hand() -> None:
    gold, said = ["s", "s", "s", "h", "h", "h", "h"], ["s", "s", "h", "h", "h", "h", "s"]
    scores = classification_scores(gold, said)
    assert scores.classes["s"].precision == scores.classes["s"].recall == 2 / 3
    assert (scores.classes["h"].gold, scores.classes["h"].predicted, scores.classes["h"].correct) == (4, 4, 3)
    assert scores.accuracy == 5 / 7
    assert scores.matthews_correlation == pytest.approx((2 * 3 - 1 * 1) / (3 * 3 * 4 * 4) ** 0.5)
    assert json.loads(json.dumps(asdict(scores)))["classes"]["h"]["recall"] == 0.75


def test_where_a_ratio_has_nothing_below_it_the_score_is_zero() -> None:
    assert f1(["a", "a"], ["b", "b"], positive="a") == 0.0
    assert f1(["a"], ["a"], positive="never seen") == 0.0
    assert matthews_correlation(["a", "b"], ["a", "a"]) == 0.0
    assert matthews_correlation(["a", "a"], ["a", "a"]) == 0.0


def test_large_counts_do_not_overflow() -> None:
    gold = [0, 1] * 200_000
    assert matthews_correlation(gold, gold) == 1.0
    assert matthews_correlation(gold, gold[::-1]) == -1.0


@pytest.mark.parametrize("metric", [accuracy, matthews_correlation, classification_scores])
def test_nothing_and_different_numbers_are_refused(metric) -> None:
    with pytest.raises(InputError, match="nothing to compare"):
        metric([], [])
    with pytest.raises(InputError, match="2 examples and 1 predictions"):
        metric(["a", "b"], ["a"])
