"""Measuring a masked language model: what a run's own validation finds, and what else can be given."""

from __future__ import annotations

import numpy as np
import pytest

import regard
from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.tasks.documents import DOCUMENTS
from regard.tasks.masked_language_modelling import MaskedTextData, evaluate_masked


def test_it_is_what_a_run_finds_of_its_validation_data(masked_recipe, documents, tmp_path):
    values = masked_recipe(data={"short_share": 0.1, "maximum_length": 32}, steps=3, evaluate_every=3)
    run = regard.train(values, output=tmp_path / "run", data=documents[:30], validation=documents[30:])
    model = run.load()
    found = regard.evaluate(model, documents[30:], seed=5)
    assert found.documents == 10
    # The rows of the documents differ, and with them what is drawn; so it is like, not equal.
    assert found.metrics.keys() == run.metrics.keys()
    assert found.metrics["masked_loss"] == pytest.approx(run.metrics["masked_loss"], rel=0.2)
    assert found.metrics["loss"] == pytest.approx(found.metrics["masked_loss"] + found.metrics["next_sentence_loss"])


def test_the_same_tokens_are_hidden_for_every_model(language_model, documents):
    model, other = language_model(), language_model()
    one = evaluate_masked(model, documents[:6])
    assert evaluate_masked(model, documents[:6]) == one
    assert evaluate_masked(model, documents[:6], batch_tokens=50).metrics == pytest.approx(one.metrics, rel=1e-4)
    assert evaluate_masked(model, documents[:6], seed=1).metrics != one.metrics
    found = evaluate_masked(other, documents[:6])
    assert (found.count, found.hidden) == (one.count, one.hidden)
    assert found.metrics != one.metrics


def test_one_document_has_no_pairs(language_model):
    found = evaluate_masked(language_model(), ["The dog sees a cat. A bird likes the fish."])
    assert "next_sentence_loss" not in found.metrics
    assert "no pairs" in found.note
    assert found.count == 1


def test_perplexity_is_that_of_a_model_that_knows_nothing(language_model, documents):
    model = language_model(next_sentence=False)
    for parameter in model.model.parameters():
        parameter.data.zero_()
    found = evaluate_masked(model, documents)
    assert found.metrics["perplexity"] == pytest.approx(model.task.tokenizer.size, rel=1e-4)
    assert found.metrics["loss"] == pytest.approx(np.log(model.task.tokenizer.size), rel=1e-4)


@pytest.mark.parametrize("nothing", [[], "a text", [3], [["a", 3]]])
def test_nothing_to_evaluate(language_model, nothing):
    with pytest.raises(InputError):
        evaluate_masked(language_model(), nothing)


def test_documents_of_files(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("One. Two.\n\nThree.\n")
    found = DOCUMENTS.named(MaskedTextData(train=str(file)), MalformedRows())
    assert list(found) == [["One.", "Two."], ["Three."]]
    with pytest.raises(InputError, match="no file"):
        DOCUMENTS.named(MaskedTextData(), MalformedRows())
