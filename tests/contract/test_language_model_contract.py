"""The contract of language models: every such family in `MODELS` passes the same battery, a variant by one line in `VARIANTS`."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from regard.attention import RotaryScaling
from regard.errors import InputError
from regard.layers import Tokens, join
from regard.models import (
    MODELS,
    DecoderConfig,
    GPT2Config,
    GPT3Config,
    GPTConfig,
    GPTNeoXConfig,
    LlamaConfig,
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


def llama(**changes: Any) -> LlamaConfig:
    sizes: dict[str, Any] = {
        "vocabulary": 11,
        "width": 12,
        "heads": 6,
        "key_heads": 2,
        "feedforward_width": 20,
        "layers": 3,
    }
    return LlamaConfig(**(sizes | {"maximum_positions": 8, "dropout": 0.3} | changes))


LONGER: dict[str, Any] = {"factor": 2.0, "trained_positions": 3}

VARIANTS = {
    "decoder": gpt(DecoderConfig),
    "decoder of llama's parts": gpt(
        DecoderConfig, heads=6, key_heads=2, positions="rotary", norm="rms", gated=True, activation="swish", bias=False
    ),
    "decoder of distances, post-norm": gpt(
        DecoderConfig, heads=6, key_heads=3, positions="relative", maximum_distance=3, norm_placement="post"
    ),
    "decoder of sinusoids, rms post-norm": gpt(
        DecoderConfig, positions="sinusoidal", norm="rms", norm_placement="post", tied_output=False
    ),
    "decoder of parallel blocks": gpt(DecoderConfig, parallel=True, positions="rotary", norm="rms", gated=True),
    "decoder without positions": gpt(DecoderConfig, positions="none", gated=True, key_heads=1),
    "gpt": gpt(GPTConfig),
    "gpt2": gpt(GPT2Config),
    "gpt2 of one head": gpt(GPT2Config, heads=1, layers=1, activation="relu"),
    "gpt3": gpt(GPT3Config, band=2),
    "gpt3 of wide bands": gpt(GPT3Config, band=8),
    "gpt_neox": gpt(GPTNeoXConfig, rotary_share=0.5),
    "gpt_neox one after another": gpt(GPTNeoXConfig, parallel=False, rotary_share=1.0, tied_output=True),
    "gpt_neox without biases of attention": gpt(GPTNeoXConfig, heads=2, rotary_share=0.4, attention_bias=False),
    "gpt_neox of yarn": gpt(
        GPTNeoXConfig, heads=2, rotary_share=0.7, rotary_scaling=RotaryScaling(kind="yarn", **LONGER)
    ),
    "llama": llama(),
    "llama as mistral": llama(sliding_window=4, tied_output=False, rotary_base=100.0),
    "llama as qwen2": llama(attention_bias=True, sliding_window=3, window_from=1),
    "llama as qwen3": llama(query_key_norm=True, head_width=4, key_heads=6, activation="gelu"),
    "llama with every bias": llama(attention_bias=True, attention_output_bias=True, feedforward_bias=True, key_heads=1),
    "llama of linear scaling": llama(rotary_scaling=RotaryScaling(kind="linear", factor=2.0)),
    "llama of dynamic scaling": llama(head_width=6, rotary_scaling=RotaryScaling(kind="dynamic", **LONGER)),
    "llama of its own scaling": llama(head_width=6, rotary_scaling=RotaryScaling(kind="llama3", **LONGER)),
    "llama of yarn": llama(head_width=6, rotary_scaling=RotaryScaling(kind="yarn", **LONGER)),
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
    ("decoder", "gpt", "gpt2", "gpt3", "gpt_neox", "llama", "music_transformer"), True
)

EXACT = {"rtol": 1e-10, "atol": 1e-12}
LENGTHS = [4, 6, 2]

every_variant = pytest.mark.parametrize("variant", VARIANTS)


@pytest.fixture
def build(seeded, randomize):
    def make(variant: str, dtype: torch.dtype = torch.float64) -> nn.Module:
        config = VARIANTS[variant]
        return randomize(MODELS[config.model_type].model(config), scale=0.8).to(dtype).eval()

    return make


@pytest.fixture
def batch(sentences):
    """Texts, each of another length; the same whichever side is padded."""

    def make(variant: str, *, side: str = "right") -> Tokens:
        config = VARIANTS[variant]
        return sentences(LENGTHS, config.vocabulary, side=side, seed=1, start=config.end_id)

    return make


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
        with pytest.raises(ValueError, match="does not store"):
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


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_join_and_leave_at_any_length(variant, side, build, batch):
    """Rows of states of different lengths, padded prompts and branched hypotheses among them, go on together as each alone."""
    model, tokens = build(variant), batch(variant, side=side)
    part = slice(2, 5) if side == "left" else slice(1, 4)
    with torch.no_grad():
        two = model.prefill(Tokens(tokens.ids[:2, part], tokens.valid[:2, part]), model.start(2))
        short = model.step(torch.tensor([5]), model.start(1))[1]
        branched = model.step(torch.tensor([4, 6]), short.reorder(torch.tensor([0, 0])))[1].reorder(
            torch.tensor([1, 0])
        )
        apart = [two, short, branched, model.start(1)]
        together = join(apart)
        assert (together.rows, together.width, together.longest) == (6, 1, 3)
        ids = torch.tensor([3, 4, 5, 6, 7, 3])
        found, together = model.step(ids, together)
        expected, apart = zip(
            *(model.step(part, state) for part, state in zip(ids.split([2, 1, 2, 1]), apart, strict=True)), strict=True
        )
        torch.testing.assert_close(found, torch.cat(expected), **EXACT)
        staying = torch.tensor([4, 1, 5])
        again = join([together.select(staying), apart[1]])
        found, _ = model.step(ids[:4], again)
        wanted = [
            model.step(ids[:1], apart[2].select(torch.tensor([1])))[0],
            model.step(ids[1:2], apart[0].select(torch.tensor([1])))[0],
            model.step(ids[2:3], apart[3])[0],
            model.step(ids[3:4], apart[1])[0],
        ]
        torch.testing.assert_close(found, torch.cat(wanted), **EXACT)
