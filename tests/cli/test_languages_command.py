"""`--to` in every command that reads a text, on a model of two languages: one copies, the other turns around."""

from __future__ import annotations

import json

import pytest

import regard
from regard.inspection import AttentionView
from regard.tasks.translation_data import builtin_pairs

SEQUENCES = {"symbols": 6, "shortest": 2, "longest": 4, "size": 200, "validation_size": 10}
TARGETS = {kind: {"sequences": SEQUENCES | {"kind": kind}} for kind in ("copy", "reversal")}


@pytest.fixture(scope="module")
def polyglot(tmp_path_factory):
    recipe = {
        "model": {
            "name": "transformer",
            "width": 16,
            "heads": 2,
            "feedforward_width": 24,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "maximum_positions": 10,
        },
        "data": {"targets": TARGETS},
        "tokenizer": {"kind": "word", "size": 30},
        "training": {"steps": 3, "batch_tokens": 400, "precision": "float32"},
        "generation": {"maximum_length": 8},
    }
    return regard.train(recipe, output=tmp_path_factory.mktemp("runs") / "polyglot").folder


def test_translate(command, polyglot):
    model = regard.load(polyglot)
    for name in TARGETS:
        answer = command("translate", polyglot, "s1 s2 s3", "", "s4", "--to", name)
        expected = [translation.text for translation in model.translate_batch(["s1 s2 s3", "s4"], to=name)]
        assert answer.out.split("\n") == [expected[0], "", expected[1], ""]


def test_evaluate_takes_the_languages_own_builtin_data(command, polyglot):
    found = json.loads(command("evaluate", polyglot, "sequences", "--to", "reversal", "--limit", 30, "--json").out)
    pairs = builtin_pairs(TARGETS["reversal"], "test", 30)
    assert found["to"] == "reversal"
    assert found["metrics"] == regard.evaluate(regard.load(polyglot), pairs, to="reversal").metrics


def test_look(command, polyglot):
    for words in ((), ("--target", "s3 s2")):
        view = AttentionView.from_json(command("look", polyglot, "s1 s2", "--to", "copy", "--json", *words).out)
        assert view.maps[-1].key_tokens == ("<2copy>", "▁s1", "▁s2", "</s>")


def test_info_says_which_languages_there_are(command, polyglot):
    answer = command("info", polyglot)
    assert "copy, reversal" in answer.out
    assert "copy: builtin sequences, 200: copy, length 2-4, 6 symbols; reversal: builtin" in answer.out
    assert "loss copy" in answer.out
    assert json.loads(command("info", polyglot, "--json").out)["languages"] == ["copy", "reversal"]


@pytest.mark.parametrize(
    "words", [("translate", "MODEL", "s1"), ("evaluate", "MODEL", "sequences"), ("look", "MODEL", "s1")]
)
def test_a_missing_or_unknown_language(command, polyglot, words):
    words = [polyglot if word == "MODEL" else word for word in words]
    assert "name one with to (--to): copy, reversal" in command(*words).refusal()
    assert "does not translate into 'fr'; it translates into copy, reversal" in command(*words, "--to", "fr").refusal()


@pytest.mark.parametrize(
    "words", [("translate", "MODEL", "ab"), ("evaluate", "MODEL", "FILE"), ("look", "MODEL", "ab")]
)
def test_a_model_of_one_language(command, model, pairs_file, words):
    words = [{"MODEL": model, "FILE": pairs_file}.get(word, word) for word in words]
    assert "the model translates into one language only" in command(*words, "--to", "fr").refusal()


def test_the_tag_counts_among_the_positions(command, polyglot):
    """Ten positions: the tag, eight symbols, the end token."""
    assert command("translate", polyglot, " ".join(["s1"] * 8), "--to", "copy").code == 0
    sentence = command("translate", polyglot, " ".join(["s1"] * 9), "--to", "copy").refusal()
    assert "text 1: the source has 11 tokens and the model has positions for 10" in sentence
