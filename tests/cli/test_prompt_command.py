"""`regard prompt`."""

from __future__ import annotations

import json

import pytest

import regard

COLOURS = {"grass": "green", "snow": "white", "coal": "black", "blood": "red"}
TEXTS = [f"{thing} is {colour}." for thing, colour in COLOURS.items()] * 20


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "gpt"
    values = {
        "task": "language_modelling",
        "model": {
            "name": "gpt2",
            "width": 32,
            "heads": 2,
            "feedforward_width": 64,
            "layers": 1,
            "maximum_positions": 16,
            "dropout": 0.0,
            "embedding_dropout": 0.0,
            "attention_dropout": 0.0,
        },
        "data": {"length": 16},
        "tokenizer": {"kind": "word", "size": 40},
        "training": {"steps": 150, "batch_tokens": 500, "precision": "float32", "learning_rate": 5e-3, "warmup": 5},
    }
    regard.train(values, output=folder, data=TEXTS)
    return folder


@pytest.fixture
def questions(tmp_path):
    lines = [
        {"context": f"{thing} is", "choices": list(COLOURS.values()), "answer": colour}
        for thing, colour in COLOURS.items()
    ]
    (tmp_path / "colours.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "colours.jsonl"


def test_choices_as_a_table_and_as_json(command, model, questions, tmp_path):
    words = ("prompt", model, questions, "--template", "choice", "--score", "token")
    answer = command(*words, "--output", tmp_path / "said.txt")
    assert "accuracy   100.00 %" in answer.out
    assert "chance     25.00 %" in answer.out
    assert (tmp_path / "said.txt").read_text().split() == list(COLOURS.values())
    values = json.loads(command(*words, "--json").out)
    assert values["metrics"] == {"accuracy": 1.0, "chance": 0.25}
    assert (values["shots"], values["score"], values["count"], values["malformed"]) == (0, "token", 4, 0)
    assert values["prompt"] == "grass is"
    assert [len(each["scores"]) for each in values["answers"]] == [4] * 4


def test_shots_come_from_a_training_file_and_never_are_the_question(command, model, questions):
    words = ("prompt", model, questions, "--template", "choice", "--shots", 2, "--train", questions, "--json")
    values = json.loads(command(*words, "--seed", 5).out)
    assert (values["shots"], values["seed"], values["sample"]) == (2, 5, "once")
    first = values["prompt"].split("\n\n")
    assert len(first) == 3
    assert first[-1] == "grass is"
    assert not any(each.startswith("grass") for each in first[:2])
    assert json.loads(command(*words, "--seed", 5).out)["answers"] == values["answers"]


def test_answers_are_written(command, model, tmp_path):
    (tmp_path / "q.tsv").write_text("snow is\twhite.\ncoal is\tblack.\n")
    (tmp_path / "mine.yaml").write_text('task: answer\nquestion: "{q}"\nright: a\nmaximum_length: 3\n')
    out = command("prompt", model, tmp_path / "q.tsv", "--template", tmp_path / "mine.yaml", "--columns", "q,a").out
    assert "exact match  100.00 %" in out


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--template", "chioce"], "did you mean 'choice'"),
        (["--template", "choice", "--score", "tokens"], "--score is 'tokens'"),
        (["--template", "choice", "--sample", "twice"], "--sample is 'twice'"),
        (["--template", "choice", "--shots", 2], "name their file with --train"),
        (["--template", "choice", "--shots", 3, "--train", "FILE"], "the model has positions for 16; give at most"),
        (["--template", "choice", "--shots", 5, "--train", "FILE"], "there are 4 examples to sample from"),
        (["--template", "answer"], "there is no field 'question'"),
        (["--template", "choice", "--format", "cvs"], "there is no format 'cvs'"),
        (["--template", "choice", "--columns", "a,b"], "columns are those of a table"),
    ],
)
def test_what_cannot_be_done_is_said(command, model, questions, options, wanted):
    words = [questions if word == "FILE" else word for word in options]
    assert wanted in command("prompt", model, questions, *words).refusal()
