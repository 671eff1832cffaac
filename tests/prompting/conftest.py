"""Language models whose every parameter was drawn anew, and what they say of a text asked in the plainest way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from regard.layers import Tokens
from regard.models import GPT2, GPT3, GPT2Config, GPT3Config, LSTMLanguageModel, LSTMLanguageModelConfig
from regard.tasks import LanguageModel, LanguageModellingTask
from regard.text import Tokenizer

TEXTS = ["the cat sat on the mat.", "a dog ran over the hill.", "Q: rain falls on the plain and on the hill.\nA: ="] * 4


@pytest.fixture
def built(randomize) -> Callable[..., LanguageModel]:
    """A model of a family, over parts of words or another kind of tokens."""

    def make(name: str = "gpt2", kind: str = "bpe", positions: int = 200) -> LanguageModel:
        task = LanguageModellingTask(Tokenizer.train(TEXTS, kind=kind, size=300 if kind == "byte_bpe" else 60))
        filled = task.model_settings()
        gpt = {"width": 12, "heads": 3, "feedforward_width": 16, "layers": 2, "maximum_positions": positions, **filled}
        model = {
            "gpt2": lambda: GPT2(GPT2Config(**gpt)),
            "gpt3": lambda: GPT3(GPT3Config(band=5, **gpt)),
            "lstm": lambda: LSTMLanguageModel(LSTMLanguageModelConfig(embedding_width=8, hidden_width=9, **filled)),
        }[name]()
        return LanguageModel(randomize(model, scale=1.0), task)

    return make


@pytest.fixture
def plainly() -> Callable[[LanguageModel, str, str], list[float]]:
    """log p of each token of a continuation: the whole text read at once, from its beginning."""

    def log_probabilities(model: LanguageModel, before: str, after: str) -> list[float]:
        tokenizer = model.task.tokenizer
        alone, whole = tokenizer.encode(before), tokenizer.encode(before + after)
        start = next((i for i, (a, b) in enumerate(zip(alone, whole, strict=False)) if a != b), len(alone))
        with torch.no_grad():
            logs = model.model(Tokens.pad([[tokenizer.end_id, *whole[:-1]]]))[0].log_softmax(-1)
        return [logs[i, whole[i]].item() for i in range(start, len(whole))]

    return log_probabilities
