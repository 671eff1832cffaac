from __future__ import annotations

import gzip
import json

import pytest

import regard
from regard.generation import GenerationSettings


@pytest.fixture(scope="module")
def pairs(pairs_file):
    return [tuple(line.split("\t")) for line in pairs_file.read_text().splitlines()]


def test_numbers_and_what_sacrebleu_says_of_them(command, model, pairs_file, pairs):
    answer = command("evaluate", model, pairs_file, "--json")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    expected = regard.evaluate(regard.load(model), pairs)
    assert found["count"] == len(pairs)
    assert found["metrics"] == expected.metrics
    assert found["metrics"]["chrf"] > 0
    assert found["signatures"] == expected.signatures
    assert "tok:13a" in found["signatures"]["bleu"]
    assert found["data"] == [str(pairs_file)]


def test_the_same_as_a_table(command, model, pairs_file):
    answer = command("evaluate", model, pairs_file, "--limit", 10)
    rows = {line.split("  ")[0]: line for line in answer.out.splitlines()}
    assert rows["pairs"].split()[1] == "10"
    assert rows["exact match"].endswith("%")
    assert "nrefs:1|case:mixed|eff:no|tok:13a" in rows["BLEU"]


@pytest.mark.parametrize(
    "words",
    [["beam=3", "length_penalty=1.0"], ["--beam", 3, "--length-penalty", 1.0], ["--beam", 3, "length_penalty=1.0"]],
)
def test_settings_as_options_or_words(command, model, pairs_file, pairs, words):
    found = json.loads(command("evaluate", model, pairs_file, *words, "--limit", 30, "--json").out)
    settings = GenerationSettings(beam=3, length_penalty=1.0, maximum_length=8)
    assert found["generation"]["beam"] == 3
    assert found["generation"]["length_penalty"] == 1.0
    assert found["generation"]["maximum_length"] == 8
    assert found["metrics"] == regard.evaluate(regard.load(model), pairs[:30], settings).metrics


def test_a_setting_given_twice(command, model, pairs_file):
    assert "beam is both 3 and 4" in command("evaluate", model, pairs_file, "beam=4", "--beam", 3).refusal()


def test_parallel_files_columns_and_the_output(command, model, pairs, tmp_path):
    sources, targets = zip(*pairs[:12], strict=True)
    (tmp_path / "a.src.gz").write_bytes(gzip.compress("\n".join(sources).encode()))
    (tmp_path / "a.tgt").write_text("\n".join(targets))
    rows = ["answer,id,question", *(f"{target},{i},{source}" for i, (source, target) in enumerate(pairs[:12]))]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    out = tmp_path / "out.txt"
    parallel = command("evaluate", model, tmp_path / "a.src.gz", tmp_path / "a.tgt", "--output", out, "--json")
    named = command("evaluate", model, tmp_path / "a.csv", "--source", "question", "--target", "answer", "--json")
    numbered = command("evaluate", model, tmp_path / "a.csv", "--source", 2, "--target", 0, "--json")
    first = json.loads(parallel.out)
    assert first["count"] == 12
    assert first["metrics"] == json.loads(named.out)["metrics"]
    assert first["metrics"] == json.loads(numbered.out)["metrics"]
    assert "the first line names the columns; source is 'question', target 'answer'; not read: 'id'" in numbered.err
    texts = out.read_text().split("\n")
    assert texts.pop() == ""
    assert sum(map(str.__eq__, texts, targets)) / 12 == first["metrics"]["exact_match"]


def test_rows_that_were_left_out_are_told(command, model, tmp_path):
    (tmp_path / "a.tsv").write_text("abc\tcba\nalone\nab\tba\n")
    answer = command("evaluate", model, tmp_path / "a.tsv", "--json")
    assert answer.err.startswith("1 malformed row was left out")
    assert "line 2" in answer.err
    found = json.loads(answer.out)
    assert (found["count"], found["malformed"]) == (2, 1)


def test_builtin_dates_are_of_the_test_split_in_the_models_languages(command, dates_model, tmp_path, monkeypatch):
    from regard.data.dates import Dates
    from regard.tasks import evaluation

    seen = []
    measure = evaluation.evaluate
    monkeypatch.setattr(
        evaluation, "evaluate", lambda t, pairs, *a, **k: seen.append(pairs) or measure(t, pairs, *a, **k)
    )
    plain = json.loads(command("evaluate", dates_model, "dates", "--limit", 20, "--json").out)
    assert plain["count"] == 20
    assert set(plain["metrics"]) == {"exact_match", "position_accuracy", "bleu", "chrf", "length_ratio"}
    command("evaluate", dates_model, "dates:typos", "--limit", 20)
    expected = Dates("test", size=20, languages=("en", "fr"))
    assert seen[0] == [(example.source, example.target) for example in expected]
    assert seen[1] == [(e.source, e.target) for e in Dates("test", size=20, languages=("en", "fr"), typo_rate=1.0)]
    assert seen[0] != seen[1]


def test_builtin_sequences_are_of_the_models_own_problem_or_another(command, sequences_model):
    from regard.tasks.translation_data import builtin_pairs

    own = {"kind": "reversal", "symbols": 6, "shortest": 3, "longest": 5}
    model = regard.load(sequences_model)
    for name, changes in (
        ("sequences", {}),
        ("sequences:longest=8,shortest=7", {"shortest": 7, "longest": 8}),
        ("sequences:kind=copy", {"kind": "copy"}),
    ):
        found = json.loads(command("evaluate", sequences_model, name, "--limit", 15, "--json").out)
        pairs = builtin_pairs({"sequences": own | changes}, "test", 15)
        assert found["data"] == [name]
        assert found["metrics"] == regard.evaluate(model, pairs).metrics


def test_bins_in_the_table_and_in_json(command, sequences_model):
    words = ["evaluate", sequences_model, "sequences", "--limit", 60, "--bins", "3,4,9"]
    found = json.loads(command(*words, "--json").out)["bins"]
    assert [(each["shortest"], each["longest"]) for each in found] == [(1, 3), (4, 4), (5, 9), (10, None)]
    assert sum(each["count"] for each in found) == 60
    assert found[0]["metrics"].keys() == {"exact_match", "position_accuracy", "bleu", "chrf", "length_ratio"}
    assert found[-1]["metrics"] == {}
    lines = command(*words).out.split("\n\n")[1].splitlines()
    assert lines[0].split("  ")[0] == "source words"
    assert "position accuracy" in lines[0]
    assert [line.split()[:2] for line in lines[1:]] == [
        [name, str(each["count"])] for name, each in zip(("1-3", "4", "5-9", "10+"), found, strict=True)
    ]
    assert lines[-1].split()[2:] == ["-"] * 5


def test_a_bar_on_the_terminal(terminal, model, pairs_file):
    answer = terminal("evaluate", model, pairs_file, "--json")
    assert json.loads(answer.out)["count"] == 220
    assert "220/220" in answer.err


def test_a_source_longer_than_the_models_positions_is_named_by_line(command, model, tmp_path):
    (tmp_path / "a.tsv").write_text("abc\tcba\n" * 4 + "abcdabcdabcdabcd\tx\n")
    sentence = command("evaluate", model, tmp_path / "a.tsv").refusal()
    assert f"{tmp_path}/a.tsv, line 5: the source has 17 tokens and the model has positions for 12" in sentence


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "no such file"),
        (b"", "is empty"),
        (b"abc\nabd\n", "each line needs two tab-separated columns"),
        ("déjà\tvu\n".encode("latin-1") * 30, "not UTF-8"),
        ("abc\tcba\n".encode("utf-16"), "UTF-16"),
        (bytes(range(256)) * 9, "is a binary file"),
        (gzip.compress(b"abc\tcba\n" * 99, mtime=0)[:-12], "the gzip data"),
    ],
)
def test_data_that_cannot_be_used(command, model, tmp_path, content, sentence):
    file = tmp_path / "data.tsv"
    if content is not None:
        file.write_bytes(content)
    answer = command("evaluate", model, file)
    assert sentence in answer.refusal()
    assert str(file) in answer.refusal()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a", "b", "c"], "3 files of data given"),
        (["beam=2"], "0 files of data given"),
        (["dates:tpyos"], "did you mean 'dates:typos'"),
        (["dates", "--source", "1"], "have no columns"),
        (["sequences:longst=40"], "did you mean 'longest'"),
        (["sequences:longest"], "'longest' is no setting; write sequences:kind=reversal,longest=40"),
        (["sequences:longest=far"], "data.sequences.longest is 'far'"),
        (["sequences:kind=mirror"], "choose 'copy' or"),
        (["sequences:size=5"], "the number of pairs is set with --limit"),
        (["sequences:symbols=[1"], "symbols: is not YAML"),
        (["sequences:symbols=2,shortest=1,longest=2"], "only about 0 different sources"),
        (["sequences", "--target", "1"], "builtin sequences have no columns"),
        (["dates", "--bins", "10,many"], "--bins is '10,many'; give ascending numbers"),
        (["dates", "--bins", "10,5"], "bins are [10, 5]; give rising numbers"),
        (["beem=2", "a.tsv"], "did you mean 'beam'"),
        (["dates", "beam=wide"], "generation.beam is 'wide'"),
        (["dates", "--output", "none/out.txt"], "none/out.txt: cannot be written"),
    ],
)
def test_a_wrong_command_line(command, dates_model, words, sentence):
    assert sentence in command("evaluate", dates_model, *words).refusal()


def test_what_rounding_costs_is_measured(command, model, pairs_file):
    answer = command("evaluate", model, pairs_file, "dtype=int8", "--limit", 40, "--json")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    plain = json.loads(command("evaluate", model, pairs_file, "--limit", 40, "--json").out)
    assert (found["dtype"], plain["dtype"]) == ("int8", "float32")
    assert found["metrics"]["chrf"] == pytest.approx(plain["metrics"]["chrf"], abs=10)
