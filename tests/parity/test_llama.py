"""Hugging Face's Llama, Mistral, Qwen2 and Qwen3 beside ours, both ways, on odd sizes and parameters that were all drawn anew."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.checkpoints import layout_of, parameters_of, read_config, read_model, write_model
from regard.errors import InputError
from regard.generation import Continuation, GenerationSettings, search
from regard.layers import Tokens
from regard.models import Llama, LlamaClassifier, LlamaConfig

transformers = pytest.importorskip("transformers")

CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
SIZES: list[dict[str, Any]] = [
    {"hidden_size": 12, "num_attention_heads": 3, "num_key_value_heads": 1},
    {
        "hidden_size": 20,
        "num_attention_heads": 5,
        "num_key_value_heads": 5,
        "intermediate_size": 7,
        "hidden_act": "gelu",
    },
    {"hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2, "tie_word_embeddings": True},
    {
        "hidden_size": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 1,
        "rms_norm_eps": 1e-3,
    },
    {"hidden_size": 28, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 5},
    {"hidden_size": 36, "num_attention_heads": 6, "num_key_value_heads": 3, "vocab_size": 77},
]
OWN: dict[str, list[dict[str, Any]]] = {
    "llama": [
        {"attention_bias": True},
        {"mlp_bias": True, "head_dim": 10},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.5, "rope_theta": 500.0}},
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
                "rope_theta": 500.0,
            },
            "max_position_embeddings": 128,
        },
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 16,
                "rope_theta": 100.0,
            },
            "max_position_embeddings": 64,
        },
        {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}},
    ],
    "mistral": [
        {"sliding_window": 3},
        {"sliding_window": None},
        {"sliding_window": 2, "attention_dropout": 0.1},
        {"sliding_window": 40, "head_dim": 6},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}, "sliding_window": 2},
        {"pad_token_id": 5, "eos_token_id": 3, "sliding_window": 4},
    ],
    "qwen2": [
        {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1},
        {},
        {"use_sliding_window": True, "sliding_window": 2, "max_window_layers": 0},
        {"use_sliding_window": True, "sliding_window": 2, "max_window_layers": 28},
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": 2.0,
                "original_max_position_embeddings": 32,
                "rope_theta": 1e6,
                "attention_factor": 1.3,
                "beta_fast": 4.0,
                "beta_slow": 0.5,
                "truncate": False,
            }
        },
        {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "use_sliding_window": True},
    ],
    "qwen3": [
        {"head_dim": 6},
        {"head_dim": 4, "attention_bias": True},
        {"head_dim": 8, "use_sliding_window": True, "sliding_window": 2, "max_window_layers": 2},
        {"head_dim": 2},
        {"head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        {"head_dim": 10, "num_key_value_heads": 6},
    ],
}
CASES = [(kind, number) for kind, number in itertools.product(CLASSES, range(6))]
every_case = pytest.mark.parametrize(("kind", "number"), CASES)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def theirs_of(kind: str, number: int, generator: torch.Generator, family: str = "", **more: Any) -> Any:
    sizes = {"vocab_size": 31, "num_hidden_layers": 3, "intermediate_size": 17, "max_position_embeddings": 64}
    model = getattr(transformers, family or CLASSES[kind])
    config = model.config_class(**{**sizes, **SIZES[number], **OWN[kind][number], **more})
    made = model(config)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator) * 0.3
            parameter.copy_(1 + drawn if "norm" in name else drawn)
    return made.eval()


@every_case
def test_their_folder_gives_their_logits_with_padding_on_either_side(kind, number, generator, tmp_path):
    theirs = theirs_of(kind, number, generator)
    theirs.save_pretrained(tmp_path)
    model = read_model(tmp_path)
    assert type(model) is Llama
    rows = [torch.randint(31, (length,), generator=generator).tolist() for length in (9, 2, 6)]
    for side in ("right", "left"):
        tokens = Tokens.pad(rows, side=side)
        positions = (tokens.valid.long().cumsum(1) - 1).clamp_min(0)
        expected = theirs(tokens.ids, attention_mask=tokens.valid.long(), position_ids=positions).logits
        torch.testing.assert_close(model(tokens)[tokens.valid], expected[tokens.valid], **CLOSE)


@every_case
def test_our_folder_opens_there_with_the_same_tensors(kind, number, generator, tmp_path):
    theirs = theirs_of(kind, number, generator)
    theirs.save_pretrained(tmp_path / "theirs")
    model = read_model(tmp_path / "theirs")
    (tmp_path / "ours").mkdir()
    write_model(tmp_path / "ours", model.config, parameters_of(model), task={}, recipe={}, metrics={})
    written = json.loads((tmp_path / "ours" / "config.json").read_text())["model_type"]
    assert written == layout_of(model.config)["name"]
    # A Mistral without a window is a Llama in every number, and a Qwen2 or Qwen3 is written as itself.
    assert written == ("llama" if (kind, number) == ("mistral", 1) else kind)
    again, told = getattr(transformers, CLASSES[written]).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    assert not told["mismatched_keys"]
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    ids = torch.tensor([[3, 4, 5, 6, 7, 8]])
    torch.testing.assert_close(again.eval()(ids).logits, theirs(ids).logits, rtol=0, atol=0)
    assert read_model(tmp_path / "ours").config == model.config


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize(
    ("number", "beams"),
    [
        pytest.param(number, beams, marks=[] if (number, beams) in ((0, 1), (1, 3), (4, 1)) else [pytest.mark.slow])
        for number, beams in itertools.product(range(6), (1, 3))
    ],
)
def test_greedy_and_beam_search_write_what_theirs_write(kind, number, beams, generator, tmp_path):
    theirs = theirs_of(kind, number, generator)
    theirs.save_pretrained(tmp_path)
    model = read_model(tmp_path)
    end = model.config.end_id
    prompts = [[3, 9, 4, 11], [7], [8, 9, 1, 2, 20, 21, 22]]
    settings = GenerationSettings(
        maximum_length=12, beam=beams, length_penalty=1.0, length_normalisation="power", search_end="estimate"
    )
    for prompt in prompts:
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


@every_case
def test_their_classifiers_give_their_logits_and_are_written_back(kind, number, generator, tmp_path):
    """Of the last token that is no padding, on whichever side padding stands."""
    family = CLASSES[kind].replace("ForCausalLM", "ForSequenceClassification")
    made = theirs_of(kind, number, generator, family, num_labels=3, pad_token_id=30)
    made.save_pretrained(tmp_path / "theirs")
    model = read_model(tmp_path / "theirs")
    assert type(model) is LlamaClassifier
    model.double()  # rounding to float32 moves the logits of some of these by more than what is allowed
    made.double()
    rows = [torch.randint(30, (length,), generator=generator).tolist() for length in (9, 2, 6)]
    for side in ("right", "left"):
        tokens = Tokens.pad(rows, side=side, padding_id=30)
        positions = (tokens.valid.long().cumsum(1) - 1).clamp_min(0)
        expected = made(tokens.ids, attention_mask=tokens.valid.long(), position_ids=positions).logits
        torch.testing.assert_close(model(tokens).logits, expected, **CLOSE)
    model.float()
    made.float()
    (tmp_path / "ours").mkdir()
    write_model(tmp_path / "ours", model.config, parameters_of(model), task={}, recipe={}, metrics={})
    again, told = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(told[each] for each in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert again.state_dict().keys() == made.state_dict().keys()
    assert all(torch.equal(tensor, made.state_dict()[name]) for name, tensor in again.state_dict().items())
    assert read_model(tmp_path / "ours").config == model.config


class Operations(TorchDispatchMode):
    """Names and shapes of all that is computed, views left out."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[tuple[int, ...]]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = func(*args, **kwargs or {})
        if not func.is_view:
            shapes = [tuple(part.shape) for part in (*args, given) if isinstance(part, torch.Tensor)]
            self.seen.append((str(func), shapes))
        return given


@every_case
def test_weights_seen_are_those_of_their_eager_attention(kind, number, generator, tmp_path):
    """Of a whole text, and of its last token alone, read from the state after the others."""
    theirs = theirs_of(kind, number, generator)
    theirs.save_pretrained(tmp_path)
    theirs.set_attn_implementation("eager")
    model = read_model(tmp_path)
    tokens = Tokens.pad([[3, 9, 4, 11, 2, 6]])
    expected = theirs(tokens.ids, output_attentions=True).attentions
    before = Tokens.pad([[3, 9, 4, 11, 2]])
    with torch.no_grad():
        with Operations() as unlooked:
            plain = model(tokens)
        state = model.prefill(before, model.start(1))
        step = model.step(torch.tensor([6]), state)[0]
        with regard.look(model) as seen, Operations() as looked:
            assert torch.equal(model(tokens), plain)
        with regard.look(model) as last:
            assert torch.equal(model.step(torch.tensor([6]), state)[0], step)
    # Looking computes nothing beside: the weights wait until they are read.
    assert looked.seen[: len(unlooked.seen)] == unlooked.seen
    assert len(looked.seen) == len(unlooked.seen) + 1  # `torch.equal` itself
    close = {"rtol": 1e-5, "atol": 1e-6}  # after several layers queries and keys differ by rounding
    for layer, weights in enumerate(expected):
        found = seen.weights(f"layers.{layer}.attention")
        torch.testing.assert_close(found, weights, **close)
        found = last.weights(f"layers.{layer}.attention")
        torch.testing.assert_close(found, weights[:, :, -1:], **close)


def test_bfloat16_is_as_near_to_float32_as_theirs(generator, tmp_path):
    theirs = theirs_of("llama", 0, generator)
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
        ({"rope_scaling": {"rope_type": "linear", "factor": 0.5}}, "factor is 0.5"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5"),
        ({"hidden_act": "tanh"}, "hidden_act"),
        ({"num_key_value_heads": 2}, "num_key_value_heads is 2"),
    ],
)
def test_what_our_model_cannot_be_is_refused_by_name(changes, message, generator, tmp_path):
    theirs_of("llama", 0, generator).save_pretrained(tmp_path)
    changed(tmp_path, changes)
    with pytest.raises(InputError, match=message):
        read_model(tmp_path)


def test_windows_in_any_order_of_blocks_are_refused(generator, tmp_path):
    theirs_of("qwen2", 0, generator).save_pretrained(tmp_path)
    changed(tmp_path, {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})
    with pytest.raises(InputError, match="layer_types"):
        read_model(tmp_path)


def changed(folder: Path, changes: dict[str, Any]) -> None:
    file = folder / "config.json"
    values = json.loads(file.read_text())
    if "rope_scaling" in changes or "partial_rotary_factor" in changes:
        values.pop("rope_parameters", None)
    file.write_text(json.dumps(values | changes))


def test_files_before_version_5_say_the_rotation_apart(generator, tmp_path):
    theirs_of("llama", 3, generator).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    values = json.loads(file.read_text())
    today = read_config(tmp_path)
    said = values.pop("rope_parameters")
    values["rope_theta"] = said.pop("rope_theta")
    said["type"] = said.pop("rope_type")
    file.write_text(json.dumps(values | {"rope_scaling": said}))
    assert read_config(tmp_path) == today


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (LlamaConfig(key_heads=3), 134_515_008),  # SmolLM2-135M
        (
            LlamaConfig(vocabulary=128_256, width=2048, heads=32, key_heads=8, feedforward_width=8192, layers=16),
            1_235_814_400,  # Llama 3.2 1B
        ),
        (
            LlamaConfig(
                vocabulary=32_000,
                width=4096,
                heads=32,
                key_heads=8,
                feedforward_width=14_336,
                layers=32,
                tied_output=False,
            ),
            7_241_732_096,  # Mistral 7B
        ),
        (
            LlamaConfig(
                vocabulary=151_936,
                width=896,
                heads=14,
                key_heads=2,
                feedforward_width=4864,
                layers=24,
                attention_bias=True,
            ),
            494_032_768,  # Qwen2 0.5B
        ),
        (
            LlamaConfig(
                vocabulary=151_936,
                width=1024,
                heads=16,
                key_heads=8,
                head_width=128,
                feedforward_width=3072,
                layers=28,
                query_key_norm=True,
            ),
            596_049_920,  # Qwen3 0.6B
        ),
    ],
    ids=["smollm2-135m", "llama-3.2-1b", "mistral-7b", "qwen2-0.5b", "qwen3-0.6b"],
)
def test_the_published_models_have_their_number_of_parameters(config, count):
    with torch.device("meta"):
        model: nn.Module = Llama(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == count
