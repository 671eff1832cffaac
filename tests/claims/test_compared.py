from __future__ import annotations

import math

import pytest
from rich.console import Console

import regard
from regard.claims.compared import median, number_text
from regard.claims.measure import Measure
from regard.rendering import Fitted


def shown(table) -> str:
    console = Console(width=200, color_system=None)
    with console.capture() as said:
        console.print(table)
    return said.get()


def test_the_table_has_medians_and_ranges(made_up):
    found = made_up({"slow": {"bleu": [30.0, 31.5, 34.0]}, "fast": {"bleu": [20.0, 20.0, 20.0]}})
    text = shown(found.table())
    assert "31.5 (30.0-34.0)" in text
    line = next(line for line in text.splitlines() if "fast" in line)
    assert "1,234" in line
    assert "20.0" in line
    assert "(" not in line


def test_on_a_narrow_terminal_a_row_is_a_block_of_lines(made_up):
    table = made_up({"slow": {"bleu": [30.0, 31.5, 34.0]}, "fast": {"bleu": [20.0, 20.0, 20.0]}}).table()

    def printed(width: int) -> list[str]:
        console = Console(width=width, color_system=None)
        with console.capture() as said:
            console.print(Fitted(table))
        return [line.rstrip() for line in said.get().splitlines()]

    blocks = [
        ["slow", "  parameters  1,234", "  bleu        31.5 (30.0-34.0)"],
        ["fast", "  parameters  1,234", "  bleu        20.0"],
    ]
    assert printed(30) == [*blocks[0], *blocks[1]]
    assert printed(100)[0].startswith("┏")


def test_thresholds_that_were_not_reached_and_numbers_that_are_not_there(made_up):
    found = made_up({"a": {"updates to 1": [5.0, math.inf, math.inf]}, "b": {"updates to 1": [7.0, None, 9.0]}})
    text = shown(found.table())
    assert "never (5-never)" in text
    assert "? (7, 9)" in text
    values = found.to_json()["arms"]
    assert values[0]["measures"]["updates to 1"]["seeds"] == {"1": 5.0, "2": None, "3": None}
    assert values[0]["measures"]["updates to 1"]["median"] is None
    diverged = made_up({"a": {"bleu": [5.0, math.nan]}})
    assert diverged.values("a", "bleu") == {1: 5.0, 2: None}
    assert median({1: None, 2: 3.0}) is None
    assert median({}) is None
    assert median({1: 1.0, 2: 3.0, 3: math.inf}) == 3.0


def test_numbers_by_length(made_up):
    bins = {"short": 40.0, "middle": 30.0, "long": None, "all": 35.0}
    found = made_up({"a": {"bleu": [bins, bins | {"middle": 32.0}]}})
    assert found.values("a", "bleu") == {1: 35.0, 2: 35.0}
    assert found.values("a", "bleu", 15) == {1: 30.0, 2: 32.0}
    assert found.values("a", "bleu", 400) == {1: None, 2: None}
    assert found.values("a", "bleu", 10) == {1: 40.0, 2: 40.0}
    with pytest.raises(regard.InputError, match="no bin for a length of 0"):
        found.values("a", "bleu", 0)
    text = shown(found.bin_tables()["bleu"])
    assert "11-20 words" in text
    assert "31.0 (30.0-32.0)" in text
    parts = found.to_json()["arms"][0]["measures"]["bleu"]["bins"]
    assert [part["median"] for part in parts] == [40.0, 31.0, None]


def test_misspelt_names_get_the_nearest(made_up):
    found = made_up({"search": {"bleu": [1.0]}})
    with pytest.raises(regard.InputError, match="no arm 'serch'; did you mean 'search'"):
        found.values("serch", "bleu")
    with pytest.raises(regard.InputError, match="no measure 'blue'; did you mean 'bleu'"):
        found.values("search", "blue")


def test_time_is_that_of_all_runs_once(compared):
    trained = [run.training_seconds for run in compared.runs if run.arm != "beam"]
    assert all(seconds > 0 for seconds in trained)
    assert compared.seconds >= sum(trained)
    assert all(run.training_seconds == 0 for run in compared.of("beam"))


@pytest.mark.parametrize(
    ("kind", "metric", "value", "text"),
    [
        ("decoded", "exact_match", 0.996, "99.6 %"),
        ("decoded", "bleu", 36.04, "36.0"),
        ("validation", "loss", 0.123456, "0.1235"),
        ("validation", "loss", math.inf, "infinite"),
        ("parameters", None, 12345.0, "12,345"),
        ("seconds_per_epoch", None, 12.345, "12.3"),
    ],
)
def test_numbers_as_people_write_them(kind, metric, value, text):
    assert number_text(Measure(name="x", kind=kind, metric=metric), value) == text
