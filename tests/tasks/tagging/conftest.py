"""Taggers that tell words apart: a tiny BERT with every parameter drawn anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.models import Bert, BertConfig
from regard.tasks.tagging import Tagger, TaggingTask
from regard.text import Tokenizer

CORPUS = [
    "Angela Merkel visited Paris and New York with Ann Lee.",
    "angelas merkeling visiting yorkshire",
    "x y z é 1 2",
]


@pytest.fixture(scope="session")
def word_tokenizer() -> Tokenizer:
    """BERT's, with words of one and of several pieces."""
    return Tokenizer.train([text for text in CORPUS for _ in range(3)], kind="bert", size=90, lowercase=True)


@pytest.fixture
def tagger(word_tokenizer, randomize, generator) -> Callable[..., Tagger]:
    """A tagger with parameters of its own."""

    def make(**changes: Any) -> Tagger:
        settings: dict[str, Any] = {"tags": ("O", "B-LOC", "I-LOC", "B-PER", "I-PER"), "maximum_length": 16}
        task = TaggingTask(tokenizer=word_tokenizer, **(settings | changes))
        config = BertConfig(
            width=12, heads=3, feedforward_width=10, layers=2, maximum_positions=40, **task.model_settings()
        )
        generator.manual_seed(28)
        model = randomize(Bert(config), scale=1.5)
        with torch.no_grad():  # else what all words share outweighs what tells them apart
            for name, parameter in model.named_parameters():
                if name.endswith(("bias", "segments.weight")):
                    parameter.zero_()
            for layer in model.layers:
                layer.attention.output.weight.div_(3)
            model.head.output.weight.mul_(2)
        return Tagger(model, task)

    return make
