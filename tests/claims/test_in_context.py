"""Accuracy by the pairs before: beside the model asked one prompt at a time, and beside prompting."""

from __future__ import annotations

import pytest

import regard
from regard.claims.comparing import compare
from regard.claims.comparison import read_comparison
from regard.claims.measuring import accuracy_by_shots
from regard.data.sequences import Maps
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.prompting import Example, Template, evaluate_prompts

RECIPE = {
    "task": "language_modelling",
    "model": {
        "name": "gpt2",
        "width": 16,
        "heads": 2,
        "feedforward_width": 32,
        "layers": 1,
        "maximum_positions": 11,
        "dropout": 0.0,
    },
    "data": {"maps": {"symbols": 3, "pairs": 5, "size": 300, "validation_size": 30}, "length": 11},
    "tokenizer": {"kind": "word", "size": 20},
    "training": {"steps": 30, "batch_tokens": 500, "precision": "float32", "learning_rate": 1e-2, "warmup": 5},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return regard.train(RECIPE, output=tmp_path_factory.mktemp("runs") / "maps").load()


def test_accuracy_by_shots_is_that_of_prompts_with_so_many_examples(trained):
    texts = Maps("test", symbols=3, pairs=5, size=40, seed=2)
    found = accuracy_by_shots(trained, texts)
    template = Template(task="cloze", question="{before}", answer=" {answer}")
    for shots in range(5):
        examples = []
        for i in range(len(texts)):
            words = texts[i].split()
            examples.append(Example({"before": " ".join(words[: 2 * shots + 1]), "answer": words[2 * shots + 1]}))
        assert found[shots] == pytest.approx(evaluate_prompts(trained, template, examples).metrics["accuracy"])


def test_a_stretch_is_one_text(tmp_path):
    run = regard.train({**RECIPE, "training": {**RECIPE["training"], "steps": 1}}, output=tmp_path / "run")
    store, tokenizer = TokenStore.open(run.folder / "data" / "validation"), run.load().task.tokenizer
    texts = Maps("validation", symbols=3, pairs=5, size=30, seed=0)
    assert [tokenizer.decode(store.sequence("text", i).tolist()) for i in range(len(store))] == list(texts)


def test_it_is_a_measure_of_comparisons(tmp_path):
    found = compare(
        {**RECIPE, "training": {**RECIPE["training"], "steps": 2}},
        arms={"one": ["model.layers=1"], "two": ["model.layers=2"]},
        seeds=1,
        measures=[
            {"name": "0", "kind": "in_context", "split": "test", "size": 20},
            {"name": "4", "kind": "in_context", "shots": 4, "split": "test", "size": 20},
        ],
        output=tmp_path / "c",
    )
    for arm in ("one", "two"):
        for name in ("0", "4"):
            assert 0 <= found.values(arm, name)[1] <= 1


@pytest.mark.parametrize(
    ("measure", "data", "message"),
    [
        ({"shots": 5}, {}, "5 shots and the pair to predict are more than the 5 pairs"),
        ({}, {"maps": None, "builtin": "python_docs"}, "in_context needs data.maps, and the recipe has none"),
        ({"kind": "steps", "shots": 2}, {}, "shots is 2; give 0 or more, only for kind in_context"),
        ({}, {"builtin": "python_docs"}, "data.builtin and data.maps are both given"),
        ({}, {"train": "a.txt"}, "data.train and data.maps are both given"),
    ],
)
def test_what_cannot_be_measured_is_told_before_training(measure, data, message):
    with pytest.raises(InputError, match=message):
        read_comparison(
            {**RECIPE, "data": {**RECIPE["data"], **data}},
            arms={"one": [], "two": ["model.layers=2"]},
            measures=[{"name": "m", "kind": "in_context", **measure}],
        )
