"""The claims about depth and rank: what their experiments measure, and measures along something."""

from __future__ import annotations

import math

import pytest

from regard.claims.catalogue import read_computation
from regard.claims.claim import claim, claim_of
from regard.claims.measure import Measure
from regard.claims.verdict import run_claim
from regard.cli.training import print_tables
from regard.errors import InputError
from regard_claims.rank_collapse.random_stacks import RandomStacks
from regard_claims.short_paths.sorting_depth import SortingDepth

SMALL = {"tokens": 6, "width": 16, "heads": 2, "layers": 4, "feedforward_width": 16}


@pytest.fixture
def small():
    """The catalogue's claim about random stacks, of other sizes and another judge."""

    def make(judge: str):
        values = {
            "name": "small",
            "row": "9.9",
            "source": "Nobody 2099",
            "statement": "Something holds.",
            "predicted": "It falls.",
            "minutes": 1,
            "own_data": "nothing is read; use regard compare",
            "experiment": {"name": "random_stacks", **SMALL},
            "arms": {"bare": {}, "skips": {"skips": True}},
            "seeds": [1, 2],
            "judge": judge,
        }
        return claim_of(values, "small.yaml")

    return make


def test_drawn_stacks_collapse_without_skips_whatever_else_they_have():
    found = {
        (skips, net): RandomStacks(skips=skips, feedforward=net, **SMALL).run(3)["residual"]
        for skips in (True, False)
        for net in (True, False)
    }
    assert {tuple(each) for each in found.values()} == {(0, 1, 2, 3, 4)}
    assert len({each[0] for each in found.values()}) == 1  # the same vectors go in
    assert max(found[False, False][4], found[False, True][4]) < 1e-8
    assert min(found[True, False][4], found[True, True][4]) > 0.1
    assert RandomStacks(**SMALL).run(3)["residual"] == found[False, False]
    assert RandomStacks(**SMALL).run(4)["residual"] != found[False, False]


def test_sorting_is_measured_and_layers_that_are_not_there_have_no_number():
    sizes = {"width": 16, "feedforward_width": 16, "symbols": 6, "length": 4, "size": 200, "test_size": 8}
    experiment = SortingDepth(layers=1, deepest=2, steps=120, batch=32, learning_rate=1e-2, **sizes)
    found = experiment.run(1)
    assert found["accuracy"] > 55
    residuals = found["residual"]
    assert list(residuals) == [0, 1, 2]
    assert 0 < residuals[1] < 2
    assert math.isnan(residuals[2])


def test_a_measure_along_layers_is_judged_drawn_and_shown_by_layer(small, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    from regard.claims.compared import figure

    verdict = run_claim(
        small('median("bare", "residual", 4) < 1e-6 and median("skips", "residual", 4) > 0.1'), output=tmp_path
    )
    assert verdict.outcome == "confirmed"
    assert set(verdict.measured["bare"]) == {"residual at 4"}
    compared = verdict.compared
    assert compared.values("bare", "residual") == compared.values("bare", "residual", 4)
    assert compared.values("bare", "residual", 0) == compared.values("skips", "residual", 0)
    (axes,) = figure(compared).axes
    assert (axes.get_xlabel(), axes.get_yscale()) == ("layer", "log")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "2", "3", "4"]
    assert [line.get_label() for line in axes.get_lines()] == ["bare", "skips"]
    print_tables(compared)
    assert "residual, by layer" in capsys.readouterr().out
    table = compared.bin_tables()["residual"]
    assert [column.header for column in table.columns] == ["layer", "bare", "skips"]
    assert table.row_count == 5
    with pytest.raises(InputError, match="no bin for a length of 9"):
        compared.values("bare", "residual", 9)


def test_only_what_is_computed_is_measured_along_something():
    assert Measure(name="a", kind="computed", along="layer").parted
    assert not Measure(name="a", kind="computed").parted
    with pytest.raises(InputError, match="measure 'a': steps is one number; leave along out"):
        Measure(name="a", kind="steps", along="layer")


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("random_stacks", {"tokens": 1}, "experiment.tokens is 1 but must be at least 2"),
        ("random_stacks", {"heads": 5}, "heads is 5 but must be a divisor of width 16"),
        ("sorting_depth", {"layers": 7}, "experiment.deepest is 6 but must be no fewer than the layers"),
        ("sorting_depth", {"size": 10}, "experiment.size is 10"),
    ],
)
def test_sizes_that_are_none_are_refused(name, change, says):
    sizes = SMALL if name == "random_stacks" else {}
    sections = {"experiment": {"name": name, **sizes, **change}, "arms": {"a": {}, "b": {"skips": True}}}
    with pytest.raises(InputError, match=says):
        read_computation(sections)


@pytest.mark.parametrize(("row", "name"), [("2.7a", "rank-collapse"), ("2.7b", "short-paths")])
def test_the_claims_are_in_the_catalogue(row, name):
    assert claim(row).name == name
    assert not claim(row).needs_data
