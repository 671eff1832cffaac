"""Classes by their names: beside `transformers`' own pipeline, by likelihood, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tests.serving.test_tasks import TEXT, ask, classifier, language_model

from regard.errors import InputError
from regard.layers import Tokens
from regard.serving.tasks import routes_of

LABELS = ["cat", "mat", "Paris it"]
ENTAILS = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")


def nli(randomize: Any, classes: tuple[str, ...] = ENTAILS, **changes: Any) -> Any:
    return classifier(randomize, classes=classes, **({"maximum_length": 20, "pairs": True} | changes))


def weighed(model: Any, text: str, labels: list[str], **more: Any) -> dict[str, float]:
    """The labels with their scores, in the order told."""
    body = {"inputs": text, "parameters": {"candidate_labels": labels, **more}}
    return {row["label"]: row["score"] for row in ask(model, body)}


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("classes", [ENTAILS, ("contradiction", "entailment")])
@pytest.mark.parametrize("template", [None, "the cat is {} !"])
def test_labels_are_weighed_as_by_transformers(randomize, tmp_path, several, classes, template):
    transformers = pytest.importorskip("transformers")
    model = nli(randomize, classes)
    model.save(tmp_path / "nli")
    theirs = transformers.pipeline("zero-shot-classification", str(tmp_path / "nli"), device="cpu")
    given = {} if template is None else {"hypothesis_template": template}
    expected = theirs(TEXT[:20], LABELS, multi_label=several, **given)
    found = weighed(model, TEXT[:20], LABELS, multi_label=several, **given)
    assert list(found) == expected["labels"]
    assert list(found.values()) == pytest.approx(expected["scores"], abs=1e-5)
    assert sum(found.values()) == pytest.approx(1.0) or several


def test_one_label_alone_is_judged_by_itself(randomize):
    model = nli(randomize)
    alone, several = weighed(model, "cat", ["cat"]), weighed(model, "cat", LABELS, multi_label=True)
    assert alone["cat"] == pytest.approx(several["cat"], rel=1e-4)
    assert 0 < alone["cat"] < 1


def test_of_two_classes_the_other_one_speaks_against_it(randomize):
    model = nli(randomize, ("entailment", "not_entailment"))
    found = weighed(model, "cat", LABELS, multi_label=True)
    for label in LABELS:
        said = model.classify(("cat", f"This example is {label}."))
        assert found[label] == pytest.approx(said.probabilities["entailment"], rel=1e-4)


@pytest.mark.parametrize("changes", [{"classes": ("no", "yes", "perhaps")}, {"pairs": False}])
def test_a_classifier_of_something_else_has_no_such_route(randomize, changes):
    assert [route.name for route in routes_of(nli(randomize, **changes))] == ["text-classification"]


def test_a_language_model_weighs_labels_by_their_likelihood(randomize):
    model = language_model(randomize)
    labels, template = ["cat", "mat", "it"], "a {} sat"
    found = weighed(model, "Ann saw it", labels, hypothesis_template=template)
    totals = []
    for label in labels:
        ids = model.task.tokenizer.encode(f"Ann saw it\na {label} sat")
        before = len(model.task.tokenizer.encode("Ann saw it\na"))
        read = Tokens.pad([[model.task.tokenizer.end_id, *ids]])
        with torch.no_grad():
            logits, _ = model.model.read(read, model.model.start(1))
        logs = logits[0].log_softmax(dim=-1)
        totals.append(sum(float(logs[place, ids[place]]) for place in range(before, len(ids))))
    shares = [math.exp(each) / sum(map(math.exp, totals)) for each in totals]
    assert found == pytest.approx(dict(zip(labels, shares, strict=True)), rel=1e-4)
    assert list(found.values()) == sorted(found.values(), reverse=True)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "parameters: the field 'candidate_labels' is missing"),
        ({"candidate_labels": []}, "parameters.candidate_labels: expected array of length >= 1"),
        ({"candidate_labels": ["a", " "]}, r"parameters.candidate_labels\[1\]: is empty"),
        ({"candidate_labels": ["a", "b", "a"]}, "parameters.candidate_labels: 'a' is given twice"),
        ({"candidate_labels": ["a"], "hypothesis_template": "so"}, "hypothesis_template: is 'so'; write {} once"),
        (
            {"candidate_labels": ["a"], "hypothesis_template": "{0.__class__}"},
            "hypothesis_template: is '{0.__class__}'",
        ),
        ({"candidate_labels": ["a " * 20]}, "inputs: with the hypothesis for 'a a a"),
    ],
)
@pytest.mark.parametrize("make", [nli, language_model])
def test_what_is_refused_names_the_field(randomize, make, parameters, message):
    with pytest.raises(InputError, match=message):
        ask(make(randomize), {"inputs": "cat", "parameters": parameters}, "zero-shot-classification")


def test_what_a_language_model_does_not_follow(randomize):
    body = {"inputs": "cat", "parameters": {"candidate_labels": ["a", "b"], "multi_label": True}}
    with pytest.raises(InputError, match=r"parameters.multi_label: is true, and a language model compares"):
        ask(language_model(randomize), body)
    with pytest.raises(InputError, match=r"attention: is not available with labels"):
        ask(language_model(randomize), {**body, "attention": {}})
