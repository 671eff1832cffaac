"""Hugging Face's GPT and GPT-2 beside ours, both ways, on parameters that were all drawn anew; and the published sizes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from regard.checkpoints import layout_of, parameters_of, read_model, write_model
from regard.errors import InputError
from regard.generation import Continuation, GenerationSettings, search
from regard.layers import Tokens
from regard.models import GPT, GPT2, GPT3, GPT2Config, GPT3Config, GPTConfig

transformers = pytest.importorskip("transformers")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
FAMILIES = ("gpt", "gpt2")
every_family = pytest.mark.parametrize("family", FAMILIES)


def theirs_of(family: str, generator: torch.Generator, **changes: Any) -> Any:
    sizes = {"vocab_size": 30, "n_embd": 12, "n_layer": 3, "n_head": 3, "n_positions": 16} | changes
    if family == "gpt2":
        config = transformers.GPT2Config(**sizes, bos_token_id=29, eos_token_id=29)
        return redrawn(transformers.GPT2LMHeadModel(config), generator)
    return redrawn(transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(**sizes)), generator)


def redrawn(model: nn.Module, generator: torch.Generator) -> Any:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model.eval()


@every_family
@pytest.mark.parametrize("side", ["right", "left"])
def test_their_folder_gives_their_logits(family, side, generator, tmp_path):
    theirs = theirs_of(family, generator)
    theirs.save_pretrained(tmp_path)
    model = read_model(tmp_path)
    assert type(model) is {"gpt": GPT, "gpt2": GPT2}[family]
    tokens = Tokens.pad([[29, 3, 4, 5, 6], [29, 7], [8, 9, 1]], side=side)
    positions = (tokens.valid.long().cumsum(1) - 1).clamp_min(0)
    expected = theirs(tokens.ids, attention_mask=tokens.valid.long(), position_ids=positions).logits
    torch.testing.assert_close(model(tokens)[tokens.valid], expected[tokens.valid], **CLOSE)


@every_family
def test_our_folder_opens_there_with_nothing_missing(family, generator, tmp_path):
    theirs = theirs_of(family, generator)
    theirs.save_pretrained(tmp_path / "theirs")
    model = read_model(tmp_path / "theirs")
    assert layout_of(model.config)["name"] == {"gpt": "openai-gpt", "gpt2": "gpt2"}[family]
    (tmp_path / "ours").mkdir()
    write_model(tmp_path / "ours", model.config, parameters_of(model), task={}, recipe={}, metrics={})
    kind = transformers.GPT2LMHeadModel if family == "gpt2" else transformers.OpenAIGPTLMHeadModel
    again, told = kind.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    assert not told["mismatched_keys"]
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert read_model(tmp_path / "ours").config == model.config


def test_the_oldest_files_open_too(generator, tmp_path):
    """Without a prefix, with each block's causal mask, and with the table repeated as the output."""
    theirs = theirs_of("gpt2", generator)
    theirs.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in load_file(file).items()}
    for layer in range(3):
        tensors[f"h.{layer}.attn.bias"] = torch.ones(16, 16).tril().view(1, 1, 16, 16)
        tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    save_file(tensors, file, metadata={"format": "pt"})
    tokens = Tokens.pad([[1, 2, 3]])
    torch.testing.assert_close(read_model(tmp_path)(tokens), theirs(tokens.ids).logits, **CLOSE)
    tensors["lm_head.weight"] += 1
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"lm_head\.weight differs from transformer\.wte\.weight"):
        read_model(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"), [("scale_attn_by_inverse_layer_idx", True), ("activation_function", "tanh"), ("n_head", 5)]
)
def test_what_our_model_cannot_be_is_refused_by_name(key, value, generator, tmp_path):
    theirs_of("gpt2", generator).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {key: value}))
    with pytest.raises(InputError, match=key):
        read_model(tmp_path)


def test_a_missing_tensor_is_called_as_the_file_calls_it(generator, tmp_path):
    theirs_of("gpt2", generator).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["transformer.h.1.mlp.c_fc.bias"]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"transformer\.h\.1\.mlp\.c_fc\.bias"):
        read_model(tmp_path)


def test_a_gpt3_of_bands_keeps_our_layout_and_one_without_is_a_gpt2(tmp_path):
    sizes = {"vocabulary": 9, "width": 8, "heads": 2, "feedforward_width": 32, "layers": 2, "maximum_positions": 6}
    for band, layout in ((2, "regard"), (None, "gpt2")):
        model = GPT3(GPT3Config(band=band, **sizes)).eval()
        folder = tmp_path / layout
        folder.mkdir()
        write_model(folder, model.config, parameters_of(model), task={}, recipe={}, metrics={})
        assert layout_of(model.config)["name"] == layout
        again = read_model(folder)
        assert again.config == model.config
        tokens = Tokens.pad([[0, 4, 5, 6]])
        torch.testing.assert_close(again(tokens), model(tokens), rtol=0, atol=0)
    opened = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "gpt2").eval()
    torch.testing.assert_close(opened(tokens.ids).logits, model(tokens), **CLOSE)


def parameters(kind: type[Any], config: Any) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in kind(config).parameters())


@pytest.mark.parametrize(
    ("kind", "config", "count"),
    [
        (GPT, GPTConfig(), 116_534_784),
        (GPT2, GPT2Config.small(), 124_439_808),
        (GPT2, GPT2Config.medium(), 354_823_168),
        (GPT2, GPT2Config.large(), 774_030_080),
        (GPT2, GPT2Config.xl(), 1_557_611_200),
    ],
    ids=["gpt", "small", "medium", "large", "xl"],
)
def test_the_published_models_have_their_number_of_parameters(kind, config, count):
    assert parameters(kind, config) == count


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("125m", 125),
        ("350m", 356),
        ("760m", 760),
        pytest.param("1.3b", 1316, marks=pytest.mark.slow),
        pytest.param("2.7b", 2652, marks=pytest.mark.slow),
        pytest.param("6.7b", 6658, marks=pytest.mark.slow),
        pytest.param("13b", 12_853, marks=pytest.mark.slow),
        ("175b", 174_604),
    ],
)
def test_the_eight_gpt3_up_to_175_billion(name, millions):
    assert round(parameters(GPT3, GPT3Config.named(name)) / 1e6) == millions


@pytest.mark.parametrize("scaled", [False, True])
@every_family
def test_how_it_was_drawn_is_kept_beside_their_config(family, scaled, tmp_path):
    sizes = {"vocabulary": 9, "width": 8, "heads": 2, "feedforward_width": 32, "layers": 2, "maximum_positions": 6}
    config = {"gpt": GPTConfig, "gpt2": GPT2Config}[family](scaled_residuals=scaled, **sizes)
    model = {"gpt": GPT, "gpt2": GPT2}[family](config)
    write_model(tmp_path, config, parameters_of(model), task={}, recipe={}, metrics={})
    assert read_model(tmp_path).config == config


@pytest.mark.parametrize("penalty", [0.7, 1.2, 2.5])
def test_a_repetition_penalty_writes_what_theirs_writes(penalty, generator, tmp_path):
    """Their `generate`, one prompt at a time, since it counts padding among what was read."""
    theirs = theirs_of("gpt2", generator, n_positions=40)
    theirs.save_pretrained(tmp_path)
    prompts = Tokens.pad([[29, 3, 4, 5, 6], [29, 7], [29, 8, 9]], padding_id=29, side="left")
    settings = GenerationSettings(repetition_penalty=penalty, maximum_length=20)
    found = search(Continuation(read_model(tmp_path)), prompts, settings, before=prompts)
    for row, (best,) in enumerate(found):
        ids = prompts.ids[row][prompts.valid[row]][None]
        written = theirs.generate(
            ids, max_new_tokens=20, do_sample=False, repetition_penalty=penalty, attention_mask=torch.ones_like(ids)
        )
        expected = written[0, ids.shape[1] :].tolist()
        assert list(best.tokens) == [token for token in expected if token != 29]
        assert best.finished == (29 in expected)
