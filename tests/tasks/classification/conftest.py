"""Labelled texts that a tiny model learns in seconds, and the model."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard

TINY = {
    "name": "bert",
    "width": 32,
    "heads": 2,
    "feedforward_width": 64,
    "layers": 2,
    "maximum_positions": 40,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "init_std": 0.15,
}
TRAINING = {
    "steps": 200,
    "batch_tokens": 600,
    "learning_rate": 3e-3,
    "schedule": "linear",
    "warmup": 20,
    "precision": "float32",
    "evaluate_every": 100,
    "save_every": 100,
    "best": "accuracy",
}


def _reviews(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Texts whose class is that of the one telling word in them."""
    draw = random.Random(seed)
    words = {"good": ["fine", "lovely", "great"], "bad": ["dull", "awful", "poor"], "odd": ["strange", "queer"]}
    filler = ["the", "film", "was", "with", "a", "man", "and", "his", "dog", "in", "some", "town"]
    found = []
    for _ in range(count):
        label = draw.choice(list(words))
        text = draw.choices(filler, k=draw.randint(2, 9))
        text.insert(draw.randrange(len(text) + 1), draw.choice(words[label]))
        found.append((" ".join(text), label))
    return found


def _twins(count: int, seed: int = 0) -> list[tuple[tuple[str, str], float]]:
    """Pairs of texts rated by whether their first words are the same."""
    draw = random.Random(seed)
    words = ["ape", "bee", "cat"]
    found = []
    for _ in range(count):
        first, second = draw.choice(words), draw.choice(words)
        rest = draw.choice(words)
        found.append(((f"{first} {rest}", f"{second} {rest}"), 4.0 if first == second else 1.0))
    return found


def _recipe(task: str, **changes: Any) -> dict[str, Any]:
    """Of a tiny model."""
    base: dict[str, Any] = {
        "task": task,
        "seed": 1,
        "model": dict(TINY),
        "data": {"maximum_length": 24},
        "tokenizer": {"size": 200},
        "training": dict(TRAINING),
    }
    for key, value in changes.items():
        base[key] = {**base.get(key, {}), **value} if isinstance(value, dict) else value
    return base


@pytest.fixture(scope="session")
def classifier_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a classifier of three classes; not to be changed."""
    folder = tmp_path_factory.mktemp("classifier") / "run"
    regard.train(_recipe("classification"), output=folder, data=_reviews(400), validation=_reviews(80, seed=1))
    return folder


@pytest.fixture(scope="session")
def rater_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that rates pairs; not to be changed."""
    folder = tmp_path_factory.mktemp("rater") / "run"
    settings = _recipe("regression", training={"best": "pearson", "steps": 250})
    regard.train(settings, output=folder, data=_twins(400), validation=_twins(60, seed=1))
    return folder


@pytest.fixture(scope="session")
def reviews() -> Callable[..., list[tuple[str, str]]]:
    """Texts of three classes, so many, by a seed."""
    return _reviews


@pytest.fixture(scope="session")
def twins() -> Callable[..., list[tuple[tuple[str, str], float]]]:
    """Rated pairs, so many, by a seed."""
    return _twins


@pytest.fixture(scope="session")
def tiny_recipe() -> Callable[..., dict[str, Any]]:
    """The recipe of a tiny model for a task, with changes."""
    return _recipe
