"""The two language models: what is told from where, the same numbers however they are got, runs that can be repeated."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import InputError
from regard.models import ELMo, ELMoConfig
from regard.tasks.bidirectional_language_modelling import (
    BidirectionalLanguageModel,
    BidirectionalLanguageModellingTask,
    spelt,
)
from regard.text import Tokenizer
from regard.text.word_list import WordList

DOCUMENTS = [["the dog barks .", "the cat sleeps .", "a dog sleeps ."], ["a cat barks .", "the dog sleeps ."]] * 5
SIZES: dict[str, Any] = {
    "projection": 6, "cells": 8, "character_width": 4, "filters": ((1, 5), (2, 6)), "highways": 1, "maximum_characters": 9,
}  # fmt: skip
RECIPE = {
    "task": "bidirectional_language_modelling",
    "model": {"name": "elmo", **SIZES},
    "data": {"vocabulary": 20},
    "training": {"steps": 60, "batch_tokens": 120, "learning_rate": 0.02, "warmup": 5, "precision": "float32"},
}


@pytest.fixture
def task() -> BidirectionalLanguageModellingTask:
    words = WordList.counted([sentence.split() for document in DOCUMENTS for sentence in document], size=10)
    return BidirectionalLanguageModellingTask(
        tokenizer=Tokenizer.train([], kind="spelling", size=259), words=words, length=6
    )


@pytest.fixture
def model(task, seeded, randomize) -> BidirectionalLanguageModel:
    elmo = randomize(ELMo(ELMoConfig(**SIZES, **task.model_settings())), scale=2.0)
    return BidirectionalLanguageModel(elmo, task)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "lm"
    return folder, regard.train(RECIPE, output=folder, data=DOCUMENTS, validation=DOCUMENTS[:2])


def test_each_word_is_told_from_the_words_on_one_side_of_it(model):
    plain = model.score("the dog sleeps .")
    after, before = model.score("the dog sleeps the"), model.score("cat dog sleeps .")
    assert plain.forward[:3] == pytest.approx(after.forward[:3], abs=1e-5)
    assert plain.forward[4] != pytest.approx(after.forward[4], abs=1e-4)
    assert plain.backward[2:] == pytest.approx(before.backward[2:], abs=1e-5)
    assert plain.backward[0] != pytest.approx(before.backward[0], abs=1e-4)
    assert len(plain.forward) == len(plain.backward) == 5


def test_probabilities_are_the_softmax_over_the_list_written_out(model):
    text = "a dog meows ."
    found = model.score(text)
    (sentence,) = spelt(model.task.tokenizer, [text])
    batch = model.task.batch([sentence])
    with torch.no_grad():
        top = model.model.word_states(model.model.words_of(batch.tokens))[-1][0]
    numbers = [0, *model.task.words.numbers(text.split()), 1]
    output = model.model.head.words
    for place in range(5):
        for side, vector, told in (
            (found.forward, top[place, :6], numbers[place + 1]),
            (found.backward, top[place + 1, 6:], numbers[place]),
        ):
            expected = torch.log_softmax(output(vector), dim=0)[told].item()
            assert side[place] == pytest.approx(expected, abs=1e-5)
    assert found.unknown == 1


def test_the_loss_is_the_sum_of_both_mean_losses(model):
    texts = ["the dog barks .", "a cat"]
    batch = model.task.batch(list(spelt(model.task.tokenizer, texts)))
    loss = model.task.loss(model.model, batch)
    scores = model.score_batch(texts)
    assert loss.tokens == 5 + 3 == loss.auxiliary["backward"].tokens
    assert loss.total.item() == pytest.approx(-sum(sum(each.forward) for each in scores), rel=1e-5)
    assert loss.auxiliary["backward"].total.item() == pytest.approx(
        -sum(sum(each.backward) for each in scores), rel=1e-5
    )


def test_scores_do_not_hang_on_the_batch(model):
    texts = ["the dog barks .", "a", "cat sleeps the dog a cat"]
    together = model.score_batch(texts)
    for text, found in zip(texts, together, strict=True):
        assert found.text == text
        assert model.score(text).forward == pytest.approx(found.forward, rel=2e-5, abs=2e-5)
    small = model.score_batch(texts, batch_words=1)
    assert [each.perplexity for each in small] == pytest.approx([each.perplexity for each in together], rel=1e-5)


def test_training_learns_and_the_folder_says_the_same(run):
    folder, trained = run
    assert trained.metrics["forward_perplexity"] < 5
    assert trained.metrics["loss"] == pytest.approx(
        math.log(trained.metrics["forward_perplexity"]) + math.log(trained.metrics["backward_perplexity"])
    )
    model = regard.load(folder)
    found = regard.evaluate(model, DOCUMENTS[:2])
    for name in ("loss", "forward_perplexity", "backward_perplexity"):
        assert found.metrics[name] == pytest.approx(trained.metrics[name], rel=1e-4)
    assert (found.count, found.words, found.metrics["unknown_share"]) == (5, 20, 0.0)
    model.save(folder.parent / "copy")
    assert regard.load(folder.parent / "copy").score("a dog .").forward == model.score("a dog .").forward


def test_the_same_folder_gives_features_of_words_and_vectors_of_texts(run):
    folder, _ = run
    model, encoder = regard.load(folder), regard.load(folder, task="sentence_embedding")
    sentences = [["the", "dog", "sleeps"], ["extraordinary", "U.S."]]
    states = model.word_states(sentences)
    for each, found in zip(states, encoder.features(sentences, layers="all"), strict=True):
        assert each.shape[1:] == (3, 12)
        np.testing.assert_allclose(found.merged("mean").array, each, atol=1e-6)
    texts = ["the dog", "extraordinarily small"]
    around = [encoder.features([text])[0].merged("first").array for text in texts]
    for vector, words in zip(encoder.embed(texts), around, strict=True):
        ends = 4 * vector - words.sum(axis=0)  # of what begins and ends a text
        assert np.isfinite(ends).all()
    assert encoder.features(["the dog"])[0].merged().words == ("the", "dog")


def test_a_long_word_counts_no_more_than_a_short_one(model, tmp_path):
    model.save(tmp_path / "lm")
    encoder = regard.load(tmp_path / "lm", task="sentence_embedding")
    tokens = model.task.tokenizer
    states = model.model.hidden_states(
        regard.layers.Tokens.pad([[256, *tokens.encode("a extraordinary"), 257]], padding_id=258)
    )[-1][0]
    words = torch.stack([states[0], states[1], states[3], states[-1]])
    np.testing.assert_allclose(encoder.embed(["a extraordinary"])[0], words.mean(dim=0).detach(), rtol=1e-4, atol=1e-6)


def test_a_folder_with_other_files_is_refused(model, tmp_path):
    model.save(tmp_path / "lm")
    card = tmp_path / "lm" / "regard.json"
    values = json.loads(card.read_text())
    for length, said in ((0, "at least 1"), ("x", "must be a whole number"), ([], "must be a whole number")):
        card.write_text(json.dumps(values | {"task": values["task"] | {"length": length}}))
        with pytest.raises(InputError, match=f"length is .*{said}"):
            regard.load(tmp_path / "lm")
    card.write_text(json.dumps(values))
    Tokenizer.train(["a b"], kind="word", size=20).save(tmp_path / "lm")
    with pytest.raises(InputError, match="of the kind word, and the kind spelling is needed"):
        regard.load(tmp_path / "lm")


def test_two_runs_are_the_same_to_the_bit_with_drawn_words_too(tmp_path):
    recipe = {**RECIPE, "data": {"vocabulary": 20, "sampled": 4}, "training": {**RECIPE["training"], "steps": 8}}
    models = []
    for name in ("one", "other"):
        regard.train(recipe, output=tmp_path / name, data=DOCUMENTS, validation=DOCUMENTS[:1])
        models.append(regard.load(tmp_path / name).model.state_dict())
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def test_a_tagger_and_a_classifier_start_from_it(run, tmp_path):
    folder, _ = run
    training = {"steps": 30, "learning_rate": 0.03, "warmup": 3, "precision": "float32"}
    tagged = [(("the", "dog", "."), ("D", "N", ".")), (("a", "cat", "."), ("D", "N", "."))] * 6
    recipe = {
        "task": "tagging",
        "model": {"pretrained": str(folder), "reader_width": 5},
        "data": {"maximum_length": 90},
    }
    frozen = {"frozen": ["embedding", "layers.*"]}
    found = regard.train(
        {**recipe, "training": {**training, **frozen}}, output=tmp_path / "tags", data=tagged, validation=tagged[:2]
    )
    assert found.metrics["accuracy"] == 1.0
    tagger = regard.load(tmp_path / "tags")
    assert tagger.model.config.words == 0
    start = regard.load(folder).model.state_dict()
    assert all(torch.equal(tensor, start[name]) for name, tensor in tagger.model.state_dict().items() if name in start)
    labelled = [("the dog barks .", "dog"), ("a cat sleeps .", "cat")] * 6
    recipe = {"task": "classification", "model": {"pretrained": str(folder)}, "data": {"maximum_length": 90}}
    found = regard.train(
        {**recipe, "training": training}, output=tmp_path / "classes", data=labelled, validation=labelled[:2]
    )
    assert found.metrics["accuracy"] == 1.0


def test_long_sentences_are_read_in_stretches():
    tokenizer = Tokenizer.train([], kind="spelling", size=259)
    found = list(spelt(tokenizer, ["a b c d e", "", "f\x1cg"], length=2))
    assert [each.words for each in found] == [("a", "b"), ("c", "d"), ("e",), ("f\x1cg",)]
    assert [bytes(each.ids).decode() for each in found] == [" a b", " c d", " e", " f\x1cg"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": {}}, "data.train is missing"),
        ({"data": {"vocabulary": 3}}, "data.vocabulary is 3"),
        ({"data": {"builtin": "python_docs", "train": "a.txt"}}, "choose one of the two"),
        ({"data": {"words": "nowhere"}}, "nowhere"),
        ({"model": {"name": "bert"}}, "no model for task bidirectional_language_modelling"),
        ({"model": {"name": "elmo", "words": 5}}, "unknown key 'words'"),
    ],
)
def test_recipes_that_cannot_be_are_told(changes, said, tmp_path):
    given = None if "data" in changes and "words" not in changes["data"] else DOCUMENTS
    with pytest.raises(InputError, match=said):
        regard.train({**RECIPE, **changes}, output=tmp_path / "run", data=given)


def test_too_many_drawn_words_and_too_few_positions_are_told(tmp_path):
    with pytest.raises(InputError, match=r"data\.sampled is 50"):
        regard.train({**RECIPE, "data": {"sampled": 50}}, output=tmp_path / "a", data=DOCUMENTS)
    with pytest.raises(InputError, match="which are bytes, where the model has 8 positions"):
        regard.train(
            {**RECIPE, "model": {"name": "elmo", **SIZES, "maximum_positions": 8}},
            output=tmp_path / "b",
            data=DOCUMENTS,
        )


@pytest.mark.parametrize("texts", ["one string", [""], [" \n"], [7]])
def test_what_is_no_sentence_is_told(model, texts):
    with pytest.raises(InputError):
        model.score_batch(texts)


def test_words_with_white_space_are_told(model):
    with pytest.raises(InputError, match="'new york' is not a word"):
        model.word_states([["in", "new york"]])
