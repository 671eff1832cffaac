"""Folders of small models of both families, with shared and separate vocabularies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from regard.generation import GenerationSettings
from regard.models import MODELS
from regard.tasks.translation import TranslationTask, Translator
from regard.text import Tokenizer

SIZES: dict[str, dict[str, Any]] = {
    "bahdanau": {"embedding_width": 4, "hidden_width": 5, "attention_width": 7, "maxout_width": 3},
    "transformer": {
        "width": 12,
        "heads": 3,
        "feedforward_width": 10,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "maximum_positions": 24,
        "norm": "pre",
    },
}


@pytest.fixture
def translator(randomize) -> Callable[..., Translator]:
    """A translator with every parameter drawn anew: `translator("transformer", shared=False, sharing="none")`."""

    def make(family: str, *, shared: bool = True, **changes: Any) -> Translator:
        source = Tokenizer.train(["abcde fgh"], kind="character", size=20)
        target = source if shared else Tokenizer.train(["ABC"], kind="character", size=20)
        task = TranslationTask(source, target, GenerationSettings(maximum_length=6, beam=2))
        if family == "transformer" and not shared:
            changes = {"sharing": "target"} | changes
        config = MODELS[family].config(**(SIZES[family] | task.model_settings() | changes))
        model = randomize(MODELS[family].model(config))
        return Translator(model, task, recipe={"seed": 3, "note": "žluť"}, metrics={"loss": 1.25})

    return make
