"""Translators whose answers vary from text to text: every parameter drawn anew, few decoding steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.generation import GenerationSettings
from regard.models import MODELS
from regard.tasks.translation import TranslationTask, Translator
from regard.text import Tokenizer

SIZES: dict[str, dict[str, Any]] = {
    "bahdanau": {"embedding_width": 8, "hidden_width": 9, "attention_width": 7, "maxout_width": 6},
    "transformer": {
        "width": 12,
        "heads": 3,
        "feedforward_width": 10,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "maximum_positions": 30,
        "norm": "pre",
    },
}

SEEDS = {"bahdanau": 2, "transformer": 12}
"""Of parameters with which the models tell texts apart, and end some of what they write."""


@pytest.fixture
def translator(randomize, generator) -> Callable[..., Translator]:
    """A translator from letters to capitals."""

    def make(family: str = "bahdanau", **changes: Any) -> Translator:
        source = Tokenizer.train(["abcdefgh ijkl"], kind="character", size=30)
        target = Tokenizer.train(["ABCDEFG HIJ"], kind="character", size=30)
        task = TranslationTask(source, target, GenerationSettings(maximum_length=9))
        if family == "transformer":
            changes = {"sharing": "none"} | changes
        config = MODELS[family].config(**(SIZES[family] | task.model_settings() | changes))
        generator.manual_seed(SEEDS[family])
        model = randomize(MODELS[family].model(config), scale=2.0)
        if family == "transformer":  # else what was written weighs more than what was read, and all texts are alike
            with torch.no_grad():
                model.decoder.norm.bias.zero_()
                for layer in model.decoder.layers:
                    layer.cross_attention.output.weight.mul_(8)
        return Translator(model, task)

    return make


@pytest.fixture
def texts() -> list[str]:
    """Texts of many lengths, two of them the same."""
    return ["abc", "l", "hgfedcba", "ab ab ab", "kk", "abc", "ijkl ijkl ijkl", "b", "gh", "ah", "dcba hgfe"]
