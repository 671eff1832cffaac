"""What a report says, and which way its ratios point."""

from __future__ import annotations

import json

import pytest

from regard.bench import Report, Row

KEYS = ["suite", "machine", "versions", "threads", "rows", "absent"]


@pytest.mark.parametrize(("higher_is_better", "ratio"), [(True, 3.0), (False, 1 / 3)])
def test_a_ratio_above_one_is_better_for_us(higher_is_better, ratio):
    row = Row(case="x", unit="u", ours=300.0, peers={"other": 100.0}, higher_is_better=higher_is_better)
    assert row.ratio["other"] == pytest.approx(ratio)


@pytest.mark.parametrize(("ours", "theirs"), [(None, 1.0), (1.0, None), (1.0, 0.0)])
def test_without_both_figures_there_is_no_ratio(ours, theirs):
    assert Row(case="x", unit="u", ours=ours, peers={"other": theirs}).ratio == {"other": None}


def report(**changes):
    row = Row(case="x", unit="tokens/s", ours=1234.56, peers={"a": 617.28, "b": None}, spread={"a": (1.9, 2.1)})
    settings = {"suite": "s", "machine": {"cores": 2}, "versions": {"regard": "1"}, "threads": 2, "rows": (row,)}
    return Report(**(settings | changes))


def test_the_object_printed_is_the_schema_and_nothing_else():
    values = json.loads(json.dumps(report(absent=("c",)).to_json()))
    assert list(values) == KEYS
    assert values["absent"] == ["c"]
    assert values["rows"] == [
        {
            "case": "x",
            "unit": "tokens/s",
            "ours": 1235.0,
            "peers": {"a": 617.3, "b": None},
            "ratio": {"a": 2.0, "b": None},
            "spread": {"a": [1.9, 2.1]},
        }
    ]


def test_what_failed_is_not_hidden():
    values = report(failed={"training, b": "broke"}).to_json()
    assert list(values) == [*KEYS, "failed"]
    assert values["failed"] == {"training, b": "broke"}


def test_the_whole_has_the_details_too():
    assert report(details={"rounds": [1]}).whole()["details"] == {"rounds": [1]}
