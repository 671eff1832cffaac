"""Hugging Face's GPT-NeoX beside ours, both ways, on odd sizes and parameters that were all drawn anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import regard
from regard.checkpoints import parameters_of, read_config, read_model, write_model
from regard.errors import InputError
from regard.generation import Continuation, GenerationSettings, search
from regard.layers import Tokens
from regard.models import GPTNeoX, GPTNeoXConfig

transformers = pytest.importorskip("transformers")

CASES: dict[str, dict[str, Any]] = {
    "a quarter of each head": {"hidden_size": 24, "num_attention_heads": 3},
    "one after another": {
        "hidden_size": 20,
        "num_attention_heads": 5,
        "use_parallel_residual": False,
        "rotary_pct": 1.0,
    },
    "no biases in attention": {"hidden_size": 28, "num_attention_heads": 2, "attention_bias": False, "rotary_pct": 0.6},
    "a tied output": {
        "hidden_size": 36,
        "num_attention_heads": 6,
        "tie_word_embeddings": True,
        "rotary_pct": 0.4,
        "hidden_act": "gelu_fast",
        "num_hidden_layers": 1,
    },
    "a linear scaling": {
        "hidden_size": 16,
        "num_attention_heads": 1,
        "vocab_size": 77,
        "layer_norm_eps": 0.1,
        "rope_parameters": {
            "rope_type": "linear",
            "factor": 2.5,
            "rope_theta": 50.0,
            "partial_rotary_factor": 0.5,
        },
    },
    "yarn": {
        "hidden_size": 42,
        "num_attention_heads": 3,
        "num_hidden_layers": 5,
        "use_parallel_residual": False,
        "attention_bias": False,
        "hidden_act": "relu",
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 16,
            "rope_theta": 100.0,
            "partial_rotary_factor": 0.75,
        },
    },
    "dynamic scaling": {
        "hidden_size": 32,
        "num_attention_heads": 2,
        "rotary_emb_base": 300,
        "rope_parameters": {"rope_type": "dynamic", "factor": 2.0},
    },
}
every_case = pytest.mark.parametrize("case", CASES)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def theirs_of(case: str, generator: torch.Generator) -> Any:
    sizes = {"vocab_size": 31, "num_hidden_layers": 3, "intermediate_size": 17, "max_position_embeddings": 64}
    made = transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**{**sizes, **CASES[case]}))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator) * 0.3
            parameter.copy_(1 + drawn if name.endswith("norm.weight") else drawn)
    return made.eval()


@every_case
def test_their_folder_gives_their_logits_with_padding_on_either_side(case, generator, tmp_path):
    theirs = theirs_of(case, generator)
    theirs.save_pretrained(tmp_path)
    model = read_model(tmp_path)
    assert type(model) is GPTNeoX
    rows = [torch.randint(31, (length,), generator=generator).tolist() for length in (9, 2, 6)]
    for side in ("right", "left"):
        tokens = Tokens.pad(rows, side=side)
        positions = (tokens.valid.long().cumsum(1) - 1).clamp_min(0)
        expected = theirs(tokens.ids, attention_mask=tokens.valid.long(), position_ids=positions).logits
        torch.testing.assert_close(model(tokens)[tokens.valid], expected[tokens.valid], **CLOSE)


@every_case
def test_our_folder_opens_there_with_the_same_tensors(case, generator, tmp_path):
    theirs = theirs_of(case, generator)
    theirs.save_pretrained(tmp_path / "theirs")
    model = read_model(tmp_path / "theirs")
    (tmp_path / "ours").mkdir()
    write_model(tmp_path / "ours", model.config, parameters_of(model), task={}, recipe={}, metrics={})
    again, told = transformers.GPTNeoXForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    assert not told["mismatched_keys"]
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    ids = torch.tensor([[3, 4, 5, 6, 7, 8]])
    # gelu_fast is written as gelu_new, which is the same function in another order of its products
    torch.testing.assert_close(again.eval()(ids).logits, theirs(ids).logits, **CLOSE)
    assert read_model(tmp_path / "ours").config == model.config
    names = [set(load_file(tmp_path / each / "model.safetensors")) for each in ("ours", "theirs")]
    assert names[0] == names[1]


@every_case
@pytest.mark.parametrize("beams", [1, 3])
def test_greedy_and_beam_search_write_what_theirs_write(case, beams, generator, tmp_path):
    theirs = theirs_of(case, generator)
    theirs.save_pretrained(tmp_path)
    model = read_model(tmp_path)
    end = model.config.end_id
    settings = GenerationSettings(
        maximum_length=12, beam=beams, length_penalty=1.0, length_normalisation="power", search_end="estimate"
    )
    for prompt in ([3, 9, 4, 11], [7], [8, 9, 1, 2, 20, 21, 22]):
        source = Tokens.pad([prompt])
        ((best, *_),) = search(Continuation(model), source, settings, before=source)
        written = theirs.generate(
            source.ids,
            attention_mask=torch.ones_like(source.ids),
            max_new_tokens=12,
            do_sample=False,
            num_beams=beams,
            eos_token_id=end,
            pad_token_id=model.config.padding_id,
            suppress_tokens=None if model.config.padding_id == end else [model.config.padding_id],
        )[0, len(prompt) :].tolist()
        expected = written[: written.index(end)] if end in written else written
        assert list(best.tokens) == expected


@pytest.mark.parametrize("case", ["a quarter of each head", "one after another"])
def test_weights_and_streams_seen_are_theirs(case, generator, tmp_path):
    theirs = theirs_of(case, generator)
    theirs.save_pretrained(tmp_path)
    theirs.set_attn_implementation("eager")
    model = read_model(tmp_path)
    tokens = Tokens.pad([[3, 9, 4, 11, 2, 6]])
    expected = theirs(tokens.ids, output_attentions=True, output_hidden_states=True)
    plain = model(tokens)
    with regard.look(model, hidden=["layers.*"]) as seen:
        assert torch.equal(model(tokens), plain)
    for layer, weights in enumerate(expected.attentions):
        torch.testing.assert_close(seen.weights(f"layers.{layer}.attention"), weights, rtol=0, atol=1e-6)
    for layer in range(2):  # their last one is after the last norm
        torch.testing.assert_close(seen.hidden(f"layers.{layer}"), expected.hidden_states[layer + 1], **CLOSE)


def test_bfloat16_is_as_near_to_float32_as_theirs(generator, tmp_path):
    theirs = theirs_of("a quarter of each head", generator)
    theirs.save_pretrained(tmp_path)
    model = read_model(tmp_path)
    ids = torch.randint(31, (1, 30), generator=generator)
    exact = theirs(ids).logits
    tokens = Tokens.pad(ids.tolist())
    off = (theirs.bfloat16()(ids).logits.float() - exact).abs().mean()
    ours = (model.bfloat16()(tokens).float() - exact).abs().mean()
    assert ours <= 1.5 * off


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "rope_type is 'longrope'"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "low": 1}}, "linear scaling has no setting low"),
        ({"rotary_pct": 0.3, "rope_parameters": None}, r"config.json.rotary_pct is 0.3 .* of the 12 channels"),
        ({"rotary_pct": 0.0, "rope_parameters": None}, "rotary_pct is 0"),
        ({"hidden_act": "tanh"}, "hidden_act"),
        ({"num_attention_heads": 7}, "num_attention_heads is 7"),
    ],
)
def test_what_our_model_cannot_be_is_refused_by_name(changes, message, generator, tmp_path):
    theirs_of("a linear scaling", generator).save_pretrained(tmp_path)
    changed(tmp_path, {"num_attention_heads": 2, "hidden_size": 24} | changes)
    with pytest.raises(InputError, match=message):
        read_config(tmp_path)


def changed(folder: Path, changes: dict[str, Any]) -> None:
    file = folder / "config.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values | changes))


def test_what_theirs_overlooks_is_overlooked_with_a_warning(generator, tmp_path):
    """Of a file of GPT-NeoX transformers reads the base and the share under its own names alone."""
    theirs_of("a quarter of each head", generator).save_pretrained(tmp_path)
    before = read_config(tmp_path)
    changed(tmp_path, {"rope_theta": 50.0, "partial_rotary_factor": 0.5})
    with pytest.warns(UserWarning, match="knows no partial_rotary_factor, rope_theta"):
        assert read_config(tmp_path) == before
    assert transformers.GPTNeoXConfig.from_pretrained(tmp_path).rope_parameters["partial_rotary_factor"] == 0.25


def test_files_before_version_5_have_other_names_masks_and_frequencies(generator, tmp_path):
    """As Pythia's: the output is embed_out, and the causal mask stands in the file of tensors."""
    theirs = theirs_of("yarn", generator)
    theirs.save_pretrained(tmp_path)
    today = read_model(tmp_path)
    file = tmp_path / "config.json"
    values = json.loads(file.read_text())
    said = values.pop("rope_parameters")
    values |= {"rotary_emb_base": int(said.pop("rope_theta")), "rotary_pct": said.pop("partial_rotary_factor")}
    said["type"] = said.pop("rope_type")
    file.write_text(json.dumps(values | {"rope_scaling": said, "attention_probs_dropout_prob": 0}))
    tensors = {name.replace("lm_head", "embed_out"): each for name, each in theirs.state_dict().items()}
    for layer in range(5):
        own = f"gpt_neox.layers.{layer}.attention."
        tensors[own + "bias"] = torch.ones(1, 1, 64, 64, dtype=torch.bool).tril()
        tensors[own + "masked_bias"] = torch.tensor(-1e9)
        tensors[own + "rotary_emb.inv_freq"] = torch.ones(5)
    save_file(tensors, tmp_path / "model.safetensors")
    model = read_model(tmp_path)
    assert model.config == today.config
    assert all(map(torch.equal, model.state_dict().values(), today.state_dict().values()))


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ((512, 8, 6, 50_304), 70_426_624),
        ((768, 12, 12, 50_304), 162_322_944),
        ((1024, 16, 24, 50_304), 405_334_016),
        ((2048, 8, 16, 50_304), 1_011_781_632),
        ((2048, 16, 24, 50_304), 1_414_647_808),
        ((2560, 32, 32, 50_304), 2_775_208_960),
        ((4096, 32, 32, 50_432), 6_857_302_016),
        ((5120, 40, 36, 50_688), 11_846_072_320),
        ((6144, 64, 44, 50_432), 20_554_567_680),
    ],
    ids=[*(f"pythia-{size}" for size in ("70m", "160m", "410m", "1b", "1.4b", "2.8b", "6.9b", "12b")), "20b"],
)
def test_the_published_models_have_their_number_of_parameters(sizes, count):
    width, heads, layers, vocabulary = sizes
    with torch.device("meta"):
        model: nn.Module = GPTNeoX(
            GPTNeoXConfig(vocabulary=vocabulary, width=width, heads=heads, layers=layers, feedforward_width=4 * width)
        )
    assert sum(parameter.numel() for parameter in model.parameters()) == count
