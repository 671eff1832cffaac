"""Tables as input of predicting commands, and the forms of their output."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path

import pytest

import regard
from regard.cli import run
from regard.text import Tokenizer
from regard.text.warnings import CutTexts, UnknownCharacters, warn_of_unknown

TINY = {"name": "bert", "width": 8, "heads": 2, "feedforward_width": 8, "layers": 1, "maximum_positions": 24}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("table") / "run"
    recipe = {
        "task": "classification",
        "model": TINY,
        "data": {"maximum_length": 16},
        "tokenizer": {"size": 60},
        "training": {"steps": 1, "precision": "float32"},
    }
    regard.train(recipe, output=folder, data=[("see you at the bus", "ham"), ("win the prize", "spam")] * 10)
    return folder


def rows_of(text: str, delimiter: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines(), delimiter=delimiter))


def test_a_header_is_not_classified_and_all_columns_are_kept(command, classifier, tmp_path):
    file = tmp_path / "texts.csv"
    file.write_text('id,message,label\n7,"see you, bus",ham\n8,,ham\n9,win,spam\n')
    answer = command("classify", classifier, "--input", file)
    assert answer.code == 0
    found = rows_of(answer.out)
    assert [(row["id"], row["message"], row["label"]) for row in found] == [
        ("7", "see you, bus", "ham"), ("8", "", "ham"), ("9", "win", "spam"),
    ]  # fmt: skip
    alone = regard.load(classifier).classify("see you, bus")
    assert found[0]["predicted_label"] == alone.label
    assert json.loads(found[0]["probabilities"]) == pytest.approx(alone.probabilities, abs=1e-5)
    assert float(found[0]["probability"]) == pytest.approx(alone.probability, abs=1e-5)
    assert (found[1]["predicted_label"], found[1]["probability"]) == ("", "")


def test_a_column_is_named_or_counted(command, classifier, tmp_path):
    file = tmp_path / "texts.csv"
    file.write_text("number;wording\n1;win\n2;see you\n")
    refused = command("classify", classifier, "--input", file).refusal()
    assert "its columns are 'number', 'wording'" in refused
    assert "--text 0" in refused
    named = command("classify", classifier, "--input", file, "--text", "wording").out
    assert [row["wording"] for row in rows_of(named)] == ["win", "see you"]
    assert command("classify", classifier, "--input", file, "--text", 1).out == named
    assert (
        "no column 'worded' in the header" in command("classify", classifier, "--input", file, "--text", "worded").err
    )
    assert "--text is the column of a table" in command("classify", classifier, "win", "--text", "wording").refusal()


def test_json_lines_in_and_out(command, classifier, tmp_path):
    file, out = tmp_path / "texts.jsonl", tmp_path / "out.jsonl"
    rows = [{"text": "win", "more": {"a": [1, None]}}, {"text": "", "more": 2}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert command("classify", classifier, "--input", file, "--output", out).code == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [{key: row[key] for key in ("text", "more")} for row in found] == rows
    assert found[0]["label"] in ("ham", "spam")
    assert command("classify", classifier, "win", "bus", "--output", out).code == 0  # of plain texts too
    assert [json.loads(line)["text"] for line in out.read_text().splitlines()] == ["win", "bus"]
    table = command("classify", classifier, "--input", file, "--output", tmp_path / "out.tsv")
    assert table.code == 0
    assert [row["text"] for row in rows_of((tmp_path / "out.tsv").read_text(), "\t")] == ["win", ""]


def test_the_column_that_the_model_was_trained_on_is_read_and_told(command, tmp_path):
    train, new = tmp_path / "train.csv", tmp_path / "new.csv"
    rows = [("see you at the bus", "ham"), ("win the prize", "spam")] * 10
    train.write_text(
        "No;Message body;Routing\n" + "".join(f"T-{n};{text};{kind}\n" for n, (text, kind) in enumerate(rows))
    )
    recipe = {
        "task": "classification",
        "model": TINY,
        "data": {"train": str(train), "text": "Message body", "label": "Routing", "maximum_length": 16},
        "tokenizer": {"size": 60},
        "training": {"steps": 1, "precision": "float32"},
    }
    run = regard.train(recipe, output=tmp_path / "run").folder
    new.write_text("No;received;Message body\nT-1;today;win the bus\nT-2;today;see you\n", "utf-8-sig")
    answer = command("classify", run, "--input", new)
    assert answer.code == 0, answer
    assert answer.err == f"{new}: the first line names the columns, of which 'Message body' is read\n"
    named = command("classify", run, "--input", new, "--text", "Message body")
    assert (answer.out, named.err) == (named.out, "")
    assert [row["Message body"] for row in rows_of(answer.out)] == ["win the bus", "see you"]
    lines = tmp_path / "new.jsonl"
    lines.write_text(json.dumps({"No": 1, "text": "see", "Message body": "win the bus"}) + "\n")
    said = json.loads(command("classify", run, "--input", lines).out)
    alone = json.loads(command("classify", run, "win the bus", "--json").out)["classifications"][0]
    assert said["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-6)
    bare = tmp_path / "bare.csv"
    bare.write_text("win the bus\nsee you\n")
    assert "bare.csv: has no header, so its first line is read as a text" in command("classify", run, "-i", bare).err
    other = tmp_path / "other.csv"
    other.write_text("No;when;words\n1;2026-01-01;win\n2;2026-01-02;see\n")
    assert "its columns are 'No', 'when', 'words'; say which column" in command("classify", run, "-i", other).refusal()


def test_translations_keep_the_columns(command, model, tmp_path):
    file = tmp_path / "words.csv"
    file.write_text("id,text\n1,abc\n2,cd\n")
    found = rows_of(command("translate", model, "--input", file).out)
    plain = command("translate", model, "abc", "cd").out.splitlines()
    assert [row["predicted_text"] for row in found] == plain
    assert [row["text"] for row in found] == ["abc", "cd"]


@pytest.mark.parametrize("words", [("abc",), ("abc", "cd")])
def test_json_goes_to_the_file_that_is_named(command, model, tmp_path, words):
    out = tmp_path / "out.json"
    answer = command("translate", model, *words, "--json", "--output", out)
    assert (answer.code, answer.out) == (0, "")
    assert json.loads(out.read_text()) == json.loads(command("translate", model, *words, "--json").out)


def test_a_long_unknown_part_is_shown_in_short():
    tokenizer = Tokenizer.train(["ab ab ab"], kind="bert", size=30)
    text = "z" * 300
    with pytest.warns(UnknownCharacters) as warned:
        warn_of_unknown(tokenizer, [text], [tokenizer.encode(text)])
    assert str(warned[0].message).endswith(f"unknown: '{'z' * 20}'... (300 characters)")


def test_texts_that_are_cut_are_counted_once(command, classifier, tmp_path, monkeypatch):
    model = regard.load(classifier)
    room = model.maximum_length - 2
    fits, long = " ".join(["bus"] * room), " ".join(["bus"] * (room + 1))
    with pytest.warns(CutTexts) as warned:
        model.classify_batch([fits, long, "bus", long])
    assert [(one.message.count, one.message.total) for one in warned if one.category is CutTexts] == [(2, 4)]
    with pytest.warns(CutTexts, match=f"the text is longer than the {room + 2} tokens that the model reads"):
        model.classify(long)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.classify(fits)
    monkeypatch.setattr(run, "TOGETHER", 2)
    file = tmp_path / "long.txt"
    file.write_text("\n".join([long, "bus", long, "", long]) + "\n")
    told = command("classify", classifier, "--input", file).err.splitlines()
    assert [line for line in told if "longer" in line] == [
        f"warning: 3 of 4 texts are longer than the {room + 2} tokens that the model reads; the tokens after them were ignored"
    ]
    assert "longer" not in command("classify", classifier, fits).err


def test_unknown_characters_are_named(command, model):
    answer = command("translate", model, "ab!", "cd")
    assert answer.code == 0
    assert answer.err.startswith("warning: 1 text has characters or words that the tokenizer does not know")
    assert "'!'" in answer.err
    assert "warning" not in command("translate", model, "ab", "cd").err
    with pytest.warns(UnknownCharacters, match="'!'"):
        regard.load(model).translate("ab!")
