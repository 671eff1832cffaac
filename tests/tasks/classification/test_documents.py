"""Documents of sentences: from text to a hierarchical network and back, and its two attentions over the text."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import regard
from regard.cli.main import app
from regard.data.synthetic_texts import CueDocuments
from regard.errors import InputError
from regard.inspection.text_reader import BOTH, TextReader, with_shares
from regard.tasks.encoders import sentences_of, tokens_of
from regard.text import Tokenizer

TEXT = "w1 good1 w3 w4. Indeed w2 bad3 w5.<br /><br />w6 w7"
RECIPE = {
    "task": "classification",
    "model": {"name": "han", "embedding_width": 8, "hidden_width": 4, "attention_width": 6},
    "tokenizer": {"kind": "word", "size": 60},
    "training": {"steps": 6, "batch_tokens": 200, "learning_rate": 1e-2, "warmup": 1, "precision": "float32"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("han") / "run"
    documents = CueDocuments("train", sentences=3, words=4, fillers=9, size=80)
    regard.train({**RECIPE, "data": {}}, output=place, data=documents.labelled())
    return place


def test_a_token_stands_between_sentences_and_none_for_models_that_do_not_part_them():
    tokenizer = Tokenizer.train([TEXT], kind="word", size=40, lowercase=True)
    (parted,) = tokens_of(tokenizer, [TEXT], sentences=True)
    (whole,) = tokens_of(tokenizer, [TEXT], sentences=False)
    assert parted.count(tokenizer.separator_id) == 2
    assert tokenizer.separator_id not in whole
    assert tokens_of(tokenizer, ["", "."], sentences=True)[0] == []


def test_sentences_end_by_rule_at_empty_lines_and_at_breaks():
    assert sentences_of(TEXT) == ["w1 good1 w3 w4.", "Indeed w2 bad3 w5.", "w6 w7"]
    assert sentences_of("One line\nof two\n \nand another<BR>end") == ["One line\nof two", "and another", "end"]
    assert sentences_of("  \n\n ") == []


def test_a_recipe_of_a_han_parts_sentences_by_itself(folder):
    model = regard.load(folder, task="classification")
    assert model.task.sentences
    tokenizer = model.task.tokenizer
    assert model.model.config.boundary_ids == tuple(sorted({tokenizer.start_id, tokenizer.end_id}))
    recipe = {**RECIPE, "model": {**RECIPE["model"], "boundary_ids": [1]}, "data": {}}
    with pytest.raises(InputError, match="boundary_ids"):
        regard.train(recipe, output=folder.parent / "other", data=CueDocuments(size=20).labelled())


def test_the_folder_answers_as_before_and_gives_vectors_of_documents(folder, tmp_path):
    model = regard.load(folder, task="classification")
    model.save(tmp_path / "copy")
    again = regard.load(tmp_path / "copy", task="classification")
    assert again.classify(TEXT).probabilities == model.classify(TEXT).probabilities
    one, other = model.classify_batch([TEXT, "w1 w2."])
    assert model.classify("w1 w2.").probability == pytest.approx(other.probability, abs=1e-6)
    encoder = regard.load(folder, task="sentence_embedding")
    assert encoder.task.sentences
    assert encoder.embed([TEXT, "w1"]).shape == (2, 8)
    assert one.label in ("good", "bad")


def test_a_record_names_sentences_and_words(folder):
    model = regard.load(folder, task="classification")
    with regard.look(model) as seen:
        model.classify(TEXT)
    view = seen.view(0)
    words, sentences = view.map("words.attention"), view.map("sentences.attention")
    assert words.query_tokens == ("S1", "S2", "S3")
    assert words.key_tokens.count("</s>") == 3
    assert words.key_tokens[1:3] == ("▁w1", "▁good1")
    assert (sentences.query_tokens, sentences.key_tokens) == (("document",), ("S1", "S2", "S3"))
    shares = with_shares(view).map(BOTH)
    assert shares.key_tokens == words.key_tokens
    assert shares.weights.sum() == pytest.approx(1.0, abs=1e-5)
    expected = sentences.weights[0, 0, 1] * words.weights[0, 1]
    assert (shares.weights[0, 0] * (words.weights[0, 1] > 0)).tolist() == pytest.approx(expected.tolist())


def test_a_reader_shows_each_of_two_texts_by_itself(folder):
    view = TextReader.load(folder).view(TEXT, "w8 w9.")
    assert view.examples == (TEXT, "w8 w9.")
    assert view.map(BOTH, 1).key_tokens[1:3] == ("▁w8", "▁w9")


def test_the_command_prints_the_text_with_both_weights_and_writes_the_page(folder, tmp_path):
    run = CliRunner().invoke(app, ["look", str(folder), TEXT])
    assert run.exit_code == 0, run.output
    lines = [line for line in run.output.splitlines() if line[:2] == "0."]
    assert len(lines) == 3
    assert sum(float(line.split()[0]) for line in lines) == pytest.approx(1.0, abs=0.01)
    assert "good1" in run.output
    page = tmp_path / "page.html"
    assert CliRunner().invoke(app, ["look", str(folder), TEXT, "-o", str(page)]).exit_code == 0
    assert "sentences.attention" in page.read_text()
    numbers = CliRunner().invoke(app, ["look", str(folder), TEXT, "--layer", "sentences.*", "--json"])
    assert [each["address"] for each in json.loads(numbers.stdout)["maps"]] == ["sentences.attention"]


def test_a_rating_of_documents_can_be_learnt_too(tmp_path):
    documents = CueDocuments("train", sentences=2, words=4, fillers=9, size=60)
    data = [(document.text, 1.0 if document.label == "good" else -1.0) for document in documents]
    recipe = {**RECIPE, "task": "regression", "data": {}}
    rater = regard.train(recipe, output=tmp_path / "run", data=data).load()
    assert rater.task.sentences
    assert isinstance(rater.rate(TEXT).value, float)
