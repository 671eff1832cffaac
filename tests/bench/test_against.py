"""A run compared with a stored one: what is told apart, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.bench import Options, Report, Row
from regard.bench.against import Change, Ratio, changes, check_comparable, read_stored
from regard.errors import InputError

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def report(ratio=2.0, spread=(1.9, 2.1), **changes_):
    row = Row(
        case="training, float32: a small one",
        unit="tokens/s",
        ours=100 * ratio,
        peers={"huggingface float32": 100.0},
        spread={"huggingface float32": spread},
    )
    memory = Row(
        case="training, float32, peak memory: a small one", unit="MB", ours=9.0, peers={"huggingface float32": 1.0}
    )
    settings = {"suite": "decoder", "machine": {"processor": "P"}, "versions": {}, "threads": 1, "rows": (row, memory)}
    return Report(**(settings | changes_))


@pytest.fixture
def stored(tmp_path):
    """What `--output` wrote of a ratio of 2.0, from 1.9 to 2.1."""
    file = tmp_path / "before.json"
    file.write_text(json.dumps(report().whole()))
    return file


@pytest.mark.parametrize(
    ("ratio", "spread", "verdict"),
    [
        (1.5, (1.4, 1.8), "slower"),
        (1.5, (1.4, 1.95), "the same within the spread"),
        (2.0, (1.9, 2.1), "the same within the spread"),
        (2.5, (2.0, 3.0), "the same within the spread"),
        (2.5, (2.2, 3.0), "faster"),
    ],
)
def test_a_row_is_slower_only_where_no_round_reaches_one_of_before(stored, ratio, spread, verdict):
    (change,) = changes(report(ratio, spread), read_stored(stored))  # memory has no rounds, so it is not judged
    assert (change.verdict, change.case, change.peer) == (verdict, "training, float32", "huggingface float32")


def test_other_work_is_not_compared(stored):
    other = report(rows=(Row(case="training, float32: a large one", unit="tokens/s", ours=1.0, peers={"x": 1.0}),))
    with pytest.raises(InputError, match=r"no row of the same work .* \(training, float32; huggingface\)"):
        changes(other, read_stored(stored))


@pytest.mark.parametrize(
    ("suite", "given", "sentence"),
    [
        ("encoder", {}, "is of the suite decoder, not of encoder"),
        ("decoder", {"threads": 2}, "give --threads 1"),
        ("decoder", {"rounds": 2}, "give 3 or more"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_it_is_measured(stored, suite, given, sentence):
    with pytest.raises(InputError, match=sentence):
        check_comparable(read_stored(stored), suite, Options(cases=("training",), **given))


def test_records_of_this_project_are_read():
    """Older ones keep no spread, so their ratio is taken as it is."""
    found = read_stored(RESULTS / "speed-decoding.json")
    assert (found.suite, found.threads) == ("decoder", 2)
    assert found.ratios["alone, int8", "huggingface float32"].least > 1
    assert found.same("alone, int8", "random weights, 12 layers of width 768, 12 heads, 50,257 pieces")


@pytest.mark.parametrize(
    "content", ["{}", '{"suite": "decoder"}', '{"figures": {}, "command": "python x", "threads": 1}']
)
def test_another_file_is_refused(tmp_path, content):
    file = tmp_path / "other.json"
    file.write_text(content)
    with pytest.raises(InputError, match="no measurement of `regard bench`"):
        read_stored(file)


def test_a_change_is_one_line():
    change = Change(
        case="c",
        peer="torch",
        before=Ratio(median=2.0, least=1.9, most=2.1),
        now=Ratio(median=1.0, least=0.9, most=1.1),
    )
    assert str(change) == "slower: 2 (1.9 to 2.1) times torch before, 1 (0.9 to 1.1) now"
