"""`regard look` and `regard info` on encoders of texts: our own folders, and those of other programs, with a head or without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import regard
from regard.checkpoints import parameters_of, write_model
from regard.inspection import AttentionView, prune
from regard.models import MODELS, BertConfig, DistilBertConfig
from regard.tasks.classification import ClassificationTask, Classifier
from regard.text import Tokenizer

TEXTS = ["the cat sat on the mat.", "a dog ran off, far away", "cats and dogs are not unaffable"] * 6
SIZES = {"width": 12, "heads": 3, "feedforward_width": 10, "layers": 2, "maximum_positions": 14}


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, kind="bert", size=70, lowercase=True)


@pytest.fixture
def own(tokenizer, seeded, randomize, tmp_path) -> Path:
    """The folder of a classifier of ours."""
    task = ClassificationTask(tokenizer=tokenizer, classes=("calm", "wild"), maximum_length=12)
    config = BertConfig(**SIZES, **task.model_settings())
    model = Classifier(randomize(MODELS["bert"].model(config)), task, recipe={}, metrics={"accuracy": 0.75})
    model.save(tmp_path / "own")
    return tmp_path / "own"


@pytest.fixture
def foreign(tokenizer, seeded, randomize, tmp_path):
    """A folder that another program wrote."""

    def make(config: BertConfig | DistilBertConfig) -> Path:
        place = tmp_path / "foreign"
        place.mkdir()
        model = randomize(MODELS[config.model_type].model(config))
        write_model(place, config, parameters_of(model), task={}, recipe={}, metrics={})
        (place / "regard.json").unlink()
        tokenizer.save(place)
        return place

    return make


def test_the_last_layer_on_the_terminal(command, own):
    answer = command("look", own, "The cat sat.")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "The cat sat."
    assert lines[1] == "layers.1.attention · mean of 3 heads"
    assert sum(line.strip().startswith(("[CLS]", "the", "[SEP]")) for line in lines) >= 3
    assert answer.out.count("layers.") == 1
    assert answer.err == "1 further maps, of the layers below; --layer '*' shows all\n"


def test_all_layers_where_asked(command, own):
    answer = command("look", own, "The cat sat.", "--layer", "*")
    assert [line.split(" ")[0] for line in answer.out.splitlines() if "layers" in line] == [
        "layers.0.attention",
        "layers.1.attention",
    ]
    assert answer.err == ""
    assert "layers.0.attention" in command("look", own, "The cat sat.", "--layer", "layers.0.*").out


def test_json_is_what_looking_at_the_loaded_model_shows(command, own):
    view = AttentionView.from_json(command("look", own, "The cat sat.", "--json").out)
    classifier = regard.load(own, task="classification")
    with regard.look(classifier) as seen:
        classifier.classify("The cat sat.")
    assert view == seen.view(0)


@pytest.mark.parametrize("option", ["--pair", "--target"])
def test_two_texts(command, own, option):
    view = AttentionView.from_json(command("look", own, "the cat", option, "A dog.", "--json").out)
    assert view.title == "the cat | A dog."
    tokens = view.maps[0].key_tokens
    assert tokens.count("[SEP]") == 2
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")


@pytest.mark.parametrize(
    ("name", "beginning"),
    [("page.html", b"<!doctype html>"), ("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml"), ("w.json", b"{")],
)
def test_files(command, own, tmp_path, name, beginning):
    answer = command("look", own, "a dog", "-o", tmp_path / name)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"{tmp_path / name}: 2 attention maps of 'a dog'\n"
    assert (tmp_path / name).read_bytes()[: len(beginning)].lower() == beginning.lower()


@pytest.mark.parametrize("family", ["bert", "distilbert"])
@pytest.mark.parametrize("head", ["none", "masked", "tokens"])
def test_another_programs_folder_whatever_its_head(command, foreign, tokenizer, family, head):
    kind = BertConfig if family == "bert" else DistilBertConfig
    folder = foreign(kind(**SIZES, vocabulary=tokenizer.size, head=head, outputs=3 if head == "tokens" else 0))
    answer = command("look", folder, "a dog")
    assert answer.code == 0, answer
    assert "layers.1.attention" in answer.out
    found = json.loads(command("info", folder, "--json").out)
    assert (found["family"], found["head"]) == (family, head)
    assert found["attention"] == ["layers.0.attention", "layers.1.attention"]
    assert found["tokenizers"] == {"text": {"kind": "bert", "vocabulary": tokenizer.size}}
    assert found["layout"] == {"name": family}
    assert found["versions"] == found["recipe"] == found["metrics"] == {}
    assert found["sizes"]["width"] == 12
    table = command("info", folder).out
    for text in (
        "another program",
        f"Hugging Face's {'BERT' if family == 'bert' else 'DistilBERT'},",
        "layers.1.attention",
    ):
        assert text in table


def test_a_folder_without_a_head_is_not_refused_by_info(command, foreign, tokenizer):
    folder = foreign(BertConfig(**SIZES, vocabulary=tokenizer.size))
    found = json.loads(command("info", folder, "--json").out)
    assert (found["head"], found["task"]) == ("none", "sentence_embedding")
    assert found["parameters"] > 0


def test_info_on_a_folder_of_ours(command, own):
    found = json.loads(command("info", own, "--json").out)
    assert (found["task"], found["head"], found["outputs"], found["labels"]) == (
        "classification",
        "sequence",
        2,
        ["calm", "wild"],
    )
    assert found["metrics"] == {"accuracy": 0.75}
    assert found["layout"]["name"] == "bert"
    assert found["run"] is None
    table = command("info", own).out
    for text in (
        "calm, wild",
        "sequence, 2 outputs",
        "accuracy",
        "75.00 %",
        "Hugging Face's BERT, which transformers opens",
    ):
        assert text in table


def test_info_names_the_labels_of_another_programs_classifier(command, foreign, tokenizer):
    folder = foreign(BertConfig(**SIZES, vocabulary=tokenizer.size, head="sequence", outputs=2))
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(values | {"id2label": {"0": "NEGATIVE", "1": "POSITIVE"}}))
    found = json.loads(command("info", folder, "--json").out)
    assert found["labels"] == ["NEGATIVE", "POSITIVE"]
    assert found["task"] == "classification"


def test_info_and_look_on_a_pruned_model(command, own, tmp_path):
    smaller = prune(regard.load(own, task="classification"), {0: [1], 1: [0, 2]})
    smaller.save(tmp_path / "smaller")
    found = json.loads(command("info", tmp_path / "smaller", "--json").out)
    assert found["sizes"]["pruned_heads"] == [[0, 1], [1, 0], [1, 2]]
    assert "which transformers can open up to version 4" in command("info", tmp_path / "smaller").out
    assert "layers.1.attention\n" in command("look", tmp_path / "smaller", "a dog").out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["", "--json"], "TEXT is empty; give a text"),
        (["a dog", "--pair", " "], "the second text is empty"),
        (["a dog", "--pair", "a", "--target", "b"], "--pair and --target are both the second text here"),
        (["a dog", "--to", "de"], "--to is for models that write in several languages; this one only reads"),
        (["a dog", "-o", "plot.pdf"], "give a name that ends in .html, .png, .svg or .json"),
        (["a dog", "--layer", "layer.*"], "no attention layer is called 'layer.*'; choose from layers.0.attention"),
        (["cat " * 20], "the text has 22 tokens and the model has positions for 14"),
    ],
)
def test_what_cannot_be_looked_at(command, own, words, sentence):
    assert sentence in command("look", own, *words).refusal()


def test_a_translator_reads_no_pair(command, model):
    assert "--pair is for models that read two texts" in command("look", model, "abcd", "--pair", "a").refusal()


def test_a_real_bert(command, minilm):
    """Its folder as it is, of another program and without a head."""
    text = "The animal didn't cross the street because it was too tired"
    view = AttentionView.from_json(command("look", minilm, text, "--json").out)
    expected = [
        "[CLS]",
        "the",
        "animal",
        "didn",
        "'",
        "t",
        "cross",
        "the",
        "street",
        "because",
        "it",
        "was",
        "too",
        "tired",
        "[SEP]",
    ]
    assert list(view.maps[0].key_tokens) == expected
    assert view.addresses == tuple(f"layers.{layer}.attention" for layer in range(6))
    assert {item.heads for item in view.maps} == {12}
    assert "22,713,216 parameters" in command("info", minilm).out
