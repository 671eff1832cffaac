"""Small runs: number words spelt backwards, learnt by models of a few thousand parameters."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

Pairs = list[tuple[str, str]]

SMALL = {
    "bahdanau": {
        "name": "bahdanau",
        "embedding_width": 6,
        "hidden_width": 7,
        "attention_width": 5,
        "maxout_width": 4,
        "dropout": 0.1,
    },
    "transformer": {
        "name": "transformer",
        "width": 12,
        "heads": 3,
        "feedforward_width": 10,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "maximum_positions": 40,
        "dropout": 0.1,
        "attention_dropout": 0.1,
    },
}


@pytest.fixture(scope="session")
def pairs() -> Pairs:
    """Words of two to seven letters, and the same backwards."""
    draw = random.Random(11)
    words = ["".join(draw.choice("abcdefgh") for _ in range(draw.randint(2, 7))) for _ in range(130)]
    return [(word, word[::-1]) for word in words]


@pytest.fixture(scope="session")
def recipe() -> Callable[..., dict[str, Any]]:
    """A recipe as a mapping: `recipe("transformer", steps=3, accumulate=2)` changes the training section."""

    def make(model: str = "bahdanau", **training: Any) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "steps": 6,
            "batch_tokens": 220,
            "learning_rate": 1e-2,
            "warmup": 3,
            "precision": "float32",
            "evaluate_every": 1000,
            "save_every": 1000,
            "log_every": 1,
        }
        return {
            "seed": 5,
            "model": dict(SMALL[model]),
            "data": {"validation_size": 12},
            "tokenizer": {"kind": "character", "size": 60},
            "training": settings | training,
        }

    return make
