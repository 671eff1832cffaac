"""Questions that a tiny model learns to answer in seconds, and models."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.models import Bert, BertConfig
from regard.tasks.preparation import EncoderTokenizerSettings
from regard.tasks.question_answering import QuestionAnswerer, QuestionAnsweringTask
from regard.text import Tokenizer

Question = tuple[str, str, Any]

WORDS = [first + second for first in "bdfgk" for second in "aeiou"]


def _questions(count: int, seed: int = 0, without: float = 0.0) -> list[Question]:
    """The answer is the word after "key", which in some contexts is not there."""
    draw = random.Random(seed)
    found: list[Question] = []
    for _ in range(count):
        words = draw.choices(WORDS, k=draw.randint(4, 18))
        answer = None
        if draw.random() >= without:
            place = draw.randrange(len(words))
            answer = (words[place], len(" ".join(["", *words[:place]])) + len("key ") + (place == 0) - 1 + (place > 0))
            words.insert(place, "key")
        found.append(("who ?", " ".join(words), answer))
    return found


def _recipe(**changes: Any) -> dict[str, Any]:
    """Of a tiny model that needs several windows for most contexts."""
    base: dict[str, Any] = {
        "task": "question_answering",
        "seed": 1,
        "model": {
            "name": "bert",
            "width": 32,
            "heads": 2,
            "feedforward_width": 48,
            "layers": 2,
            "maximum_positions": 20,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "init_std": 0.15,
        },
        "data": {
            "maximum_length": 17,
            "stride": 6,
            "maximum_question": 4,
            "maximum_answer": 3,
            "other_windows": "keep",
        },
        "tokenizer": {"size": 120},
        "training": {
            "steps": 120,
            "batch_tokens": 1000,
            "learning_rate": 5e-3,
            "schedule": "linear",
            "warmup": 20,
            "precision": "float32",
            "evaluate_every": 60,
            "save_every": 60,
            "best": "f1",
        },
    }
    for key, value in changes.items():
        base[key] = {**base.get(key, {}), **value} if isinstance(value, dict) else value
    return base


@pytest.fixture(scope="session")
def questions() -> Callable[..., list[Question]]:
    """(question, context, answer), so many, by a seed, a share of them without an answer."""
    return _questions


@pytest.fixture(scope="session")
def tiny_recipe() -> Callable[..., dict[str, Any]]:
    """The recipe of a tiny model, with changes."""
    return _recipe


@pytest.fixture(scope="session")
def answerer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that always answers; not to be changed."""
    folder = tmp_path_factory.mktemp("answerer") / "run"
    regard.train(_recipe(), output=folder, data=_questions(500), validation=_questions(80, seed=1))
    return folder


@pytest.fixture(scope="session")
def careful_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that says where there is no answer; not to be changed."""
    folder = tmp_path_factory.mktemp("careful") / "run"
    data = {"other_windows": None}
    regard.train(
        _recipe(data=data),
        output=folder,
        data=_questions(500, without=0.3),
        validation=_questions(100, seed=1, without=0.3),
    )
    return folder


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> EncoderTokenizerSettings:
    """A tokenizer that knows some words as a whole, and any by their letters."""
    words = "one two three four five six seven eight nine ten eleven twelve who what when why ? café 中文 😀"
    folder = tmp_path_factory.mktemp("vocabulary")
    rest = [f"{letter}{other}" for letter in "abcdefghijklmnopqrstuvwxyz" for other in "x0123456789"]
    Tokenizer.train([words] * 9 + rest, kind="bert", size=400, lowercase=True).save(folder)
    return EncoderTokenizerSettings(path=str(folder))


@pytest.fixture
def random_answerer(randomize) -> Callable[..., QuestionAnswerer]:
    """An answerer whose parameters are all drawn anew, over texts with accents, Chinese and emoji."""

    def make(unanswerable: bool | None = False, *, kind: str = "bert", **changes: Any) -> QuestionAnswerer:
        text = "the café naïve 中文 words, 😀 and (more) of them in English;"
        tokenizer = Tokenizer.train([text] * 9, kind=kind, size=120, lowercase=True)
        settings = {"maximum_length": 16, "stride": 4, "maximum_question": 5, "maximum_answer": 4, **changes}
        task = QuestionAnsweringTask(tokenizer=tokenizer, unanswerable=unanswerable, **settings)
        config = BertConfig(
            width=12, heads=3, feedforward_width=10, layers=2, maximum_positions=20, **task.model_settings()
        )
        model = randomize(Bert(config), scale=2.0)
        with torch.no_grad():  # else all scores are much alike, and their order is rounding
            model.head.output.weight.mul_(4)
        return QuestionAnswerer(model, task)

    return make
