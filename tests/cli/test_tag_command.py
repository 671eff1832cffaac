"""`regard tag`: in and out in every form, and what it refuses."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

import regard
from regard.data.tagged import read_tagged

PEOPLE, PLACES, OTHERS = ["Ann", "Bob Lee", "Angela Merkel"], ["Paris", "New York"], ["visited", "saw", "loves"]


def sentences(count: int) -> list[tuple[list[str], list[str]]]:
    """People who visit places."""
    draw = random.Random(5)
    found = []
    for _ in range(count):
        words: list[str] = []
        tags: list[str] = []
        for part, type in (
            (draw.choice(PEOPLE), "PER"),
            (draw.choice(OTHERS), ""),
            (draw.choice(PLACES), "LOC"),
            (".", ""),
        ):
            for number, word in enumerate(part.split()):
                words.append(word)
                tags.append(f"{'BI'[number > 0]}-{type}" if type else "O")
        found.append((words, tags))
    return found


def recipe(**data) -> dict:
    return {
        "task": "tagging",
        "model": {
            "name": "bert",
            "width": 16,
            "heads": 2,
            "feedforward_width": 16,
            "layers": 1,
            "maximum_positions": 24,
            "dropout": 0.0,
        },
        "data": {"maximum_length": 24, **data},
        "tokenizer": {"size": 90},
        "training": {
            "steps": 60,
            "batch_tokens": 400,
            "learning_rate": 2e-2,
            "warmup": 5,
            "precision": "float32",
            "best": "f1",
        },
    }


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> Path:
    """The folder of a tagger that knows a few names; not to be changed."""
    folder = tmp_path_factory.mktemp("names") / "model"
    run = regard.train(recipe(), output=folder, data=sentences(150), validation=sentences(20))
    assert run.metrics["f1"] == 1.0
    return folder


@pytest.fixture(scope="module")
def speech(tmp_path_factory) -> Path:
    """The folder of a tagger of parts of speech; not to be changed."""
    folder = tmp_path_factory.mktemp("speech") / "model"
    kinds = {"visited": "VERB", "saw": "VERB", "loves": "VERB", ".": "PUNCT"}
    data = [(words, [kinds.get(word, "NAME") for word in words]) for words, _ in sentences(150)]
    run = regard.train(recipe(), ["training.best=accuracy"], output=folder, data=data)
    assert run.metrics["accuracy"] == 1.0
    assert run.metrics["f1"] == 1.0
    return folder


def test_entities_stand_in_brackets(command, names):
    answer = command("tag", names, "Angela Merkel visited  New York.", "", "Ann saw Ann")
    assert answer.code == 0
    assert answer.err == ""
    assert answer.out == "[PER Angela Merkel] visited  [LOC New York].\n\n[PER Ann] saw [PER Ann]\n"


def test_tags_without_spans_follow_their_words(command, speech):
    assert command("tag", speech, "Ann saw Paris.").out == "Ann/NAME saw/VERB Paris/NAME./PUNCT\n"


def test_columns_out(command, names):
    answer = command("tag", names, "--format", "conll", "Ann saw New York.", stdin=b"")
    assert answer.out == "Ann\tB-PER\nsaw\tO\nNew\tB-LOC\nYork\tI-LOC\n.\tO\n\n"


def test_json_has_places_and_probabilities(command, names):
    text = "Ann saw New York."
    answer = command("tag", names, text, "--json")
    (tagging,) = json.loads(answer.out)["taggings"]
    assert [(word["text"], word["tag"]) for word in tagging["words"]][:2] == [("Ann", "B-PER"), ("saw", "O")]
    assert all(text[word["start"] : word["end"]] == word["text"] for word in tagging["words"])
    ann, york = tagging["entities"]
    assert (ann["type"], ann["text"], ann["start"], ann["end"]) == ("PER", "Ann", 0, 3)
    assert (york["type"], york["text"], york["start"], york["end"]) == ("LOC", "New York", 8, 16)
    assert 0.5 < york["probability"] <= 1


def test_a_json_object_in_each_line(command, names, tmp_path):
    place = tmp_path / "out.jsonl"
    answer = command("tag", names, "Ann", "", "Paris", "--format", "json", "--output", place)
    assert (answer.code, answer.out) == (0, "")
    rows = [json.loads(line) for line in place.read_text().splitlines()]
    assert [len(row["entities"]) for row in rows] == [1, 0, 1]
    assert rows[0] == json.loads(command("tag", names, "Ann", "--json").out)["taggings"][0]


def test_lines_of_a_file_and_of_standard_input(command, names, tmp_path):
    path = tmp_path / "texts.txt.gz"
    path.write_bytes(gzip.compress(b"Ann saw Paris.\n\nBob Lee\n"))
    expected = "[PER Ann] saw [LOC Paris].\n\n[PER Bob Lee]\n"
    assert command("tag", names, "--input", path).out == expected
    assert command("tag", names, stdin=b"Ann saw Paris.\n\nBob Lee\n").out == expected


def test_words_are_taken_as_they_are(command, names):
    answer = command("tag", names, "--words", "--format", "conll", "Ann saw Paris.")
    assert [line.split("\t")[0] for line in answer.out.split("\n")] == ["Ann", "saw", "Paris.", "", ""]


CONLL = "-DOCSTART- O\n\nAnn NNP X\nsaw VBD X\nParis. NNP X\n\nBob NNP X\nLee NNP X\n"


@pytest.mark.parametrize("option", [[], ["--columns"]])
def test_a_file_of_words_keeps_its_words(option, command, names, tmp_path):
    path = tmp_path / ("dev.txt" if option else "dev.conll")
    path.write_text(CONLL)
    out = tmp_path / "out.conll"
    assert command("tag", names, "-i", path, *option, "--format", "conll", "-o", out).code == 0
    assert [sentence.words for sentence in read_tagged(out)] == [("Ann", "saw", "Paris."), ("Bob", "Lee")]
    assert list(read_tagged(out))[1].tags == ("B-PER", "I-PER")


def test_a_model_with_context_reads_neighbours_in_files_of_words(command, tmp_path):
    folder = tmp_path / "model"
    regard.train(recipe(context=8), ["training.steps=2"], output=folder, data=sentences(40), validation=sentences(5))
    path = tmp_path / "dev.conll"
    path.write_text("Ann x\n\nsaw x\n\nParis x\n")
    model = regard.load(folder)
    found = json.loads(command("tag", folder, "-i", path, "--json").out)["taggings"]
    expected = model.tag_batch([["Ann"], ["saw"], ["Paris"]], documents=[0, 0, 0])
    alone = model.tag_batch([["Ann"], ["saw"], ["Paris"]])
    said = [row["words"][0]["probability"] for row in found]
    assert said == pytest.approx([tagging.probabilities[0] for tagging in expected], rel=1e-5)
    assert said != pytest.approx([tagging.probabilities[0] for tagging in alone], rel=1e-5)


def test_greedy_tags_are_those_of_each_word(command, names):
    answer = command("tag", names, "York Ann", "--decoding", "greedy", "--format", "conll")
    model = regard.load(names)
    assert [line.split("\t")[1] for line in answer.out.split("\n")[:2]] == list(
        model.tag("York Ann", decoding="greedy").tags
    )


def test_long_lines_are_tagged_to_their_end(command, names):
    answer = command("tag", names, "--format", "conll", "Ann saw Paris . " * 100)
    tags = [line.split("\t")[1] for line in answer.out.split("\n") if line]
    assert len(tags) == 400
    assert tags.count("B-PER") >= 90


def test_mistakes_are_told_in_a_sentence(command, names, tmp_path):
    long = tmp_path / "long.txt"
    long.write_text("Ann\n" + "a" * 10_000_000)
    assert "long.txt, line 2: line too long" in command("tag", names, "-i", long, "-o", tmp_path / "o").refusal()
    nul = tmp_path / "nul.txt"
    nul.write_bytes(b"Ann\nBob\x00Lee\n")
    assert "nul.txt, line 2: NUL character" in command("tag", names, "-i", nul, "-o", tmp_path / "o").refusal()
    ragged = tmp_path / "ragged.conll"
    ragged.write_text("Ann O\nsaw O\nParis\n\nx O\n")
    assert "ragged.conll, line 3: wrong number of columns" in command("tag", names, "-i", ragged).refusal()
    assert not (tmp_path / "o").exists()
    assert "give one of them" in command("tag", names, "Ann", "-i", ragged).refusal()
    assert "--columns goes with --input" in command("tag", names, "Ann", "--columns").refusal()
    assert "text 1: has no words" in command("tag", names, "\x01").refusal()
    assert "'--format'" in command("tag", names, "Ann", "--format", "xml").refusal()


def test_models_for_something_else_are_refused(command, model):
    assert "tagging is wanted" in command("tag", model, "Ann").refusal()


def test_evaluating_a_tagger(command, names, tmp_path):
    path = tmp_path / "dev.conll"
    path.write_text("".join("".join(f"{w} {t}\n" for w, t in zip(*one, strict=True)) + "\n" for one in sentences(10)))
    answer = command("evaluate", names, path, "--json")
    assert json.loads(answer.out)["metrics"]["f1"] == 1.0
    assert command("evaluate", names, path, "-o", tmp_path / "told").code == 0
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert [(one["words"], one["tags"]) for one in told] == [(list(words), list(tags)) for words, tags in sentences(10)]
    assert all(one["predicted"] == one["tags"] for one in told)
