"""Pairs and triples that a tiny model learns in seconds, and models that did."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard

TINY = {
    "name": "bert",
    "width": 24,
    "heads": 2,
    "feedforward_width": 48,
    "layers": 2,
    "maximum_positions": 32,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "init_std": 0.15,
}
TRAINING = {
    "steps": 120,
    "batch_tokens": 500,
    "learning_rate": 3e-3,
    "schedule": "linear",
    "warmup": 10,
    "precision": "float32",
    "evaluate_every": 60,
    "save_every": 60,
    "best": "spearman",
}
TOPICS = {"sea": ["ship", "wave", "shore"], "sky": ["cloud", "bird", "wing"], "earth": ["root", "stone", "worm"]}
FILLER = ["a", "the", "was", "with", "old", "and", "near", "some"]


def _text(draw: random.Random, topic: str) -> str:
    words = draw.choices(FILLER, k=draw.randint(1, 5))
    for word in draw.sample(TOPICS[topic], 2):
        words.insert(draw.randrange(len(words) + 1), word)
    return " ".join(words)


def _examples(kind: str, count: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """Pairs of texts of one topic; with a number, 5 or 0; or with a third of another topic."""
    draw = random.Random(seed)
    found: list[tuple[Any, ...]] = []
    for _ in range(count):
        topic, other = draw.sample(list(TOPICS), 2)
        if kind == "cosine":
            alike = draw.random() < 0.5
            found.append((_text(draw, topic), _text(draw, topic if alike else other), 5.0 if alike else 0.0))
        elif kind == "triplet":
            found.append((_text(draw, topic), _text(draw, topic), _text(draw, other)))
        else:
            found.append((_text(draw, topic), _text(draw, topic)))
    return found


def _recipe(kind: str, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "task": "sentence_embedding",
        "seed": 1,
        "model": dict(TINY),
        "data": {"maximum_length": 16, "objective": kind} | ({"negative": 2} if kind == "triplet" else {}),
        "tokenizer": {"size": 120},
        "training": dict(TRAINING),
    }
    for key, value in changes.items():
        base[key] = {**base.get(key, {}), **value} if isinstance(value, dict) else value
    return base


@pytest.fixture(scope="session")
def sentence_examples() -> Callable[..., list[tuple[Any, ...]]]:
    return _examples


@pytest.fixture(scope="session")
def sentence_recipe() -> Callable[..., dict[str, Any]]:
    return _recipe


@pytest.fixture(scope="session")
def encoder_folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of an encoder trained for an objective; not to be changed."""
    made: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind) / "run"
            recipe = _recipe(kind if kind != "auto" else "ranking")
            if kind == "cosine":
                recipe["data"]["label"] = 2
            train, validation = _examples(kind, 300), _examples(kind, 60, seed=1)
            regard.train(recipe, output=made[kind], data=train, validation=validation)
        return made[kind]

    return folder
