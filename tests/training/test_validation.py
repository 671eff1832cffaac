"""Validation of a model of several languages: each language's numbers, and those of all together."""

from __future__ import annotations

import json
import math

import pytest

import regard
from regard.tasks.translation import teacher_forced
from regard.tasks.translation_data import builtin_pairs

COPY = {"sequences": {"kind": "copy", "symbols": 6, "shortest": 2, "longest": 4, "size": 200, "validation_size": 20}}
LAST_FIRST = {"sequences": COPY["sequences"] | {"kind": "reversal", "validation_size": 10}}
RECIPE = {
    "seed": 3,
    "model": {
        "name": "transformer",
        "width": 16,
        "heads": 2,
        "feedforward_width": 24,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "dropout": 0.0,
    },
    "data": {"targets": {"same": COPY, "back": LAST_FIRST}},
    "tokenizer": {"kind": "word", "size": 30},
    "training": {
        "steps": 30,
        "batch_tokens": 400,
        "learning_rate": 1e-2,
        "warmup": 5,
        "precision": "float32",
        "evaluate_every": 30,
        "evaluate_generated": 16,
        "best": "bleu",
    },
    "generation": {"maximum_length": 8},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return regard.train(RECIPE, output=tmp_path_factory.mktemp("runs") / "two")


@pytest.fixture(scope="module")
def held_out():
    return {
        name: builtin_pairs(RECIPE["data"]["targets"][name], "validation", count, seed=3)
        for name, count in (("same", 20), ("back", 10))
    }


def test_losses_are_those_of_each_language_and_of_all(run, held_out):
    model = run.load()
    found = {name: teacher_forced(model, held_out[name], to=name) for name in held_out}
    for name, numbers in found.items():
        assert run.metrics[f"loss.{name}"] == pytest.approx(numbers.loss, rel=1e-5)
        assert run.metrics[f"perplexity.{name}"] == pytest.approx(numbers.perplexity, rel=1e-4)
        assert run.metrics[f"token_accuracy.{name}"] == pytest.approx(numbers.token_accuracy)
    tokens = sum(numbers.tokens for numbers in found.values())
    together = sum(numbers.loss * numbers.tokens for numbers in found.values()) / tokens
    assert run.metrics["loss"] == pytest.approx(together, rel=1e-5)
    assert run.metrics["perplexity"] == pytest.approx(math.exp(together), rel=1e-4)
    assert run.metrics["loss.same"] != run.metrics["loss.back"]


def test_decoding_takes_a_like_share_of_each_language(run, held_out):
    model = run.load()
    right = {}
    for name, pairs in held_out.items():
        found = regard.evaluate(model, pairs[:8], to=name)
        right[name] = found.metrics["exact_match"]
        assert run.metrics[f"exact_match.{name}"] == right[name]
        assert run.metrics[f"bleu.{name}"] == pytest.approx(found.metrics["bleu"])
    assert run.metrics["exact_match"] == pytest.approx((right["same"] + right["back"]) / 2)


def test_the_log_and_the_folder_have_them(run):
    events = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    validation = [event for event in events if event["event"] == "validation"][-1]
    names = {f"{name}{suffix}" for name in ("loss", "bleu") for suffix in ("", ".same", ".back")}
    assert names <= validation.keys()
    assert names <= json.loads((run.folder / "regard.json").read_text())["metrics"].keys()


def test_a_resumed_run_knows_its_languages(run):
    again = regard.train(RECIPE, output=run.folder, resume=True)
    assert again.metrics == run.metrics
    assert again.load().task.languages == ("same", "back")
