"""Small encoders with every parameter drawn anew, and a tokenizer for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from regard.models import Bert, BertConfig, DistilBert, DistilBertConfig
from regard.text import Tokenizer

SENTENCES = [
    "The river bank was steep and green.",
    "A bank lends money to people it trusts.",
    "Nobody was unhappy about the weather!",
    "reads",
]


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """BERT's kind, of a few words in pieces."""
    return Tokenizer.train([*SENTENCES, "un ##happy happier weathered"] * 3, kind="bert", size=90, lowercase=True)


@pytest.fixture
def encoder(randomize: Callable[..., nn.Module]) -> Callable[..., Any]:
    """A small encoder, in evaluation mode; changes are of its config."""

    def make(family: str = "bert", scale: float = 1.0, **changes: Any) -> Any:
        sizes: dict[str, Any] = {
            "vocabulary": 90,
            "width": 12,
            "heads": 3,
            "feedforward_width": 20,
            "layers": 4,
            "maximum_positions": 24,
        }
        config, model = {"bert": (BertConfig, Bert), "distilbert": (DistilBertConfig, DistilBert)}[family]
        return randomize(model(config(**(sizes | changes))), scale).eval()

    return make


@pytest.fixture
def rows() -> Callable[..., list[list[int]]]:
    """Token ids of the given lengths."""

    def make(*lengths: int, vocabulary: int = 90) -> list[list[int]]:
        draw = torch.Generator().manual_seed(11)
        return [torch.randint(5, vocabulary, (length,), generator=draw).tolist() for length in lengths]

    return make
