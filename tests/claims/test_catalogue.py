"""Every claim that ships: it can be read, what its judge asks for is measured, and its thresholds are those it predicts."""

from __future__ import annotations

import re

import pytest

from regard.claims.claim import CATALOGUE, claim, claims
from regard.claims.comparison import read_comparison
from regard.claims.computation import Computation
from regard.claims.expression import references
from regard.claims.own_data import Files, OwnData, on_own_data

every_claim = pytest.mark.parametrize("name", [file.name.removesuffix(".yaml") for file in CATALOGUE.iterdir()])


def test_the_rows_are_there_in_order():
    assert [each.row for each in claims()] == [
        "1.1",
        "1.2",
        "1.3a",
        "1.3b",
        "1.4",
        "1.5a",
        "1.5b",
        "1.6",
        "1.7",
        "1.8",
        "1.9 + 1.10",
        "2.1a",
        "2.1b",
        "2.1c",
        "2.2",
        "2.3",
        "2.4",
        "2.4x",
        "2.5a",
        "2.5b",
        "2.6",
        "2.7a",
        "2.7b",
        "3.1",
        "3.1b",
        "3.2",
        "3.3a",
        "3.3b",
        "3.4",
        "3.5",
        "3.6",
        "3.7a",
        "3.7b",
        "3.8",
        "4.1a",
        "4.1b",
        "4.2",
        "4.3a",
        "4.3b",
        "4.4",
        "4.5",
        "4.6",
        "4.7",
        "4.8",
    ]
    assert claim("2.1b").name == "scaled-scores"


@every_claim
def test_a_file_is_a_claim(name):
    found = claim(name)
    assert found.name == name
    assert found.seeds == (1, 2, 3)
    assert list(references(*found.expressions))
    assert found.statement.endswith(".")
    assert found.predicted.endswith(".")


@every_claim
def test_arms_train_equally_long(name):
    found = claim(name)
    if isinstance(found.resolved, Computation):
        return
    arms = found.resolved.arms
    starts = {name for arm in arms for name in arm.needs}  # what others start from is compared with none
    compared = [arm.applied(found.resolved.recipe)["training"] for arm in arms if arm.name not in starts]
    ends = {training.get("steps") for training in compared}
    assert len(ends) == 1
    assert None not in ends
    assert {training.get("patience") for training in compared} == {None}


@every_claim
def test_thresholds_of_the_judge_stand_in_what_is_predicted(name):
    """As written, in per cent, or as a share that falls or is added."""
    found = claim(name)
    predicted = set(re.findall(r"\d+(?:\.\d+)?", found.predicted))
    text = re.sub(r'"[^"]*"', "", found.expressions[0].text)
    for number in set(re.findall(r"(?<![\w.])\d+\.?\d*", re.sub(r"\(,[^)]*\)", "", text))) - {"1"}:
        value = float(number)
        spoken = {value, 100 * value, 100 * (1 - value), 100 * (value - 1)}
        halves = {"half"} if value == 0.5 else set()
        assert any(abs(float(said) - each) < 1e-6 for said in predicted for each in spoken) or any(
            half in found.predicted for half in halves
        ), f"{number} is not in {found.predicted!r}"


@every_claim
def test_on_own_data_it_is_still_a_comparison(name):
    found = claim(name)
    if isinstance(found.own_data, str):
        assert "regard compare" in found.own_data
        return
    if isinstance(found.resolved, Computation):
        assert found.own_data.files
        return
    files = Files(train="train.jsonl", validation="validation.jsonl", test="test.jsonl")
    there = read_comparison(on_own_data(found.comparison, found.own_data, files))
    for arm in (arm for arm in there.arms if not arm.needs):
        data = there.recipe_of(arm, 1).data
        assert (data.builtin, data.train) == (None, "train.jsonl")
        assert data.validation == "validation.jsonl"
    judged = [measure for measure in there.measures if measure.data is not None and measure.kind != "evaluated"]
    assert all(measure.data == {"validation": "test.jsonl"} for measure in judged)
    assert isinstance(found.own_data, OwnData)


def test_the_model_of_the_length_penalty_is_that_of_the_fall_with_length():
    """So that its runs can be taken."""
    one, other = claim("length-penalty").resolved, claim("fall-with-length-multi30k").resolved
    assert one.recipe_of(one.arm("beam 1"), 2) == other.recipe_of(other.arm("search"), 2)
