"""`regard look` at models that read a text from the left."""

from __future__ import annotations

import json

import pytest
import torch

import regard
from regard.models import GPT2, LSTMN, GPT2Config, LSTMLanguageModel, LSTMLanguageModelConfig, LSTMNConfig
from regard.tasks import LanguageModel, LanguageModellingTask
from regard.text import Tokenizer

TEXT = "the cat saw a zebra"
SMALL = {"embedding_width": 4, "hidden_width": 5, "dropout": 0.0}


@pytest.fixture
def folders(tmp_path, seeded):
    task = LanguageModellingTask(Tokenizer.train(["the cat saw a dog", "a dog saw"], kind="word", size=20))
    settings = task.model_settings()
    models = {
        "lstmn": LSTMN(LSTMNConfig(**SMALL, **settings)),
        "lstm": LSTMLanguageModel(LSTMLanguageModelConfig(**SMALL, **settings)),
        "gpt2": GPT2(GPT2Config(width=8, heads=2, feedforward_width=8, layers=1, maximum_positions=8, **settings)),
    }
    for name, model in models.items():
        LanguageModel(model, task).save(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("name", ["lstmn", "gpt2"])
def test_every_word_and_those_it_looks_at(command, folders, name):
    answer = command("look", folders / name, TEXT, "--json")
    found = json.loads(answer.out)
    assert found["title"] == TEXT  # a word that the vocabulary lacks as it was given
    (only,) = found["maps"]
    assert len(only["query_tokens"]) == 6
    reader = regard.load(folders / name, task="language_modelling")
    ids = [reader.task.tokenizer.end_id, *reader.task.tokenizer.encode(TEXT)]
    with regard.look(reader) as seen:
        reader.model(reader.task.batch([[*ids, 0]]).tokens)
    weights = torch.tensor(only["weights"])
    torch.testing.assert_close(weights, seen.weights(only["address"])[0], atol=1e-4, rtol=0)
    assert (weights.triu(diagonal=0 if name == "lstmn" else 1) == 0).all()  # an LSTMN does not look at the word itself


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("lstm", [TEXT], "no attention in this model"),
        ("gpt2", [""], "is empty"),
        ("gpt2", [TEXT, "--target", "a"], "--target is for models that read a second text"),
        ("gpt2", [TEXT, "--pair", "a"], "--pair is for models"),
        ("gpt2", [f"{TEXT} {TEXT}"], "positions"),
    ],
)
def test_what_cannot_be_looked_at(command, folders, name, words, said):
    assert said in command("look", folders / name, *words).refusal()


def test_two_heads_are_compared(command, folders):
    whole = json.loads(command("look", folders / "gpt2", TEXT, "--json").out)
    found = json.loads(command("look", folders / "gpt2", TEXT, "--head", "0.1", "--head", "0", "--json").out)
    assert [one["address"] for one in found["maps"]] == ["layers.0.attention, head 1", "layers.0.attention, head 0"]
    assert [one["weights"] for one in found["maps"]] == [[whole["maps"][0]["weights"][head]] for head in (1, 0)]
    shown = command("look", folders / "gpt2", TEXT, "--head", "0.1", "--head", "0.0").out
    assert shown.index("layers.0.attention, head 1") < shown.index("layers.0.attention, head 0")
    assert "has heads 0 to 1" in command("look", folders / "gpt2", TEXT, "--head", "2").refusal()
