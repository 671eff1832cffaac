"""`regard generate`."""

from __future__ import annotations

import json

import pytest

import regard

TEXTS = [f"line number {i} of the text" for i in range(30)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "gpt"
    values = {
        "task": "language_modelling",
        "model": {
            "name": "gpt2",
            "width": 16,
            "heads": 2,
            "feedforward_width": 32,
            "layers": 1,
            "maximum_positions": 48,
        },
        "data": {"length": 32},
        "tokenizer": {"kind": "character", "size": 40},
        "training": {"steps": 150, "batch_tokens": 500, "precision": "float32", "learning_rate": 1e-2, "warmup": 5},
    }
    regard.train(values, output=folder, data=TEXTS)
    return folder


def test_a_line_for_each_prompt_and_an_empty_one_for_an_empty_one(command, model, tmp_path):
    (tmp_path / "prompts.txt").write_text("line num\n\nline number 1\n")
    lines = command("generate", model, "--input", tmp_path / "prompts.txt", "--maximum-length", 20).out.split("\n")
    assert lines[0].startswith("ber")
    assert lines[1] == ""
    assert lines[2].startswith("of t")
    command("generate", model, "--input", tmp_path / "prompts.txt", "--output", tmp_path / "out.txt")
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 3


def test_json_has_tokens_and_scores(command, model):
    values = json.loads(command("generate", model, "line nu", "--stop", "ber", "--json").out)["texts"]
    assert values[0]["prompt"] == "line nu"
    assert values[0]["text"] == "m"
    assert values[0]["finished"]
    assert len(values[0]["tokens"]) == len(values[0]["log_probabilities"]) == 4


def test_samples_do_not_depend_on_the_batch_size(command, model, tmp_path):
    (tmp_path / "prompts.txt").write_text("line\n" * 5)
    words = ("generate", model, "--input", tmp_path / "prompts.txt", "--sample", "--temperature", 2, "--n-best", 2)
    outs = [command(*words, "--batch-size", size, "--maximum-length", 8).out for size in (1, 3)]
    assert outs[0] == outs[1]
    assert len(set(outs[0].splitlines())) > 1


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["x" * 60], "positions for 48"),
        (["a", "--beam", 2, "--stop", "x"], "set beam to 1"),
        (["a", "--top-p", 2], "top_p"),
        (["a", "--stop", ""], "a stop is empty"),
    ],
)
def test_what_cannot_be_done_is_said(command, model, options, wanted):
    assert wanted in command("generate", model, *options).refusal()
