"""Classifiers and raters: what is prepared, learnt, predicted, saved, opened elsewhere, and refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.data.labelled import LabelledText
from regard.errors import InputError
from regard.tasks.classification import Classifier, prepare_classes
from regard.tasks.labelled import LabelledData
from regard.tasks.preparation import EncoderTokenizerSettings
from regard.tasks.regression import prepare_ratings

SETTINGS = EncoderTokenizerSettings(size=200)


@pytest.fixture(scope="module")
def classifier(classifier_folder: Path) -> Classifier:
    return regard.load(classifier_folder, task="classification")


# --- what it learns and says ---


def test_a_classifier_learns_its_classes(classifier, reviews):
    found = regard.evaluate(classifier, reviews(200, seed=5))
    assert found.metrics["accuracy"] > 0.97
    assert found.metrics["f1"] > 0.97
    assert set(found.classes) == {"good", "bad", "odd"}
    said = classifier.classify("the film was dull")
    assert (said.text, said.label) == ("the film was dull", "bad")
    assert said.probability == max(said.probabilities.values())
    assert sum(said.probabilities.values()) == pytest.approx(1.0, abs=1e-6)


def test_the_answers_do_not_depend_on_who_else_is_in_the_batch(classifier, reviews):
    texts = [text for text, _ in reviews(60, seed=6)] + ["great " * 5, "dull"]
    together = classifier.classify_batch(texts)
    alone = [classifier.classify(text) for text in texts]
    assert [one.text for one in together] == texts
    for one, other in zip(together, alone, strict=True):
        assert one.label == other.label
        assert one.probability == pytest.approx(other.probability, abs=1e-5)


@pytest.mark.slow
def test_a_rater_learns_what_makes_a_pair_alike(rater_folder, twins):
    rater = regard.load(rater_folder, task="regression")
    assert regard.evaluate(rater, twins(80, seed=7)).metrics["pearson"] > 0.95
    assert rater.rate(("ape cat", "ape cat")).value == pytest.approx(4.0, abs=0.7)
    assert rater.rate(("ape cat", "bee cat")).value == pytest.approx(1.0, abs=0.7)


def test_metrics_of_training_are_in_the_folder_and_those_of_an_evaluation(classifier_folder, classifier, reviews):
    card = json.loads((classifier_folder / "regard.json").read_text())
    found = regard.evaluate(classifier, reviews(80, seed=1)).metrics
    for name in ("accuracy", "f1", "matthews_correlation"):
        assert card["metrics"][name] == pytest.approx(found[name], abs=1e-9)
    assert "token_accuracy" not in card["metrics"]


def test_a_path_or_a_model_in_the_wrong_place_is_refused_in_a_sentence(classifier, classifier_folder, reviews):
    examples = reviews(3)
    for arguments, message in (
        ((examples, classifier), "the model was given as the second argument; give it first"),
        ((str(classifier_folder), examples), "load it first: regard.evaluate(regard.load("),
        ((classifier_folder, Path("test.csv")), "load it first: regard.evaluate(regard.load("),
        ((classifier, "test.csv"), "files are read by the command `regard evaluate MODEL FILE`; in Python give a list"),
        ((classifier, Path("test.csv")), "the examples are given as 'test.csv'"),
        ((classifier.model, examples), "give what regard.load returns"),
        ((None, examples), "the model is a NoneType"),
        ((classifier, None), "the examples are missing"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            regard.evaluate(*arguments)


# --- folders ---


def test_transformers_opens_the_folder_and_says_the_same(classifier_folder, classifier, reviews):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(classifier_folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(classifier_folder)
    texts = [text for text, _ in reviews(20, seed=8)]
    with torch.no_grad():
        theirs = model(**tokenizer(texts, return_tensors="pt", padding=True)).logits.softmax(dim=-1)
    for row, said in zip(theirs.tolist(), classifier.classify_batch(texts), strict=True):
        named = {model.config.id2label[index]: value for index, value in enumerate(row)}
        assert named == pytest.approx(said.probabilities, abs=1e-5)


def test_pairs_are_read_as_transformers_reads_them(rater_folder, twins):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(rater_folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(rater_folder)
    rater = regard.load(rater_folder, task="regression")
    pairs = [pair for pair, _ in twins(10, seed=9)]
    firsts, seconds = [a for a, _ in pairs], [b for _, b in pairs]
    with torch.no_grad():
        theirs = model(**tokenizer(firsts, seconds, return_tensors="pt", padding=True)).logits.squeeze(-1)
    ours = torch.tensor([rating.value for rating in rater.rate_batch(pairs)])
    assert torch.allclose(ours, theirs * rater.task.spread + rater.task.mean, atol=1e-4)


def test_a_classifier_made_elsewhere_loads_with_its_classes(classifier_folder, classifier, tmp_path):
    folder = tmp_path / "elsewhere"
    shutil.copytree(classifier_folder, folder, ignore=shutil.ignore_patterns("checkpoints*", "data", "regard.json"))
    found = regard.load(folder)
    assert isinstance(found, Classifier)
    assert found.classify("a great film") == classifier.classify("a great film")
    assert found.classify(("a great film", "in some town")).label in found.task.classes
    config = json.loads((folder / "config.json").read_text())
    config["id2label"].pop("2")
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="id2label does not name each of the model's 3 outputs"):
        regard.load(folder)
    config.pop("id2label")
    (folder / "config.json").write_text(json.dumps(config))
    assert regard.load(folder).task.classes == ("LABEL_0", "LABEL_1", "LABEL_2")


def test_saved_again_it_is_the_same(classifier, tmp_path):
    classifier.save(tmp_path / "copy")
    again = regard.load(tmp_path / "copy")
    assert again.task == classifier.task
    assert again.classify("an awful film") == classifier.classify("an awful film")


def test_another_task_of_the_folder_is_refused(classifier_folder):
    with pytest.raises(InputError, match="a model for classification, and regression is wanted"):
        regard.load(classifier_folder, task="regression")
    with pytest.raises(InputError, match="a model for classification, and translation is wanted"):
        regard.load(classifier_folder, task="translation")


def test_training_starts_from_a_trained_model(classifier_folder, reviews, tiny_recipe, tmp_path):
    said: list[str] = []
    settings = tiny_recipe("classification", training={"steps": 1, "learning_rate": 1e-9, "warmup": 0})
    settings["model"] = {"pretrained": str(classifier_folder), "dropout": 0.1}
    del settings["tokenizer"]
    trained = regard.train(settings, output=tmp_path / "run", data=reviews(60), say=said.append)
    assert any("nothing is new" in sentence for sentence in said)
    assert trained.metrics["accuracy"] > 0.95
    model = trained.load()
    assert model.model.config.dropout == 0.1
    assert model.model.config.width == 32
    two = [(text, "good" if label == "good" else "other") for text, label in reviews(60)]
    regard.train(settings, output=tmp_path / "two", data=two, say=said.append)
    assert any("new are head." in sentence for sentence in said)


# --- preparation and bad input ---


def labelled(*rows: tuple[str, str]) -> list[LabelledText]:
    return [LabelledText(text=text, label=label, file="a.tsv", line=i) for i, (text, label) in enumerate(rows, start=1)]


def test_classes_come_from_the_data_the_recipe_or_the_format(tmp_path, reviews):
    found = prepare_classes(LabelledData(), SETTINGS, tmp_path / "a", seed=1, given=reviews(30))
    assert found.task.classes == ("bad", "good", "odd")
    named = LabelledData(labels=("odd", "good", "bad", "none"))
    assert prepare_classes(named, SETTINGS, tmp_path / "b", seed=1, given=reviews(30)).task.classes == named.labels
    file = tmp_path / "sms.tsv"
    file.write_text("".join(f"{'spam' if i % 5 == 0 else 'ham'}\tmessage {i}\n" for i in range(40)))
    spam = LabelledData(train=str(file), format="sms-spam")
    assert prepare_classes(spam, SETTINGS, tmp_path / "c", seed=1).task.classes == ("ham", "spam")


def test_a_label_that_training_has_not_is_told_with_its_line(tmp_path, reviews):
    with pytest.raises(
        InputError, match=r"a\.tsv, line 1: the label 'goood' is none of the model's; did you mean 'good'"
    ):
        prepare_classes(
            LabelledData(), SETTINGS, tmp_path, seed=1, given=reviews(30), given_validation=labelled(("fine", "goood"))
        )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([("a film", "good")] * 9, "all training examples have the label 'good'"),
        ([(f"film {i}", f"label {i}") for i in range(1200)], "different labels"),
        ([("a film", "good"), (("a", "b"), "bad")] * 6, "all examples must have one form"),
        ([("a film", None), ("b", "c")] * 6, "has no label"),
        (["a film"], r"give \(text, label\)"),
        ([], "give a list"),
    ],
)
def test_examples_that_are_no_use_are_refused(tmp_path, given, message):
    with pytest.raises(InputError, match=message):
        prepare_classes(LabelledData(), SETTINGS, tmp_path, seed=1, given=given)


def test_ratings_have_to_be_numbers(tmp_path, twins):
    with pytest.raises(InputError, match="the label 'high' is not a number"):
        prepare_ratings(LabelledData(), SETTINGS, tmp_path, seed=1, given=[*twins(5), (("a", "b"), "high")])
    with pytest.raises(InputError, match=r"data\.labels names classes"):
        prepare_ratings(LabelledData(labels=("a", "b")), SETTINGS, tmp_path, seed=1, given=twins(5))
    found = prepare_ratings(LabelledData(), SETTINGS, tmp_path / "good", seed=1, given=twins(50))
    batch = found.task.read_batch(found.train, range(4))
    assert set(batch.labels.tolist()) <= {1.0, 4.0}


def test_a_format_of_numbers_is_for_regression_and_one_of_classes_for_classification(tmp_path):
    file = tmp_path / "sts.csv"
    rows = [f"genre\tfile\t2012\t{i}\t{i % 6}.0\tone {i}\tother {i}\n" for i in range(40)]
    file.write_text("".join(rows))
    stsb = LabelledData(train=str(file), format="stsb")
    found = prepare_ratings(stsb, SETTINGS, tmp_path / "a", seed=1)
    assert found.task.pairs
    assert found.task.mean == pytest.approx(2.5, abs=0.3)
    with pytest.raises(InputError, match="whose labels are numbers; choose task regression"):
        prepare_classes(stsb, SETTINGS, tmp_path / "b", seed=1)
    with pytest.raises(InputError, match="whose labels are classes; choose task classification"):
        prepare_ratings(LabelledData(train=str(file), format="sst2"), SETTINGS, tmp_path / "c", seed=1)


def test_long_texts_are_cut_and_the_user_is_told(tmp_path, reviews):
    found = prepare_classes(
        LabelledData(maximum_length=6), SETTINGS, tmp_path, seed=1, given=[*reviews(30), ("film " * 99, "good")]
    )
    assert found.train.lengths("text").max() <= 6
    assert any("longer than data.maximum_length = 6" in note for note in found.notes)


@pytest.mark.parametrize("texts", [[""], ["a", "  "], [("a", "b")], [3], "a string"])
def test_what_is_no_text_is_refused(classifier, texts):
    with pytest.raises(InputError):
        classifier.classify_batch(texts)


def test_a_pair_is_wanted_where_the_model_reads_pairs(rater_folder):
    with pytest.raises(InputError, match="two texts, as"):
        regard.load(rater_folder, task="regression").rate("alone")


def test_odd_texts_get_an_answer(classifier):
    for text in ("\0", "🙂", "x" * 100_000, "dull " * 50_000, "\u202e\ud7ff"):
        assert classifier.classify(text).label in classifier.task.classes


def rated(count: int) -> list[tuple[str, float]]:
    return [(f"word{number} text", float(number)) for number in range(count)]


def rating_recipe() -> dict[str, Any]:
    sizes = {"width": 4, "bigrams": 0, "feedforward_layers": 1, "classifier_width": 0}
    return {
        "task": "regression",
        "model": {"name": "use_averaging", **sizes},
        "data": {},
        "tokenizer": {"size": 60},
        "training": {"steps": 2, "device": "cpu"},
    }


def test_ten_ratings_train_to_the_end_and_two_are_held_out(tmp_path):
    made = regard.train(rating_recipe(), output=tmp_path / "run", data=rated(10))
    assert "loss" in made.metrics
    found = prepare_ratings(LabelledData(), SETTINGS, tmp_path / "data", seed=1, given=rated(10))
    assert (len(found.train), len(found.validation)) == (8, 2)
    assert isinstance(made.load().rate("word3 text").value, float)


def test_ratings_of_which_none_can_be_correlated_train_too(tmp_path):
    alike = [("one", 2.0), ("two", 2.0), ("three", 2.0)]
    for name, validation in (("alike", alike), ("single", alike[:1])):
        made = regard.train(rating_recipe(), output=tmp_path / name, data=rated(9), validation=validation)
        assert made.metrics.keys() == {"loss"}
        assert str(made)


def test_two_ratings_are_refused_before_training(tmp_path):
    with pytest.raises(regard.InputError, match="2 training examples are too few to hold 2 out; give more, or name"):
        regard.train(rating_recipe(), output=tmp_path / "run", data=rated(2))
