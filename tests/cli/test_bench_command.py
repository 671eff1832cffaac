"""`regard bench`: one real run of our own side at tiny sizes, the rest with measurements that are made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import regard.bench
from regard.bench import Report, Row


@pytest.fixture
def made_up(monkeypatch):
    """The options that the command came to, and a report in place of the measurement."""
    seen = []

    def measure(name, options, *, say):
        seen.append((name, options))
        say("round 1 of 1")
        rows = (Row(case="case: about", unit="target tokens/s", ours=300.0, peers={"a": 100.0, **measure.more}),)
        return Report(
            suite=name,
            machine={"processor": "P", "cores": 2},
            versions={"regard": "0"},
            threads=options.threads,
            rows=rows,
            absent=("joeynmt",),
            failed={f"case, {key}": "it broke" for key in measure.more},
            details={"contests": {}},
        )

    measure.more = {}
    measure.seen = seen
    monkeypatch.setattr(regard.bench, "bench", measure)
    return measure


@pytest.mark.slow
def test_a_real_run_prints_the_schema(command, tmp_path):
    output = tmp_path / "all.json"
    answer = command(
        "bench", "translation", "--quick", "--rounds", "1", "--threads", "1", "--cases", "training", "--peers", "none",
        "--json", "-o", str(output),
    )  # fmt: skip
    assert answer.code == 0, answer
    values = json.loads(answer.out)
    assert list(values) == ["command", "version", "suite", "machine", "versions", "threads", "rows", "absent"]
    assert [values["suite"], values["threads"], values["absent"]] == ["translation", 1, []]
    assert [row["case"].partition(":")[0] for row in values["rows"]] == [
        "training, float32",
        "training, bfloat16",
        "training, best precision of each",
    ]
    assert all(row["ours"] > 0 and row["peers"] == row["ratio"] == {} for row in values["rows"])
    whole = json.loads(output.read_text())
    rounds = whole["details"]["contests"]["training, float32 and bfloat16"]["rounds"]
    assert len(rounds["regard float32"]) == 1


def test_the_table_names_ratios_and_who_is_absent(command, made_up):
    answer = command("bench", "translation")
    assert answer.code == 0
    assert "ours is 3.00 times as fast" in answer.out
    assert "joeynmt  not installed" in answer.out
    assert "round 1 of 1" in answer.err
    assert made_up.seen[0][1].cases == ("training", "translation")


@pytest.mark.parametrize("style", [(), ("--json",)])
def test_a_failure_is_printed_and_the_exit_code_tells(command, made_up, style):
    made_up.more = {"b": None}
    answer = command("bench", "translation", *style)
    assert answer.code == 1
    assert "it broke" in answer.out


def test_what_is_given_arrives(command, made_up, pairs_file):
    answer = command(
        "bench", "translation", "--pairs", str(pairs_file), "--model", "m", "--to", "de", "--threads", "2", "--rounds", "3",
        "--cases", "training, translation", "--peers", "joeynmt", "--peer", "joeynmt=/x/python", "--quick",
    )  # fmt: skip
    assert answer.code == 0, answer
    name, options = made_up.seen[0]
    assert name == "translation"
    assert len(options.pairs) == 220
    assert (options.model, options.to, options.threads, options.rounds, options.quick) == (Path("m"), "de", 2, 3, True)
    assert options.cases == ("training", "translation")
    assert options.peers == ("joeynmt",)
    assert options.interpreters == {"joeynmt": "/x/python"}
    assert "/x/python" in answer.err


def test_a_shape_is_measured_in_the_cases_that_it_is_of(command, made_up):
    for more in ([], ["--shape", "smollm2-135m"]):
        assert command("bench", "decoder", *more).code == 0
    cases = [options.cases for _, options in made_up.seen]
    assert cases == [("alone", "batch", "prompt", "training"), ("alone", "batch", "prompt")]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["translatio"], "did you mean 'translation'"),
        (["translation", "--cases", "trainin"], "did you mean 'training'"),
        (["translation", "--peers", "joey"], "there is no peer 'joey'"),
        (["translation", "--peer", "joeynmt"], "write NAME=PYTHON"),
        (["translation", "--pairs", "a", "--pairs", "b", "--pairs", "c"], "--pairs is given 3 times"),
        (["translation", "--pairs", "missing.tsv"], "missing.tsv"),
        (
            ["translation", "--shape", "gpt2-small"],
            "--shape applies to the suite decoder, not to translation; leave it out",
        ),
        (
            ["look", "--shape", "smollm2-135m", "--cases", "recording"],
            "--shape applies to the suite decoder, not to look",
        ),
        (
            ["decoder", "--shape", "gpt2-small", "--cases", "alone,training"],
            "--shape does not apply to the case training; leave it out, or give --cases alone,batch",
        ),
        (["translation", "--model", "nowhere", "--quick"], "nowhere: no such folder"),
    ],
)
def test_wrong_input_is_one_sentence(command, arguments, sentence):
    assert sentence in command("bench", *arguments).refusal()


@pytest.mark.parametrize(("ratio", "code"), [(1.5, 1), (1.95, 0), (3.0, 0)])
def test_the_exit_code_says_whether_something_is_slower(command, tmp_path, monkeypatch, ratio, code):
    asked = []

    def of(ratio):
        peer = "huggingface float32"
        ours, spread = 100 * ratio, {peer: (ratio - 0.1, ratio + 0.1)}
        return Report(
            suite="decoder",
            machine={"processor": f"P{ratio}", "cores": 2},
            versions={},
            threads=1,
            rows=(
                Row(case="training, float32: small", unit="tokens/s", ours=ours, peers={peer: 100.0}, spread=spread),
            ),
        )

    def measure(suite, options, *, say):
        asked.append(options)
        return of(ratio)

    stored = tmp_path / "before.json"
    stored.write_text(json.dumps(of(2.0).whole()))
    monkeypatch.setattr(regard.bench, "bench", measure)
    answer = command("bench", "decoder", "--against", str(stored))
    assert answer.code == code
    assert (asked[0].threads, asked[0].cases, asked[0].peers) == (1, ("training",), ("huggingface",))
    assert "2 (1.9 to 2.1) times huggingface float32 before" in answer.out
    assert "was measured on another processor, P2.0" in answer.err
    found = json.loads(command("bench", "decoder", "--against", str(stored), "--json").out)
    assert found["changes"][0]["before"] == {"ratio": 2.0, "least": 1.9, "most": 2.1}
