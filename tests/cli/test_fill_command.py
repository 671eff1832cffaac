"""`regard fill`: in and out in every form, what it refuses; and `regard evaluate` for the same models."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

import regard

RECIPE = {
    "task": "masked_language_modelling",
    "model": {"name": "bert", "width": 16, "heads": 2, "feedforward_width": 16, "layers": 1, "maximum_positions": 24},
    "data": {"maximum_length": 24},
    "tokenizer": {"size": 60},
    "training": {"steps": 5, "batch_tokens": 400, "learning_rate": 1e-2, "warmup": 2, "precision": "float32"},
}


@pytest.fixture(scope="module")
def filler(tmp_path_factory) -> Path:
    """The folder of a trained model; not to be changed."""
    draw = random.Random(2)
    words = ["dog", "cat", "sees", "likes", "the", "a", "big"]
    documents = [[" ".join(draw.choices(words, k=5)) + "." for _ in range(6)] for _ in range(30)]
    folder = tmp_path_factory.mktemp("filler") / "run"
    regard.train(RECIPE, output=folder, data=documents)
    return folder


def test_a_line_for_each_text_with_the_candidates_of_each_mask(command, filler):
    texts = ["the [MASK] sees a cat.", "a [MASK] likes [MASK]."]
    answer = command("fill", filler, *texts, "--n-best", 3)
    assert answer.code == 0
    model = regard.load(filler)
    for line, text in zip(answer.out.splitlines(), texts, strict=True):
        best, *masks = line.split("\t")
        filled = model.fill(text, 3)
        assert best == filled.best
        assert len(masks) == text.count("[MASK]")
        for mask, candidates in zip(masks, filled.masks, strict=True):
            assert mask == ", ".join(f"{each.token} {each.probability:.4f}" for each in candidates)


def test_json(command, filler):
    answer = command("fill", filler, "the [MASK] sees.", "--json", "--n-best", 2)
    (found,) = json.loads(answer.out)["filled"]
    filled = regard.load(filler).fill("the [MASK] sees.", 2)
    assert found["text"] == "the [MASK] sees."
    assert found["best"] == filled.best == found["masks"][0][0]["text"]
    assert [each["token"] for each in found["masks"][0]] == [each.token for each in filled.masks[0]]
    assert found["masks"][0][1]["probability"] == pytest.approx(filled.masks[0][1].probability, rel=1e-5)


def test_from_a_file_to_a_file_with_empty_lines_left_empty(command, filler, tmp_path):
    source, output = tmp_path / "in.gz", tmp_path / "out.tsv"
    source.write_bytes(gzip.compress(b"[MASK] dog\n\nthe [MASK]\n"))
    assert command("fill", filler, "--input", source, "--output", output, "--n-best", 1).code == 0
    lines = output.read_text().splitlines()
    assert len(lines) == 3
    assert lines[1] == ""
    assert lines[0].split("\t")[0].endswith("dog")
    piped = command("fill", filler, "--n-best", 1, stdin=b"[MASK] dog\n\nthe [MASK]\n")
    assert piped.out == output.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["the dog"], "text 1: there is no [MASK] in it; write [MASK] in place of a word"),
        (["[MASK]", "the [mask]"], "text 2: there is no [MASK]"),
        (["[MASK] " * 30], "has 32 tokens and the model reads 24"),
        (["[MASK]", "--n-best", "0"], "--n-best"),
    ],
)
def test_what_cannot_be_filled(command, filler, words, message):
    assert message in command("fill", filler, *words).refusal()


def test_a_line_of_a_file_is_named(command, filler, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("[MASK]\nnothing\n")
    assert f"{file}, line 2: there is no [MASK]" in command("fill", filler, "--input", file, "--json").err


def test_a_model_that_fills_nothing_is_refused(command, model, tmp_path):
    assert "a model for translation, and denoising is wanted" in command("fill", model, "[MASK]").refusal()
    assert "no such folder" in command("fill", tmp_path / "none", "[MASK]").refusal()


def test_evaluate_reads_files_of_text(command, filler, tmp_path):
    file = tmp_path / "test.txt"
    file.write_text("the dog sees a cat. a big dog likes the cat.\n\n" * 6)
    answer = command("evaluate", filler, file, "--json")
    found = json.loads(answer.out)
    assert answer.code == 0
    assert found["documents"] == 6
    assert {"masked_loss", "perplexity", "masked_accuracy", "next_sentence_accuracy"} <= found["metrics"].keys()
    only = command("evaluate", filler, file, "-o", tmp_path / "told").refusal()
    assert "has no prediction for each example, only metrics; leave out --output" in only
    assert not (tmp_path / "told").exists()
    plain = command("evaluate", filler, file)
    assert "masked accuracy" in plain.out
    assert "6" in command("evaluate", filler, file, "documents=line", "next_sentence=false").out
