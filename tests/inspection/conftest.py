"""Models to look at: every parameter drawn anew, so that attention differs from step to step and text to text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.generation import GenerationSettings
from regard.layers import Tokens
from regard.models import MODELS
from regard.tasks.translation import TranslationTask, Translator
from regard.text import Tokenizer

LOOKED_AT: dict[str, dict[str, Any]] = {
    "bahdanau": {"embedding_width": 8, "hidden_width": 9, "attention_width": 7, "maxout_width": 6},
    # Its windows are around places that stand in the record of the attention's inputs.
    "luong": {
        "embedding_width": 8,
        "hidden_width": 9,
        "layers": 2,
        "attention": "local_p",
        "window": 2,
        "dropout": 0.0,
    },
    "transformer": {
        "width": 12,
        "heads": 3,
        "feedforward_width": 10,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "maximum_positions": 30,
        "norm": "pre",
        "sharing": "none",
    },
}


@pytest.fixture
def model(randomize) -> Callable[..., Any]:
    """A model in evaluation mode: `model("transformer", dropout=0.3)`."""

    def make(family: str, **changes: Any) -> Any:
        sizes = {"source_vocabulary": 17, "target_vocabulary": 13} | LOOKED_AT[family] | changes
        made = randomize(MODELS[family].model(MODELS[family].config(**sizes)), scale=2.0)
        if family == "transformer":  # else what was written weighs more than what was read, and all texts are alike
            with torch.no_grad():
                for layer in made.decoder.layers:
                    layer.cross_attention.output.weight.mul_(6)
        return made.eval()

    return make


@pytest.fixture
def translator(model) -> Callable[..., Translator]:
    """A translator from letters to capitals."""

    def make(family: str, **changes: Any) -> Translator:
        source = Tokenizer.train(["abcdefgh ijkl"], kind="character", size=30)
        target = Tokenizer.train(["ABCDEFG HIJ"], kind="character", size=30)
        task = TranslationTask(source, target, GenerationSettings(maximum_length=7))
        return Translator(model(family, **(task.model_settings() | changes)), task)

    return make


@pytest.fixture
def batch() -> tuple[Tokens, Tokens]:
    """Three sentences with targets, of different lengths, padded on the right."""
    source = Tokens.pad([[3, 9, 5, 16, 2], [7, 2], [4, 11, 8, 2]])
    target = Tokens.pad([[1, 4, 7], [1, 12, 3, 5, 9, 6], [1, 10]])
    return source, target
