"""`regard evaluate` and `regard info` on a language model, and the commands that are for other models."""

from __future__ import annotations

import json

import pytest

import regard

TEXTS = [f"line number {i} of the text" for i in range(30)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "language-model"
    values = {
        "task": "language_modelling",
        "model": {"name": "lstm_language_model", "embedding_width": 8, "hidden_width": 8},
        "data": {"length": 16},
        "tokenizer": {"kind": "character", "size": 40},
        "training": {"steps": 3, "batch_tokens": 200, "precision": "float32"},
    }
    regard.train(values, output=folder, data=TEXTS)
    return folder


def test_numbers_as_a_table_and_as_json(command, model, tmp_path):
    path = tmp_path / "test.txt"
    path.write_text("line number 9\n\nthe § text\n")
    answer = command("evaluate", model, path, "--json", "--output", tmp_path / "out.txt")
    values = json.loads(answer.out)
    assert (values["count"], values["unknown"], values["unit"]) == (2, 1, "line")
    assert set(values["metrics"]) == {"loss", "perplexity", "token_accuracy", "word_perplexity", "bits_per_character"}
    written = (tmp_path / "out.txt").read_text().splitlines()
    assert [line.split("\t")[1] for line in written] == ["line number 9", "the § text"]
    table = command("evaluate", model, path).out
    assert "bits per character" in table
    assert "of which 1 unknown" in table


def test_builtin_text(command, model):
    assert json.loads(command("evaluate", model, "python_docs", "--limit", "1", "--json").out)["count"] == 1


@pytest.mark.parametrize("option", [["--to", "de"], ["--bins", "3"], ["--source", "1"], ["beam=4"]])
def test_options_for_pairs_are_refused(command, model, tmp_path, option):
    (tmp_path / "a.txt").write_text("a\n")
    assert (
        "for task language_modelling; leave it out" in command("evaluate", model, tmp_path / "a.txt", *option).refusal()
    )


def test_other_commands_say_what_they_want(command, model):
    wanted = "a model for language modelling, and translation is wanted"
    assert wanted in command("translate", model, "a").refusal()
    assert "there is no attention in this model to look at" in command("look", model, "a").refusal()


def test_info(command, model):
    text = command("info", model).out
    assert "language modelling" in text
    assert "text tokenizer" in text


def test_a_gpt_reads_what_is_longer_than_its_positions_in_windows(command, tmp_path):
    values = {
        "task": "language_modelling",
        "model": {
            "name": "gpt2",
            "width": 8,
            "heads": 2,
            "feedforward_width": 16,
            "layers": 1,
            "maximum_positions": 16,
        },
        "data": {"length": 16},
        "tokenizer": {"kind": "character", "size": 40},
        "training": {"steps": 2, "batch_tokens": 200, "precision": "float32"},
    }
    regard.train(values, output=tmp_path / "gpt", data=TEXTS)
    (tmp_path / "long.txt").write_text("a line of many more characters than sixteen\n")
    answers = [
        json.loads(command("evaluate", tmp_path / "gpt", tmp_path / "long.txt", *words, "--json").out)
        for words in ([], ["stride=8"], ["stride=1"])
    ]
    assert answers[0]["metrics"] == answers[1]["metrics"] != answers[2]["metrics"]
    assert [answer["stride"] for answer in answers] == [None, 8, 1]
    for stride, wanted in (("stride=17", "give 1 to 16"), ("stride=many", "stride is 'many'")):
        assert wanted in command("evaluate", tmp_path / "gpt", tmp_path / "long.txt", stride).refusal()
