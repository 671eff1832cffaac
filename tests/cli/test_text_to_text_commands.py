"""What the commands do with text-to-text models, and with what these are pre-trained on; and their recipes, end to end."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.cli.main import main

RECIPES = Path(__file__).parents[2] / "recipes"
SMALL = {
    "width": 16,
    "heads": 2,
    "head_width": 8,
    "feedforward_width": 24,
    "encoder_layers": 1,
    "decoder_layers": 1,
}
QUICK = {
    "epochs": None,
    "steps": 3,
    "batch_tokens": 400,
    "warmup": 1,
    "precision": "float32",
    "evaluate_every": 3,
    "evaluate_generated": 4,
}


def settings(**sections: dict[str, Any]) -> list[str]:
    """As `key=value`."""
    return [f"{name}.{key}={json.dumps(value)}" for name, section in sections.items() for key, value in section.items()]


@pytest.fixture(scope="session")
def text_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text in WikiText's manner, pairs, documents with summaries, and questions; of one small language."""
    folder, draw = tmp_path_factory.mktemp("texts"), random.Random(5)
    words = {"dog": "Hund", "cat": "Kater", "bird": "Vogel"}

    def two() -> tuple[str, str]:
        return draw.choice(list(words)), draw.choice(list(words))

    for name, count in (("train.txt", 30), ("valid.txt", 9)):
        articles = "".join(
            f"\n = Article {i} = \n\n" + " The {} sees the {} . \n".format(*two()) * 4 for i in range(count)
        )
        (folder / name).write_text(articles, encoding="utf-8")
    pairs = [two() for _ in range(40)]
    (folder / "de.tsv").write_text("".join(f"the {a} sees\tder {words[a]} sieht\n" for a, _ in pairs), encoding="utf-8")
    with (folder / "articles.jsonl").open("w", encoding="utf-8") as file:
        for a, b in pairs:
            text = f"The {a} sees the {b}. It sleeps."
            file.write(json.dumps({"article": text, "document": text, "summary": f"{a} and {b}"}) + "\n")
    paragraphs = [
        {
            "context": f"the {a} sees the {b}.",
            "qas": [{"id": str(i), "question": "who?", "answers": [{"text": a, "answer_start": 4}]}],
        }
        for i, (a, b) in enumerate(pairs)
    ]
    (folder / "squad.json").write_text(
        json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]}), encoding="utf-8"
    )
    return folder


@pytest.fixture(scope="session")
def pretrained(text_files: Path) -> Path:
    """The recipe for pre-training, small."""
    changes = settings(
        model=SMALL,
        data={
            "train": str(text_files / "train.txt"),
            "validation": str(text_files / "valid.txt"),
            "builtin": None,
            "length": 24,
        },
        tokenizer={"size": 90, "sentinels": 12},
        training={key: value for key, value in QUICK.items() if key != "evaluate_generated"},
    )
    folder = text_files / "pretrained"
    assert main(["train", str(RECIPES / "t5-small-span-corruption.yaml"), *changes, "--output", str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def mixture(text_files: Path, pretrained: Path) -> Path:
    """The recipe for a mixture, going on from that."""
    places = {"german": "de.tsv", "summaries": "articles.jsonl", "answers": "squad.json"}
    changes = settings(
        model={"pretrained": str(pretrained)},
        data={f"parts.{part}.train": str(text_files / name) for part, name in places.items()} | {"maximum_source": 60},
        training=QUICK,
        generation={"maximum_length": 6},
    )
    folder = text_files / "mixture"
    assert main(["train", str(RECIPES / "text-to-text.yaml"), *changes, "--output", str(folder)]) == 0
    return folder


def test_the_recipe_for_summaries_goes_on_from_the_pre_trained_model(text_files, pretrained, command):
    changes = settings(
        model={"pretrained": str(pretrained)},
        data={"train": str(text_files / "articles.jsonl")},
        training=QUICK,
        generation={"maximum_length": 6},
    )
    folder = text_files / "summaries"
    made = command("train", RECIPES / "summarize.yaml", *changes, "--output", folder)
    assert made.code == 0, made.err
    assert "nothing is new" in made.err
    assert regard.load(folder).task.tokenizer == regard.load(pretrained).task.tokenizer
    said = command("evaluate", folder, text_files / "articles.jsonl", "--limit", "3")
    assert "ROUGE-L" in said.out


def test_gaps_are_filled(pretrained, command):
    said = command("fill", pretrained, "The <extra_id_0> sees <extra_id_1>.", "", "The <extra_id_0>", "--json")
    assert said.code == 0, said.err
    first, empty, last = json.loads(said.out)["filled"]
    assert len(first["spans"]) == 2
    assert first["best"].endswith(".")
    assert (empty["spans"], len(last["spans"])) == ([], 1)
    lines = command("fill", pretrained, "The <extra_id_0> sees <extra_id_1>.", "").out.split("\n")
    assert lines[0].count("\t") == 2
    assert lines[1] == ""


def test_gaps_that_cannot_be_filled(pretrained, mixture, command):
    assert "text 1: there is no <extra_id_0>" in command("fill", pretrained, "The dog").refusal()
    assert (
        "--n-best is for models that fill in one word"
        in command("fill", pretrained, "<extra_id_0>", "--n-best", "2").refusal()
    )
    assert "a model for text to text" in command("fill", mixture, "<extra_id_0>").refusal()


def test_texts_are_written_for_texts(mixture, command):
    asked = "translate English to German: the dog sees"
    said = command("generate", mixture, asked, "--json", "--maximum-length", "5")
    assert said.code == 0, said.err
    (written,) = json.loads(said.out)["texts"]
    own = regard.load(mixture)
    shorter = replace(own.task.generation, maximum_length=5)
    assert written["text"] == own.generate("the dog sees", shorter, part="german").text
    assert len(written["tokens"]) == len(written["log_probabilities"]) <= 5
    assert command("generate", mixture, asked, "", "--maximum-length", "5").out == f"{written['text']}\n\n"
    refused = command("generate", mixture, asked, "--json", "--top-log-probabilities", "2").refusal()
    assert "is for language models" in refused


def test_documents_are_summarized(text_files, mixture, command, tmp_path):
    document = tmp_path / "document.txt"
    document.write_text("The dog sees the cat.\nIt sleeps.\n", encoding="utf-8")
    said = command("summarize", mixture, document, "--json")
    assert said.code == 0, said.err
    (found,) = json.loads(said.out)["summaries"]
    assert found["document"] == str(document)
    assert found["summary"] == regard.load(mixture).generate("The dog sees the cat.\nIt sleeps.", part="summaries").text
    assert command("summarize", mixture, document).out == " ".join(found["summary"].split()) + "\n"
    lines = command("summarize", mixture, document, "--lines", "--output", tmp_path / "out.txt")
    assert lines.code == 0, lines.err
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").count("\n") == 2


def test_a_document_from_a_pipe(mixture, command):
    said = command("summarize", mixture, "-", "--json", stdin=b"The dog sees\nthe cat.")
    (found,) = json.loads(said.out)["summaries"]
    assert found["pieces"][0]["text"] == "The dog sees\nthe cat."


def test_long_documents_are_refused_unless_told_what_to_do(mixture, command, tmp_path):
    document = tmp_path / "long.txt"
    document.write_text("The dog sees the cat. It sleeps. " * 9, encoding="utf-8")
    refused = command("summarize", mixture, document).refusal()
    assert "the model reads 60; summarize it in pieces with --long pieces" in refused
    (cut,) = json.loads(command("summarize", mixture, document, "--long", "cut", "--json").out)["summaries"]
    (parts,) = json.loads(command("summarize", mixture, document, "--long", "pieces", "--json").out)["summaries"]
    assert len(cut["pieces"]) == 1 < len(parts["pieces"])
    assert " ".join(each["text"] for each in parts["pieces"]) == document.read_text().strip()
    assert parts["summary"] == " ".join(each["summary"] for each in parts["pieces"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.txt"], "nowhere.txt: no such file"),
        (["EMPTY"], "is empty"),
        (["-", "EMPTY"], "standard input (-) is given together with files"),
        (["FULL", "--prefix", "tl;dr: "], "and not with 'tl;dr: '; give one with --prefix"),
        (["EMPTY", "--long", "other"], "--long"),
    ],
)
def test_what_cannot_be_summarized(mixture, command, tmp_path, words, message):
    (tmp_path / "empty.txt").write_text("\n \n", encoding="utf-8")
    (tmp_path / "full.txt").write_text("The dog.", encoding="utf-8")
    given = [str(tmp_path / f"{word.lower()}.txt") if word.isupper() else word for word in words]
    assert message in command("summarize", mixture, *given).refusal()


def test_a_model_for_something_else_does_not_summarize(model, pretrained, command, tmp_path):
    (tmp_path / "a.txt").write_text("a b", encoding="utf-8")
    assert "text to text is wanted" in command("summarize", model, tmp_path / "a.txt").refusal()
    assert "a model for span corruption" in command("summarize", pretrained, tmp_path / "a.txt").refusal()


def test_parts_are_evaluated_as_they_were_learnt(text_files, mixture, command, tmp_path):
    for part, name in (("german", "de.tsv"), ("summaries", "articles.jsonl"), ("answers", "squad.json")):
        said = command(
            "evaluate", mixture, text_files / name, f"part={part}", "--limit", "4", "--json", "-o", tmp_path / part
        )
        assert said.code == 0, said.err
        found = json.loads(said.out)
        assert (found["part"], found["count"]) == (part, 4)
        assert {"bleu", "rougeL", "f1", "exact_match"} <= found["metrics"].keys()
        assert (tmp_path / part).read_text(encoding="utf-8").count("\n") == 4
    assert "did you mean 'answers'" in command("evaluate", mixture, text_files / "squad.json", "part=answer").refusal()
    assert "--to is no option" in command("evaluate", mixture, text_files / "de.tsv", "--to", "de").refusal()
    assert (
        "did you mean 'beam'" in command("evaluate", mixture, text_files / "de.tsv", "part=german", "baem=2").refusal()
    )


def test_spans_are_evaluated_on_a_text(text_files, pretrained, command):
    said = command("evaluate", pretrained, text_files / "valid.txt", "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert found["count"] > 1
    assert found["metrics"]["loss"] > 0


def test_a_folder_says_what_it_is(mixture, pretrained, command):
    said = command("info", mixture)
    assert "text to text" in said.out
    assert "german: " in said.out
    assert "span corruption" in command("info", pretrained).out
