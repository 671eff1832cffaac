"""Language modelling: what is prepared, what is scored, and that scores are those of training."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import LSTMLanguageModel, LSTMLanguageModelConfig
from regard.tasks import LanguageModel, LanguageModellingTask
from regard.tasks.language_modelling import prepare_stretches
from regard.tasks.language_preparation import stretches_of
from regard.tasks.language_task import TextData
from regard.tasks.preparation import TokenizerSettings
from regard.text import Tokenizer

CHARACTERS = TokenizerSettings(kind="character", size=60)
TEXTS = [f"the {word} of number {i}." for i in range(12) for word in ("sum", "root", "half")]


def rows(store: TokenStore) -> list[list[int]]:
    return [store.sequence("text", i).tolist() for i in range(len(store))]


def stream(store: TokenStore) -> list[int]:
    """What was told, stretch after stretch, the token before the first one in front."""
    found = rows(store)
    return [found[0][0], *(token for row in found for token in row[1:])]


@pytest.fixture
def model(randomize) -> LanguageModel:
    task = LanguageModellingTask(Tokenizer.train(TEXTS, kind="character", size=60))
    config = LSTMLanguageModelConfig(embedding_width=5, hidden_width=6, dropout=0.2, **task.model_settings())
    return LanguageModel(randomize(LSTMLanguageModel(config), scale=1.5), task)


# --- preparation ---


@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=12), length=st.integers(1, 7))
@settings(max_examples=80, deadline=None)
def test_every_token_is_told_once_and_stretches_have_the_length_asked_for(lengths, length):
    tokenizer = Tokenizer.train(["abc"], kind="character", size=10)
    texts = ["abc"[i % 3] * n for i, n in enumerate(lengths)]
    stretches = list(stretches_of(texts, tokenizer, length))
    expected = [tokenizer.end_id]
    for text in texts:
        expected += [*tokenizer.encode(text), tokenizer.end_id]
    assert [stretches[0][0], *(token for row in stretches for token in row[1:])] == expected
    assert all(len(row) == length + 1 for row in stretches[:-1])
    assert 2 <= len(stretches[-1]) <= length + 1
    assert all(one[-1] == other[0] for one, other in itertools.pairwise(stretches))


def test_so_many_tokens_are_learnt_from_and_all_are_validated_on(tmp_path):
    whole = prepare_stretches(TextData(length=10), CHARACTERS, tmp_path / "all", seed=1, given=TEXTS)
    few = prepare_stretches(TextData(length=10, tokens=75), CHARACTERS, tmp_path / "few", seed=1, given=TEXTS)
    assert rows(few.train) == rows(whole.train)[:7]
    assert rows(few.validation) == rows(whole.validation)
    assert few.task.tokenizer.size == whole.task.tokenizer.size
    with pytest.raises(InputError, match=r"data\.tokens is 5"):
        TextData(length=10, tokens=5)


def test_documents_are_held_out_whole_by_the_seed(tmp_path):
    data = TextData(validation_share=0.25, length=10)
    found = {seed: prepare_stretches(data, CHARACTERS, tmp_path / str(seed), seed=seed, given=TEXTS) for seed in (1, 2)}
    for prepared in found.values():
        tokenizer = prepared.task.tokenizer
        texts = []
        for store in (prepared.train, prepared.validation):
            ids = stream(store)
            ends = [i for i, token in enumerate(ids) if token == tokenizer.end_id]
            texts.append([tokenizer.decode(ids[a + 1 : b]) for a, b in itertools.pairwise(ends)])
        assert len(texts[1]) == 9
        assert sorted(texts[0] + texts[1]) == sorted(TEXTS)
    assert rows(found[1].validation) != rows(found[2].validation)
    again = prepare_stretches(data, CHARACTERS, tmp_path / "again", seed=1, given=TEXTS)
    assert rows(again.validation) == rows(found[1].validation)


def test_files_and_builtin_text(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    (tmp_path / "b.txt").write_text("the nut\n")
    data = TextData(train=str(tmp_path / "a.txt"), validation=str(tmp_path / "b.txt"))
    prepared = prepare_stretches(data, CHARACTERS, tmp_path / "files", seed=0)
    assert prepared.task.tokenizer.decode(stream(prepared.validation)) == "the nut"
    builtin = prepare_stretches(TextData(builtin="python_docs"), TokenizerSettings(size=500), tmp_path / "docs", seed=0)
    assert int(builtin.task.labels(builtin.train).sum()) > 50_000


@pytest.mark.parametrize(
    ("data", "texts", "message"),
    [
        ({}, None, "data.train is missing"),
        ({}, [], "give a list of examples"),
        ({}, ["only one"], "one document"),
        ({"train": "none.txt"}, None, "no such file"),
    ],
)
def test_data_that_cannot_be_used(tmp_path, data, texts, message):
    with pytest.raises(InputError, match=message):
        prepare_stretches(TextData(**data), CHARACTERS, tmp_path / "p", seed=0, given=texts)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"builtin": "python_docs", "train": "a.txt"}, "data.builtin=python_docs are both given"),
        ({"validation_share": 1.0}, "validation_share"),
        ({"length": 0}, "data.length"),
    ],
)
def test_settings_that_contradict(settings, message):
    with pytest.raises(InputError, match=message):
        TextData(**settings)


# --- scores ---


def test_a_score_is_the_chain_rule(model):
    """log p(text) against the model asked anew for every prefix."""
    text = "the root."
    score = model.score(text)
    tokenizer = model.task.tokenizer
    ids = [*tokenizer.encode(text), tokenizer.end_id]
    expected = []
    for t, token in enumerate(ids):
        logits = model.model(Tokens.pad([[tokenizer.end_id, *ids[:t]]]))[0, -1]
        expected.append(logits.log_softmax(dim=-1)[token].item())
    assert score.log_probabilities == pytest.approx(expected, abs=1e-5)
    assert score.log_probability == pytest.approx(sum(expected), abs=1e-4)
    assert score.perplexity == pytest.approx(math.exp(-sum(expected) / len(ids)), rel=1e-4)
    assert len(score.tokens) == len(ids)


def test_neither_batch_nor_stretch_changes_a_score(model):
    texts = ["the", "the half of number 11. " * 4, "", "a sum", "number"]
    alone = [model.score(text).log_probability for text in texts]
    for batch_size, stretch in ((1, 3), (2, 100), (5, 7)):
        found = model.score_batch(texts, batch_size=batch_size, stretch=stretch)
        assert [score.text for score in found] == texts
        assert [score.log_probability for score in found] == pytest.approx(alone, rel=1e-5)


def test_an_evaluation_is_the_sum_of_scores(model):
    texts = ["the sum", "half of ten"]
    found = regard.evaluate(model, texts)
    total = -sum(model.score(text).log_probability for text in texts)
    assert found.metrics["loss"] == pytest.approx(total / found.tokens)
    assert found.metrics["word_perplexity"] == pytest.approx(math.exp(total / 7), rel=1e-5)
    assert found.metrics["bits_per_character"] == pytest.approx(total / 20 / math.log(2))
    assert (found.count, found.words, found.characters, found.unknown) == (2, 7, 20, 0)
    assert regard.evaluate(model, ["§§"]).unknown == 2
    with pytest.raises(InputError, match="list with at least one"):
        regard.evaluate(model, [])


# --- training ---


def recipe(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "task": "language_modelling",
        "seed": 3,
        "model": {"name": "lstm_language_model", "embedding_width": 12, "hidden_width": 24, "dropout": 0.1},
        "data": {"length": 20},
        "tokenizer": {"kind": "character", "size": 60},
        "training": {"steps": 240, "batch_tokens": 400, "learning_rate": 1e-2, "warmup": 5, "evaluate_every": 120,
                     "save_every": 20, "log_every": 10, "precision": "float32"},
    }  # fmt: skip
    for section, new in changes.items():
        values[section] = {**values[section], **new} if isinstance(new, dict) else new
    return values


def test_training_learns_and_the_folder_is_the_model(tmp_path):
    trained = regard.train(recipe(), output=tmp_path / "run", data=TEXTS)
    assert trained.metrics["loss"] < 2.0
    loaded = regard.load(tmp_path / "run")
    assert isinstance(loaded, LanguageModel)
    assert loaded.score("the half of number 3.").perplexity < 10 < loaded.score("3 numher ot flah eht").perplexity
    loaded.save(tmp_path / "copy")
    again = regard.load(tmp_path / "copy", task="language_modelling")
    assert again.score("the sum").log_probabilities == loaded.score("the sum").log_probabilities
    assert "model.score" in (tmp_path / "copy" / "README.md").read_text()
    with pytest.raises(InputError, match="a model for language modelling, and translation is wanted"):
        regard.load(tmp_path / "copy", task="translation")


def test_validation_in_training_is_the_loss_of_its_stretches(tmp_path):
    few = recipe(training={"steps": 20})
    trained = regard.train(few, output=tmp_path / "run", data=TEXTS, validation=["the root of number 7."])
    model, store = trained.load(), TokenStore.open(tmp_path / "run" / "data" / "validation")
    with torch.no_grad():
        found = model.task.loss(model.model, model.task.read_batch(store, range(len(store))))
    assert trained.metrics["loss"] == pytest.approx(found.total.item() / found.tokens, rel=1e-5)


def test_resuming_equals_never_having_stopped(tmp_path):
    asked = {"steps": 50, "evaluate_every": 20}
    whole = regard.train(recipe(training=asked), output=tmp_path / "whole", data=TEXTS)
    regard.train(recipe(training=asked | {"steps": 30}), output=tmp_path / "parts", data=TEXTS)
    parts = regard.train(recipe(training=asked), output=tmp_path / "parts", resume=True)
    name = Path("model.safetensors")
    assert (whole.folder / name).read_bytes() == (parts.folder / name).read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generation": {"beam": 3}}, "generation: task language_modelling has no such section"),
        ({"model": {"name": "bahdanau"}}, "no model for task language_modelling"),
        ({"tokenizer": {"shared": True}}, "unknown key 'shared'"),
        ({"data": {"dates": {}}}, "unknown key 'dates'"),
        ({"training": {"best": "bleu", "evaluate_generated": 5}}, "training.best is 'bleu'"),
        ({"training": {"evaluate_generated": 5}}, "nothing is generated"),
        ({"task": "language_modeling"}, "did you mean 'language_modelling'"),
    ],
)
def test_recipes_that_do_not_fit_the_task(tmp_path, changes, message):
    values = recipe()
    for section, new in changes.items():
        values[section] = {**values.get(section, {}), **new} if isinstance(new, dict) else new
    with pytest.raises(InputError, match=message):
        regard.train(values, output=tmp_path / "run", data=TEXTS)
