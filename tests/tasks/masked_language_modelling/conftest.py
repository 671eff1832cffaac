"""A small BERT for masked tokens and next sentences, its documents, and the task around them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from regard.models import MODELS
from regard.tasks.masked_language_modelling import MaskedLanguageModel, MaskedLanguageModellingTask
from regard.text import Tokenizer

SIZES: dict[str, Any] = {
    "width": 12,
    "heads": 3,
    "feedforward_width": 20,
    "layers": 2,
    "maximum_positions": 32,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}


def sentences(count: int, seed: int) -> list[str]:
    """Sentences of a small grammar, of four to seven words."""
    draw = random.Random(seed)
    nouns, verbs = ["dog", "cat", "bird", "horse", "fish"], ["chases", "sees", "likes", "feeds"]
    return [
        f"{draw.choice(['the', 'a'])} {draw.choice(nouns)} {draw.choice(verbs)} {draw.choice(['the', 'every'])} "
        f"{draw.choice(['small ', '', 'old '])}{draw.choice(nouns)}."
        for _ in range(count)
    ]


@pytest.fixture(scope="session")
def documents() -> list[list[str]]:
    """Forty documents of three to nine sentences."""
    draw = random.Random(3)
    return [sentences(draw.randint(3, 9), seed) for seed in range(40)]


@pytest.fixture(scope="session")
def tokenizer(documents: list[list[str]]) -> Tokenizer:
    return Tokenizer.train([each for document in documents for each in document], kind="bert", size=90)


@pytest.fixture
def language_model(randomize, tokenizer) -> Callable[..., MaskedLanguageModel]:
    """A model with every parameter drawn; keywords change its config."""

    def make(name: str = "bert", *, next_sentence: bool = True, **changes: Any) -> MaskedLanguageModel:
        task = MaskedLanguageModellingTask(tokenizer=tokenizer, maximum_length=32, next_sentence=next_sentence)
        config = MODELS[name].config(**(SIZES | task.model_settings() | changes))
        return MaskedLanguageModel(randomize(MODELS[name].model(config), scale=2.0), task)

    return make


@pytest.fixture(scope="session")
def masked_recipe() -> Callable[..., dict[str, Any]]:
    """A recipe as a mapping; keywords change its training section, or with `data` and `model` those."""

    def make(
        *, data: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **training: Any
    ) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "steps": 6,
            "batch_tokens": 200,
            "learning_rate": 1e-2,
            "warmup": 3,
            "precision": "float32",
            "log_every": 1,
            "evaluate_every": 3,
        }
        return {
            "task": "masked_language_modelling",
            "seed": 5,
            "model": {"name": "bert", **SIZES} | (model or {}),
            "data": {"maximum_length": 24, "validation_share": 0.2} | (data or {}),
            "tokenizer": {"kind": "bert", "size": 90},
            "training": settings | training,
        }

    return make
