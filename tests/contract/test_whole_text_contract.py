"""The contract of decoders with a head: every such family in `MODELS` passes the same battery; a variant is a line in `VARIANTS`.

Encoders, which are called in the same way, have a battery of their own.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from regard.checkpoints import adopt, parameters_of, write_model
from regard.errors import InputError
from regard.layers import CausalClassifier, Tokens
from regard.models import (
    MODELS,
    Bert,
    BertConfig,
    GPT2ClassifierConfig,
    GPT3ClassifierConfig,
    GPTClassifierConfig,
    LlamaClassifierConfig,
)
from regard.models.config import config_from_json, config_to_json
from regard.testing import check_model


def gpt(kind: type[Any], **changes: Any) -> Any:
    sizes = {"vocabulary": 11, "width": 12, "heads": 3, "feedforward_width": 20, "layers": 2, "maximum_positions": 8}
    return kind(**(sizes | {"dropout": 0.3} | changes))


VARIANTS = {
    "gpt": gpt(GPTClassifierConfig, outputs=3),
    "gpt rating": gpt(GPTClassifierConfig, outputs=1, head_dropout=0.0),
    "gpt2": gpt(GPT2ClassifierConfig, outputs=4),
    "gpt2 choice": gpt(GPT2ClassifierConfig, head="choice", outputs=1),
    "gpt3": gpt(GPT3ClassifierConfig, band=2, outputs=2),
    "llama": gpt(LlamaClassifierConfig, key_heads=1, outputs=3),
    "llama rating, as qwen3": gpt(
        LlamaClassifierConfig, query_key_norm=True, sliding_window=3, window_from=1, outputs=1
    ),
}
PLAIN = {family.with_head: name for name, family in MODELS.items() if family.with_head}
"""The language model of each family."""

every_variant = pytest.mark.parametrize("variant", VARIANTS)
EXACT = {"rtol": 1e-10, "atol": 1e-12}
LENGTHS = [4, 6, 2]


@pytest.fixture
def build(seeded, randomize):
    def make(variant: str, dtype: torch.dtype = torch.float64) -> CausalClassifier:
        config = VARIANTS[variant]
        return randomize(MODELS[config.model_type].model(config), scale=0.8).to(dtype).eval()

    return make


@pytest.fixture
def batch(sentences):
    """Texts, each of another length; the same whichever side is padded."""
    return lambda side="right": sentences(LENGTHS, 11, side=side, seed=1)


def language_model(model: CausalClassifier, rows: int) -> nn.Module:
    """The language model with the same weights and a vocabulary of the first rows."""
    config: Any = model.config
    family = MODELS[PLAIN[config.model_type]]
    fields = {part.name: getattr(config, part.name) for part in dataclasses.fields(family.config)}
    plain = family.model(family.config(**{**fields, "vocabulary": rows})).to(torch.float64).eval()
    given = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("head.")}
    plain.load_state_dict(given | {"embedding.tokens.weight": given["embedding.tokens.weight"][:rows]})
    return plain


def test_every_registered_family_is_in_the_battery():
    families = {name for name, family in MODELS.items() if family.interface == "whole_text"}
    assert {config.model_type for config in VARIANTS.values()} == families == set(PLAIN)
    assert all(MODELS[name].input_tokens for name in families)


@every_variant
def test_contract(variant):
    assert check_model(VARIANTS[variant])


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_head_reads_the_last_real_token_of_the_language_models_vectors(variant, side, build, batch):
    """Written plainly: each text alone, its last vector, one linear map."""
    model, tokens = build(variant), batch(side)
    encoded = model(tokens)
    plain: Any = language_model(model, 11)
    for row in range(3):
        text = Tokens.pad([tokens.ids[row][tokens.valid[row]].tolist()])
        last = plain.hidden(text, plain.start(1))[0][0, -1]
        expected = nn.functional.linear(last, model.head.output.weight, model.head.output.bias)
        torch.testing.assert_close(encoded.logits[row], expected, **EXACT)
        torch.testing.assert_close(encoded.pooled[row], last, **EXACT)


@every_variant
def test_next_tokens_are_told_as_by_the_language_model(variant, build, batch):
    model, tokens = build(variant), batch()
    at = torch.tensor([0, 2, 6, 11])
    expected = language_model(model, 11)(tokens).flatten(0, 1)[at]
    torch.testing.assert_close(model(tokens, at=at).next_token, expected, **EXACT)
    assert model(tokens).next_token is None


@every_variant
def test_vectors_of_several_readings_are_added_before_the_head(variant, build, sentences):
    model = build(variant)
    tokens = sentences([4, 6, 3, 5], 11, seed=2)
    read = model(tokens, readings=2)
    vectors = model(tokens).pooled
    together = torch.stack([vectors[0] + vectors[1], vectors[2] + vectors[3]])
    torch.testing.assert_close(read.logits, model.head.output(together), **EXACT)


def test_an_encoder_adds_its_readings_too(seeded, randomize, sentences):
    config = BertConfig(vocabulary=11, width=8, heads=2, feedforward_width=6, layers=1, head="sequence", outputs=3)
    model = randomize(Bert(config)).double().eval()
    tokens = sentences([4, 6, 3, 5], 11, seed=2)
    vectors = model(tokens).pooled
    expected = model.head.output(torch.stack([vectors[0] + vectors[1], vectors[2] + vectors[3]]))
    torch.testing.assert_close(model(tokens, readings=2).logits, expected, **EXACT)


@every_variant
def test_a_grown_vocabulary_keeps_the_old_logits(variant, build, batch, tmp_path):
    """From a language model's folder of 8 tokens: the three further rows and the head are new, all else is as it was."""
    model, tokens = build(variant, torch.float32), batch()
    tokens = Tokens(tokens.ids % 8, tokens.valid)
    plain: Any = language_model(build(variant), 8).float()
    write_model(tmp_path, plain.config, parameters_of(plain), task={}, recipe={}, metrics={})
    before = {name: tensor.clone() for name, tensor in parameters_of(model).items()}
    said = adopt(model, tmp_path)
    assert said.endswith("new are head and 3 rows of embedding.tokens.")
    at = torch.arange(tokens.ids.numel())
    told = model(tokens, at=at).next_token[tokens.valid.flatten()]
    torch.testing.assert_close(told[:, :8], plain(tokens)[tokens.valid], rtol=1e-5, atol=1e-5)
    now = parameters_of(model)
    for name in [name for name in now if name.startswith("head.")]:
        assert torch.equal(now[name], before[name])
    assert torch.equal(now["embedding.tokens.weight"][8:], before["embedding.tokens.weight"][8:])


def test_a_vocabulary_that_differs_by_more_is_refused(build, tmp_path):
    model = build("gpt2", torch.float32)
    plain = language_model(build("gpt2"), 7).float()
    config: Any = plain.config
    write_model(tmp_path, config, parameters_of(plain), task={}, recipe={}, metrics={})
    before = parameters_of(model)["layers.0.attention.query.weight"].clone()
    with pytest.raises(InputError, match=r"embedding\.tokens\.weight"):
        adopt(model, tmp_path)
    assert torch.equal(parameters_of(model)["layers.0.attention.query.weight"], before)


@every_variant
def test_bfloat16_autocast_is_near_float32_and_every_parameter_learns(variant, build, batch):
    model, tokens = build(variant, torch.float32), batch()
    expected = model(tokens).logits
    with torch.autocast("cpu", dtype=torch.bfloat16):
        encoded = model.train()(tokens, at=torch.arange(18))
        model.eval()
        torch.testing.assert_close(model(tokens).logits.float(), expected, rtol=0.1, atol=0.1)
        (encoded.logits.float().square().mean() + encoded.next_token.float().square().mean()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any() or name.endswith("attention.key.bias"), name


@every_variant
def test_configs_go_through_json_and_refuse_what_cannot_be(variant):
    config = VARIANTS[variant]
    assert config_from_json(type(config), config_to_json(config), "config.json") == config
    for changes, sentence in (
        ({"outputs": 0}, "outputs is 0"),
        ({"head": "choice", "outputs": 2}, "outputs is 2 but must be 1"),
        ({"head": "masked"}, "head is 'masked'; choose 'sequence' or 'choice'"),
        ({"head_dropout": 1.0}, "head_dropout is 1.0"),
        ({"heads": 5}, "a divisor of width 12"),
        ({"end_id": 11}, "end_id"),
    ):
        with pytest.raises(InputError, match=sentence):
            dataclasses.replace(config, **changes)


def test_a_text_longer_than_the_positions_is_refused(build):
    with pytest.raises(InputError, match="8"):
        build("gpt2")(Tokens.pad([[1] * 9]))
