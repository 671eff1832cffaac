"""The contract of language models: every such family in `MODELS` passes the same battery, a variant by one line in `VARIANTS`."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from regard.errors import InputError
from regard.models import (
    MODELS,
    GPT2Config,
    GPT3Config,
    GPTConfig,
    LSTMLanguageModelConfig,
    LSTMNConfig,
    MusicTransformerConfig,
    ReformerConfig,
)
from regard.models.config import config_from_json, config_to_json
from regard.testing import check_model


def lstm(**changes: Any) -> LSTMLanguageModelConfig:
    sizes: dict[str, Any] = {"vocabulary": 11, "embedding_width": 4, "hidden_width": 6, "layers": 3, "dropout": 0.3}
    return LSTMLanguageModelConfig(**(sizes | changes))


def lstmn(**changes: Any) -> LSTMNConfig:
    sizes: dict[str, Any] = {"vocabulary": 11, "embedding_width": 4, "hidden_width": 6, "attention_width": 5}
    return LSTMNConfig(**(sizes | {"dropout": 0.3} | changes))


def reformer(**changes: Any) -> ReformerConfig:
    """Within a chunk, where nothing is cut: what is not exact of longer texts is tested in tests/models/test_reformer.py."""
    sizes: dict[str, Any] = {"vocabulary": 11, "width": 12, "heads": 3, "head_width": 5, "feedforward_width": 20}
    return ReformerConfig(**(sizes | {"maximum_positions": 8, "dropout": 0.3, "chunk": 8, "local_chunk": 8} | changes))


def gpt(kind: type[Any], **changes: Any) -> Any:
    sizes = {"vocabulary": 11, "width": 12, "heads": 3, "feedforward_width": 20, "layers": 3, "maximum_positions": 8}
    return kind(**(sizes | {"dropout": 0.3} | changes))


def music(**changes: Any) -> MusicTransformerConfig:
    sizes: dict[str, Any] = {"vocabulary": 11, "width": 12, "heads": 3, "feedforward_width": 20, "layers": 3}
    return MusicTransformerConfig(**(sizes | {"maximum_distance": 5, "dropout": 0.3} | changes))


VARIANTS = {
    "gpt": gpt(GPTConfig),
    "gpt2": gpt(GPT2Config),
    "gpt2 of one head": gpt(GPT2Config, heads=1, layers=1, activation="relu"),
    "gpt3": gpt(GPT3Config, band=2),
    "gpt3 of wide bands": gpt(GPT3Config, band=8),
    "reformer": reformer(layers=("lsh", "lsh"), rounds=2),
    "reformer with local layers": reformer(
        layers=("local", "lsh"), local_chunk=2, axial_shape=(2, 4), axial_widths=(4, 8), output_bias=True
    ),
    "lstm": lstm(),
    "lstm of one layer": lstm(layers=1),
    "lstm residual": lstm(residual=True),
    "lstm tied": lstm(embedding_width=6, tied=True, residual=True),
    "lstmn": lstmn(),
    "lstmn of two layers": lstmn(layers=2, attention_width=None),
    "music transformer": music(),
    "music transformer that forgets distances": music(maximum_distance=2, beyond="nothing"),
    "music transformer with sinusoids": music(maximum_distance=3, positions="sinusoidal", maximum_positions=8),
    "music transformer of absolute positions": music(maximum_distance=None, positions="learned", maximum_positions=6),
}
CROPPABLE = {"lstm_language_model": False, "lstmn": False, "reformer": True} | dict.fromkeys(
    ("gpt", "gpt2", "gpt3", "music_transformer"), True
)

every_variant = pytest.mark.parametrize("variant", VARIANTS)


def test_every_registered_family_is_in_the_battery():
    families = {name: family for name, family in MODELS.items() if family.interface == "language_model"}
    assert {config.model_type for config in VARIANTS.values()} == set(families) == set(CROPPABLE)


@every_variant
def test_contract(variant):
    assert check_model(VARIANTS[variant])


@every_variant
def test_states_of_transformers_can_be_cropped_and_recurrent_ones_refuse(variant):
    config = VARIANTS[variant]
    model: Any = MODELS[config.model_type].model(config).eval()
    state = model.start(2)
    for _ in range(3):
        _, state = model.step(torch.tensor([4, 5]), state)
    if CROPPABLE[config.model_type]:
        assert state.crop(2).length == 2
    else:
        with pytest.raises(ValueError, match="does not remember"):
            state.crop(2)


@every_variant
def test_configs_go_through_json_and_refuse_what_they_do_not_know(variant):
    config = VARIANTS[variant]
    assert config_from_json(type(config), config_to_json(config), "config.json") == config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.vocabulary = 5
    with pytest.raises(InputError, match="unknown key"):
        config_from_json(type(config), {**config_to_json(config), "vocabularly": 3}, "config.json")
    with pytest.raises(InputError, match="end_id"):
        dataclasses.replace(config, end_id=11)
