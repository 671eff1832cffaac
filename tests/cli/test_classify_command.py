"""`regard classify`, and `regard evaluate` for classifiers."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest

import regard

TINY = {"name": "bert", "width": 16, "heads": 2, "feedforward_width": 32, "layers": 1, "maximum_positions": 24}
TRAINING = {"steps": 60, "batch_tokens": 400, "learning_rate": 1e-2, "schedule": "linear", "warmup": 5}
SMALL = {"dropout": 0.0, "attention_dropout": 0.0, "init_std": 0.2}


def recipe(task: str) -> dict:
    return {
        "task": task,
        "model": TINY | SMALL,
        "data": {"maximum_length": 16},
        "tokenizer": {"size": 100},
        "training": TRAINING | {"precision": "float32"},
    }


@pytest.fixture(scope="module")
def spam(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filter that knows one word."""
    draw = random.Random(1)
    texts = [(" ".join(draw.choices(["see", "you", "at", "the", "bus"], k=4)), "ham") for _ in range(60)]
    texts += [(" ".join(draw.choices(["you", "win", "the", "prize"], k=3)) + " prize", "spam") for _ in range(60)]
    folder = tmp_path_factory.mktemp("spam") / "run"
    regard.train(recipe("classification"), output=folder, data=texts)
    return folder


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that rates pairs."""
    pairs = [((a, b), float(a == b)) for a in ("ape", "bee") for b in ("ape", "bee")] * 10
    folder = tmp_path_factory.mktemp("alike") / "run"
    regard.train(recipe("regression"), output=folder, data=pairs)
    return folder


def test_a_line_out_for_each_line_in(command, spam, tmp_path):
    answer = command("classify", spam, "win a prize", "see the bus")
    assert answer.code == 0
    lines = [line.split("\t") for line in answer.out.splitlines()]
    assert [label for label, _ in lines] == ["spam", "ham"]
    assert all(0.5 < float(probability) <= 1 for _, probability in lines)
    file = tmp_path / "texts.txt"
    file.write_text("win a prize\n\nsee the bus\n")
    assert command("classify", spam, "--input", file, "--output", tmp_path / "out.tsv").code == 0
    found = (tmp_path / "out.tsv").read_text().split("\n")
    assert [line.partition("\t")[0] for line in found] == ["spam", "", "ham", ""]


def test_json_has_the_probability_of_every_class(command, spam):
    found = json.loads(command("classify", spam, "win a prize", "--json").out)["classifications"]
    assert [one["label"] for one in found] == ["spam"]
    assert found[0]["text"] == "win a prize"
    assert sum(found[0]["probabilities"].values()) == pytest.approx(1, abs=1e-6)


def test_pairs_by_option_or_by_tab(command, alike, tmp_path):
    (by_option,) = command("classify", alike, "ape", "--pair", "ape").out.splitlines()
    file = tmp_path / "pairs.tsv"
    file.write_text("ape\tape\nape\tbee\n")
    same, other = map(float, command("classify", alike, "-i", file).out.splitlines())
    assert float(by_option) == pytest.approx(same, abs=1e-4)
    assert same > other
    assert json.loads(command("classify", alike, "ape", "--pair", "bee", "--json").out)["ratings"][0]["text"] == [
        "ape",
        "bee",
    ]


def test_bad_input_is_one_sentence(command, spam, alike, model, tmp_path):
    assert "the model reads two texts" in command("classify", alike, "ape").refusal()
    assert "the model reads one text" in command("classify", spam, "a", "--pair", "b").refusal()
    assert "--pair goes with one TEXT" in command("classify", spam, "a", "b", "--pair", "c").refusal()
    assert "a model for translation, and classification is wanted" in command("classify", model, "abc").refusal()
    file = tmp_path / "nul.txt"
    file.write_bytes(b"a\0b\n")
    assert "is a binary file" in command("classify", spam, "-i", file).refusal()
    file.write_bytes(b"x" * 10_000_000 + b"\n")
    assert "line too long" in command("classify", spam, "-i", file).refusal()


def test_evaluation_of_files(command, spam, alike, tmp_path):
    file = tmp_path / "test.tsv"
    file.write_text("text\tlabel\nwin the prize\tspam\nsee you at the bus\tham\nyou win prize\tham\n")
    found = json.loads(command("evaluate", spam, file, "--json").out)
    assert found["metrics"]["accuracy"] == pytest.approx(2 / 3)
    assert found["classes"]["spam"]["precision"] == 0.5
    assert found["count"] == 3
    table = command("evaluate", spam, file, "--limit", "2", "--output", tmp_path / "said.jsonl").out
    assert "100.00 %" in table
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [(one["label"], one["predicted"]) for one in said] == [("spam", "spam"), ("ham", "ham")]
    other = tmp_path / "sms.tsv"
    other.write_text("spam\twin the prize\nham\tsee the bus\n")
    assert json.loads(command("evaluate", spam, other, "format=sms-spam", "--json").out)["metrics"]["f1"] == 1.0
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("sentence1\tsentence2\tscore\nape\tape\t1\nape\tbee\t0\nbee\tbee\t1\n")
    assert json.loads(command("evaluate", alike, pairs, "--json").out)["metrics"]["pearson"] > 0.9


def test_evaluations_that_cannot_be_made(command, spam, tmp_path):
    file = tmp_path / "test.tsv"
    file.write_text("text\tlabel\nwin\tspam\nsee\tegg\n")
    assert "the label 'egg' is none of the model's" in command("evaluate", spam, file).refusal()
    assert "--to is no option for task classification" in command("evaluate", spam, file, "--to", "de").refusal()
    assert "unknown key 'beam'" in command("evaluate", spam, file, "beam=4").refusal()
    assert "no such file" in command("evaluate", spam, tmp_path / "none.tsv").refusal()


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that tells which of two words stand in a text."""
    texts = [("the sea", ["sea"]), ("the sun", ["sun"]), ("sea sun", ["sea", "sun"]), ("the bus", [])] * 20
    folder = tmp_path_factory.mktemp("topics") / "run"
    settings = recipe("multi_label_classification")
    settings["training"] = {**settings["training"], "steps": 120}
    regard.train(settings, output=folder, data=texts)
    return folder


def test_any_number_of_labels_is_told_in_a_line(command, topics):
    answer = command("classify", topics, "the sea", "sea sun", "the bus")
    assert [line.split("\t")[0] for line in answer.out.splitlines()] == ["sea", "sea, sun", ""]
    shares = answer.out.splitlines()[1].split("\t")[1].split(", ")
    assert all(0.5 <= float(share) <= 1 for share in shares)
    all_of_them = json.loads(command("classify", topics, "the bus", "--threshold", "1e-9", "--json").out)
    assert all_of_them["classifications"][0]["labels"] == ["sea", "sun"]


def test_a_threshold_decides_on_a_class_or_on_labels(command, spam, topics, alike, tmp_path):
    def told(*options: str) -> list[str]:
        lines = command("classify", spam, "see the bus", "win a prize", *options).out.splitlines()
        return [line.split("\t")[0] for line in lines]

    assert told() == ["ham", "spam"]
    assert told("--threshold", "1e-9") == ["spam", "spam"]
    assert told("--positive", "ham", "--threshold", "1e-9") == ["ham", "ham"]
    assert "threshold is 2" in command("classify", topics, "a", "--threshold", "2").refusal()
    for options, message in (
        (("--positive", "hma", "--threshold", "0.5"), "positive is 'hma', which is no class; did you mean 'ham'"),
        (("--positive", "ham"), "--positive names the class that a threshold applies to; give --threshold too"),
    ):
        assert message in command("classify", spam, "a", *options).refusal()
    assert "--threshold is for models that give classes" in command("classify", alike, "a", "--threshold", "1").err
    assert "--positive is for models that give one class" in command("classify", topics, "a", "--positive", "sun").err


def test_an_evaluation_says_of_which_class_f1_is(command, spam, alike, tmp_path):
    file = tmp_path / "test.csv"
    file.write_text("text,label\nwin a prize,spam\nsee the bus,ham\nsee you at the bus,ham\n")
    shown = dict(line.split("  ", 1) for line in command("evaluate", spam, file).out.splitlines() if "F1 of" in line)
    assert list(shown) == ["F1 of spam"]
    answer = command("evaluate", spam, file, "--positive", "ham", "--threshold", "1e-9")
    assert [line.split() for line in answer.out.splitlines() if line.startswith(("F1", "threshold"))] == [
        ["F1", "of", "ham", "80.00", "%"],
        ["threshold", "1e-09", "of", "ham"],
    ]
    assert "  spam" in answer.out
    assert "recall 0.000, F1 0.000 (1 example)" in answer.out
    found = json.loads(command("evaluate", spam, file, "positive=ham", "threshold=1e-9", "--json").out)
    assert (found["positive"], found["threshold"], found["metrics"]["f1"]) == ("ham", 1e-9, 0.8)
    rated = tmp_path / "rated.csv"
    rated.write_text("text,pair,label\nape,ape,1\nape,bee,0\n")
    assert "positive is not for task regression" in command("evaluate", alike, rated, "--positive", "ham").refusal()


def test_an_evaluation_writes_the_right_label_and_the_other_columns(command, spam, alike, topics, tmp_path):
    file, out = tmp_path / "mail.csv", tmp_path / "told.csv"
    file.write_text("id;Message body;predicted;Routing\n7;win a prize;x;spam\n8;see the bus;y;spam\n", "utf-8-sig")
    columns = ("text=Message body", "label=Routing")
    answer = command("evaluate", spam, file, *columns, "-o", out)
    assert answer.code == 0
    rows = list(csv.DictReader(out.open()))
    told = [{name: row[name] for name in row if not name.startswith("prob")} for row in rows]
    assert told == [
        {"text": "win a prize", "label": "spam", "predicted": "spam", "id": "7", "other_predicted": "x"},
        {"text": "see the bus", "label": "spam", "predicted": "ham", "id": "8", "other_predicted": "y"},
    ]
    for row in rows:
        shares = json.loads(row["probabilities"])
        assert float(row["probability"]) == max(shares.values()) == shares[row["predicted"]]

    def lines(model: Path, name: str, content: str, *options: str) -> list[dict]:
        (tmp_path / name).write_text(content)
        assert command("evaluate", model, tmp_path / name, *options, "--output", tmp_path / "told").code == 0
        return [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]

    (rated, other) = lines(alike, "p.tsv", "n\tsentence1\tsentence2\tscore\nx\tape\tape\t1\ny\tape\tbee\t0\n")
    assert list(rated) == ["text", "pair", "label", "predicted", "n"]
    assert (rated["label"], rated["n"], other["label"], other["n"]) == (1.0, "x", 0.0, "y")
    assert rated["predicted"] > other["predicted"]
    first, second = lines(
        topics, "t.jsonl", '{"text": "sea sun", "label": ["sun"], "by": 3}\n{"text": "bus", "label": []}\n'
    )
    assert (first["label"], first["predicted"], first["by"]) == (["sun"], ["sea", "sun"], 3)
    assert (second["label"], second["predicted"]) == ([], [])


def test_labels_of_a_file_are_measured(command, topics, tmp_path):
    file = tmp_path / "topics.csv"
    file.write_text('text,label\nthe sea,sea\nsea sun,"sea,sun"\nthe bus,\n')
    answer = command("evaluate", topics, file)
    assert "micro F1     100.00 %" in answer.out
    assert "exact match  100.00 %" in answer.out
    assert "  sun        precision 1.000, recall 1.000, F1 1.000" in answer.out
    lower = json.loads(command("evaluate", topics, file, "threshold=1e-9", "--json").out)
    assert lower["metrics"]["exact_match"] == pytest.approx(1 / 3)
