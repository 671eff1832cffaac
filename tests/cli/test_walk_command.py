from __future__ import annotations

import json
from pathlib import Path

import pytest

import regard
from regard.inspection import walk

FIRST = "encoder.layers.0.attention"


def test_the_steps_on_the_terminal(command, model):
    answer = command("walk", model, "abcd", "--query", "c", "--layer", FIRST)
    assert answer.code == 0
    assert answer.err == ""
    lines = answer.out.splitlines()
    assert lines[0] == "abcd"
    assert lines[1].startswith(f"{FIRST} · ScoredAttention(ScaledDot, Soft) · head ")
    titles = [line.split(" ─")[0] for line in lines if line.endswith("─")]
    assert titles[:6] == ["1 · Queries, keys, values", "2 · Scores", "3 · Scale", "4 · Softmax", "5 · Weigh", "6 · Sum"]
    assert titles[6:] == ["Content and position", "The output projection", "The same by the model's own path"]


def test_json_is_the_walk(command, model):
    answer = command("walk", model, "abcd", "--target", "dcb", "--query", "c", "--head", "1", "--json")
    read = json.loads(answer.out)
    seen = walk(regard.load(model), "abcd", "c", target="dcb", head=1)
    assert read == json.loads(seen.to_json())
    assert (read["address"], read["head"], read["position"]) == ("decoder.layers.0.cross_attention", 1, 1)
    assert answer.err == ""


def test_the_models_own_answer_without_a_target(command, model):
    text = regard.load(model).translate("abcd").text
    answer = command("walk", model, "abcd", "--position", "0", "--json")
    assert json.loads(answer.out)["title"] == f"abcd → {text}"


@pytest.mark.parametrize(("name", "beginning"), [("walk.html", "<!doctype html>"), ("walk.json", "{")])
def test_files(command, model, tmp_path, name, beginning):
    place = tmp_path / name
    answer = command("walk", model, "abcd", "--query", "c", "--layer", FIRST, "-o", place)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"{place}: 9 steps of 'c' through {FIRST}\n"
    assert place.read_text().startswith(beginning)


def test_a_head_may_be_named_with_its_layer(command, model):
    answer = command("walk", model, "abcd", "--target", "dcb", "--query", "c", "--head", "0.1", "--json")
    read = json.loads(answer.out)
    assert (read["address"], read["head"]) == ("decoder.layers.0.cross_attention", 1)
    answer = command("walk", model, "abcd", "--query", "c", "--head", f"{FIRST}.0", "--json")
    read = json.loads(answer.out)
    assert (read["address"], read["head"]) == (FIRST, 0)


def test_a_recurrent_model(command, dates_model):
    answer = command("walk", dates_model, "9 mai 2017", "--position", "0")
    assert "decoder.attention · ScoredAttention(Additive, Soft)" in answer.out
    assert "Query and key meet" in answer.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["abcd"], "name the token to follow, with query (--query) or position (--position): 0 "),
        (["abcd", "--query", "x", "--layer", FIRST], "“x” is not among the tokens: 0 a, 1 b, 2 c, 3 d, 4 </s>"),
        (["abca", "--query", "a", "--layer", FIRST], "“a” occurs 2 times, at 0 and 3; choose one with position"),
        (["abcd", "--query", "a", "--layer", "decoder.0"], "no attention layer is called 'decoder.0'"),
        (["abcd", "--query", "a", "--layer", FIRST, "--head", "7"], "head is 7; the layer has heads 0 to 1"),
        (["abcd", "--query", "a", "--head", "5.11"], "there is no layer '5' among encoder.layers.0.attention"),
        (["abcd", "--query", "a", "--head", "x"], "head 'x' is no head; give a number, such as 3, or with its layer"),
        (["abcd", "--query", "a", "--layer", FIRST, "--head", "decoder.*.1"], "is not of layer 'decoder.*'"),
        (["abcd", "--query", "a", "-o", "walk.pdf"], "give one that ends in .html or .json"),
        (["", "--query", "a"], "the text is empty"),
        (["abcd" * 4, "--query", "a"], "the source has 17 tokens and the model has positions for 12"),
        (["abcd", "--query", "a", "--to", "de"], "one language only"),
    ],
)
def test_what_cannot_be_walked_through(command, model, words, sentence):
    assert sentence in command("walk", model, *words).refusal()


def test_a_model_without_attention(command, unattended_model):
    refusal = command("walk", unattended_model, "abc", "--query", "a").refusal()
    assert "there is no attention in this model to walk through" in refusal


FOLDERS = Path(__file__).parents[1] / "golden" / "folders"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "lstmn",
            "“</s>” has nothing to look at in layers.0.attention: there is no token before it; choose a later one",
        ),
        ("infersent", "no layer of regard.attention"),
    ],
)
def test_where_there_is_nothing_to_walk_through(command, name, sentence):
    assert sentence in command("walk", FOLDERS / name, "a b", "--position", "0").refusal()


def test_a_document_and_an_image_are_walked_through(command, tmp_path):
    answer = command("walk", FOLDERS / "han", "a b", "--position", "0")
    assert "sentences.attention · ScoredAttention(Dot, Soft)" in answer.out
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (8, 8), "red").save(tmp_path / "red.png")
    answer = command("walk", FOLDERS / "vit", tmp_path / "red.png", "--query", "[CLS]")
    assert "patch␣2,2" in answer.out
    assert "red.png" not in answer.out
    assert "no such file" in command("walk", FOLDERS / "vit", tmp_path / "blue.png", "--query", "[CLS]").refusal()
