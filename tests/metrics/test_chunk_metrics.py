"""Spans counted as conlleval counts them: beside seqeval, and by hand."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tags import spans_of
from regard.errors import InputError
from regard.metrics.classification import chunk_scores


def sentences(marks: str):
    tag = st.sampled_from(["O", *(f"{mark}-{type}" for mark in marks for type in ("PER", "LOC"))])
    pairs = st.lists(st.tuples(tag, tag), min_size=1, max_size=8)
    return st.lists(pairs, min_size=1, max_size=6)


@pytest.mark.parametrize(("scheme", "marks"), [("BIO", "BI"), ("BIOES", "BIES")])
@pytest.mark.filterwarnings("ignore")
def test_scores_are_those_of_seqeval(scheme: str, marks: str) -> None:
    metrics = pytest.importorskip("seqeval.metrics")

    @given(pairs=sentences(marks))
    @settings(max_examples=30, deadline=None)
    def check(pairs) -> None:
        gold = [[tag for tag, _ in sentence] for sentence in pairs]
        said = [[tag for _, tag in sentence] for sentence in pairs]
        scores = chunk_scores([spans_of(tags, scheme) for tags in gold], [spans_of(tags, scheme) for tags in said])
        found = (scores.overall.precision, scores.overall.recall, scores.overall.f1)
        wanted = [metrics.precision_score, metrics.recall_score, metrics.f1_score]
        assert found == tuple(pytest.approx(metric(gold, said, zero_division=0)) for metric in wanted)

    check()


def test_type_and_both_ends_have_to_be_right() -> None:
    gold = [[("PER", 0, 2), ("LOC", 3, 4)], [], [("PER", 0, 1)]]
    said = [[("PER", 0, 1), ("LOC", 3, 4)], [("ORG", 0, 1)], [("LOC", 0, 1)]]
    scores = chunk_scores(gold, said)
    assert (scores.overall.gold, scores.overall.predicted, scores.overall.correct) == (3, 4, 1)
    assert scores.overall.f1 == pytest.approx(2 / 7)
    assert list(scores.types) == ["LOC", "ORG", "PER"]
    assert scores.types["ORG"].precision == scores.types["ORG"].recall == 0.0
    assert scores.types["LOC"].recall == 1.0
    assert json.loads(json.dumps(asdict(scores)))["types"]["LOC"]["predicted"] == 2


def test_spans_of_different_sentences_do_not_meet() -> None:
    assert chunk_scores([[("PER", 0, 1)], []], [[], [("PER", 0, 1)]]).overall.correct == 0


def test_the_table_has_the_scripts_form_and_rounding() -> None:
    # 100 * 49 / 160 is 30.625, which rounds to an even 30.62; 100 * (49 / 160) is a little more and would give 30.63.
    gold = [[("A", place, place + 1) for place in range(160)]]
    said = [[("A", place, place + 1) for place in range(49)]]
    table = chunk_scores(said, gold).table().splitlines()
    assert table[0] == "49 phrases; found: 160 phrases; correct: 49."
    assert table[2] == "                A: precision:  30.62%; recall: 100.00%; FB1:  46.89  160"


def test_no_span_at_all_scores_zero() -> None:
    scores = chunk_scores([[]], [[]])
    assert scores.overall.f1 == 0.0
    assert scores.types == {}


def test_nothing_and_different_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="nothing to compare"):
        chunk_scores([], [])
    with pytest.raises(InputError, match="2 sentences and 1 predictions"):
        chunk_scores([[], []], [[]])
