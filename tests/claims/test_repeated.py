"""Accuracy where a text says again what stood before, with the attention changed after training."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.claims.comparing import compare
from regard.claims.comparison import read_comparison
from regard.claims.measuring import accuracy_of_repeats, changed
from regard.data.sequences import Repeats
from regard.errors import InputError

RECIPE = {
    "task": "language_modelling",
    "model": {
        "name": "reformer",
        "width": 16,
        "heads": 2,
        "head_width": 8,
        "feedforward_width": 32,
        "layers": ["lsh"],
        "maximum_positions": 24,
        "chunk": 4,
        "dropout": 0.0,
    },
    "data": {"repeats": {"symbols": 3, "length": 5, "size": 300, "validation_size": 20}, "length": 13},
    "tokenizer": {"kind": "word", "size": 20},
    "training": {"steps": 3, "batch_tokens": 260, "precision": "float32", "learning_rate": 1e-2, "warmup": 1},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return regard.train(RECIPE, output=tmp_path_factory.mktemp("runs") / "repeats").load()


def test_accuracy_is_of_the_second_row_of_symbols_alone(trained):
    texts = Repeats("test", symbols=3, length=5, size=30)
    right = 0
    for text in texts:
        ids = trained.task.tokenizer.encode(text)
        told = torch.tensor([[trained.task.tokenizer.end_id, *ids]])
        with torch.no_grad():
            logits = trained.model(regard.layers.Tokens.pad(told.tolist()))
        guessed = logits[0].argmax(dim=-1).tolist()  # place t tells of token t of the text
        right += sum(guessed[place] == ids[place] for place in range(7, 12))
    assert accuracy_of_repeats(trained, texts) == pytest.approx(right / (30 * 5))


def test_a_change_keeps_the_weights(trained):
    other = changed(trained, {"rounds": 3, "chunk": 8})
    assert (other.model.config.rounds, other.model.config.chunk) == (3, 8)
    assert trained.model.config.rounds == 1
    for name, tensor in trained.model.state_dict().items():
        assert torch.equal(other.model.state_dict()[name], tensor)
    assert changed(trained, {}) is trained


def test_a_change_of_the_weights_is_refused(trained):
    with pytest.raises(InputError, match="width changes the weights"):
        changed(trained, {"feedforward_width": 64})
    with pytest.raises(InputError, match="unknown key"):
        changed(trained, {"round": 2})


def test_it_is_a_measure_of_comparisons(tmp_path):
    measures = [
        {"name": "as trained", "kind": "repeated", "split": "test", "size": 20},
        {"name": "8 rounds", "kind": "repeated", "model": {"rounds": 8}, "split": "test", "size": 20},
    ]
    recipe = {**RECIPE, "training": {**RECIPE["training"], "steps": 1}}
    found = compare(recipe, arms={"one": ["model.rounds=1"]}, measures=measures, seeds=[1], output=tmp_path)
    assert all(0 <= found.values("one", name)[1] <= 1 for name in ("as trained", "8 rounds"))


@pytest.mark.parametrize(
    ("measure", "data", "told"),
    [
        ({}, {"repeats": None, "builtin": "python_docs"}, "repeated needs data.repeats, and the recipe has none"),
        ({"kind": "steps", "model": {"rounds": 2}}, {}, "steps cannot change the model; leave model out"),
    ],
)
def test_what_cannot_be_answered_is_refused_before_training(measure, data, told):
    recipe = {**RECIPE, "data": {**RECIPE["data"], **data}}
    with pytest.raises(InputError, match=told):
        read_comparison(
            recipe,
            arms={"one": ["model.rounds=1"]},
            measures=[{"name": "m", "kind": "repeated", **measure}],
        )
