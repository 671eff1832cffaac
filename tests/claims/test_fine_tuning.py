"""Decoders fine-tuned for a claim: pre-trained or not, with the auxiliary loss or not, the same seed gives the same number."""

from __future__ import annotations

import random

import pytest

import regard
from regard.claims.catalogue import compute
from regard.claims.claim import claim
from regard.errors import InputError
from regard_claims.pre_training.fine_tuning import FineTuning, sizes_of

GOOD, BAD, OTHERS = (
    ["fine", "lovely", "great"],
    ["dull", "awful", "poor"],
    ["the", "film", "was", "with", "a", "man", "and", "his", "dog"],
)


def _reviews(count: int, seed: int) -> list[tuple[str, int]]:
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        label = draw.randrange(2)
        words = [*draw.choices(OTHERS, k=draw.randint(2, 4)), draw.choice(GOOD if label else BAD)]
        found.append((" ".join(words), label))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("reviews")
    for name, count, seed in (("train", 120, 1), ("dev", 40, 2)):
        lines = [f"{text}\t{label}\n" for text, label in _reviews(count, seed)]
        (place / f"{name}.tsv").write_text("".join(lines))
    sizes = {"width": 16, "heads": 2, "feedforward_width": 24, "layers": 2, "maximum_positions": 16, "init_std": 0.2}
    recipe = {
        "task": "language_modelling",
        "model": {"name": "gpt", **sizes},
        "data": {"length": 12},
        "tokenizer": {"kind": "word", "size": 60},
        "training": {"steps": 10, "batch_tokens": 300, "learning_rate": 3e-3, "warmup": 2, "precision": "float32"},
    }
    regard.train(recipe, output=place / "gpt", data=[text for text, _ in _reviews(60, 3)])
    return place


SETTINGS = {
    "format": "sst2",
    "labels": 100,
    "epochs": 12,
    "learning_rate": 1e-2,
    "batch_tokens": 300,
    "maximum_length": 12,
}


@pytest.mark.parametrize("changes", [{}, {"auxiliary": 0.0}, {"pretrained": False}])
def test_it_learns_and_is_measured_on_what_was_held_out(folder, changes):
    settings = FineTuning(path=str(folder), **SETTINGS, **changes)
    assert settings.run(1)["accuracy"] > 85


def test_the_same_seed_gives_the_same_number(folder):
    settings = FineTuning(path=str(folder), **(SETTINGS | {"epochs": 1}))
    assert settings.run(2) == settings.run(2)


def test_without_pre_training_the_sizes_and_nothing_else_are_kept(folder):
    sizes = sizes_of(str(folder / "gpt"))
    assert (sizes["name"], sizes["width"], sizes["layers"], sizes["init_std"]) == ("gpt", 16, 2, 0.2)
    assert {"vocabulary", "padding_id", "end_id", "head", "outputs", "pretrained"}.isdisjoint(sizes)


def test_arms_are_settings_of_it(folder, tmp_path):
    sections = {
        "experiment": {"name": "fine_tuning", "path": str(folder), **SETTINGS, "epochs": 1},
        "arms": {
            "few": {"labels": 10},
            "anew": {"pretrained": False, "labels": 10},
            "alone": {"auxiliary": 0.0, "labels": 10},
        },
        "seeds": [1, 2],
    }
    compared = compute(sections, output=tmp_path)
    assert len(compared.runs) == 6
    assert all(0 <= run.values["accuracy"].number <= 100 for run in compared.runs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": None}, "experiment.path is missing"),
        ({"path": "nowhere"}, "nowhere: holds no file of labelled texts for train"),
        ({"labels": 121}, "experiment.labels is 121, and there are 120 training examples"),
        ({"labels": 0}, "experiment.labels is 0"),
        ({"model": "nothing"}, "nothing: no such folder"),
    ],
)
def test_what_is_missing_is_said(folder, changes, message):
    with pytest.raises(InputError, match=message):
        FineTuning(**({"path": str(folder), **SETTINGS} | changes)).run(1)


def test_the_claim_asks_for_it():
    found = claim("3.2")
    assert found.name == "pre-training"
    assert found.needs_data
    experiments = [found.resolved.experiment_of(arm) for arm in found.resolved.arms]
    assert all(isinstance(each, FineTuning) for each in experiments)
    few = [each for each in experiments if isinstance(each, FineTuning) and each.labels == 500]
    assert len({each.epochs for each in few}) == 1, "equal updates"
