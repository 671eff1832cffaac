"""Open folders: what their config cannot say, and one sentence for whatever is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.checkpoints import read_card
from regard.errors import InputError

pytest.importorskip("transformers")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"positions": "learned"}, "positions is learned and not sinusoidal"),
        ({"positions": "none"}, "positions is none"),
        ({"scale_power": 0.0}, "scale_power is 0 and not 0.5"),
        ({"norm_epsilon": 1e-6}, "norm_epsilon is 1e-06 and not 1e-05"),
        ({"sharing": "target"}, "sharing is target and not all"),
        ({"start_id": 1}, "does not start with the padding token"),
    ],
)
def test_what_their_config_cannot_say_keeps_our_layout_and_says_why(changes, why, exported, tmp_path):
    ours = exported("post", **changes)
    ours.save(tmp_path / "model")
    layout = read_card(tmp_path / "model").layout
    assert layout["name"] == "regard"
    assert why in layout["why"]
    assert why in (tmp_path / "model" / "README.md").read_text()
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model_type"] == "transformer"
    assert not (tmp_path / "model" / "tokenizer_config.json").exists()
    assert regard.load(tmp_path / "model").model.config == ours.model.config


REFUSALS = {
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), ("tokenizer.json: no such file", "SentencePiece")),
    "truncated": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-9]),
        ("model.safetensors", "truncated or damaged"),
    ),
    "missing tensor": (
        lambda f: change_tensors(f, lambda t: t.pop("model.encoder.layers.0.fc1.bias")),
        ("model.safetensors: missing model.encoder.layers.0.fc1.bias",),
    ),
    "extra tensor": (
        lambda f: change_tensors(f, lambda t: t.update({"adapter.weight": torch.zeros(2)})),
        ("model.safetensors: not known adapter.weight",),
    ),
    "another shape": (
        lambda f: change_tensors(f, lambda t: t.update({"model.encoder.layers.0.fc1.bias": torch.zeros(9)})),
        ("model.safetensors: model.encoder.layers.0.fc1.bias is (9,) where (10,) is wanted",),
    ),
    "another bias shape": (
        lambda f: change_tensors(f, lambda t: t.update({"final_logits_bias": torch.zeros(1, 3)})),
        ("model.safetensors: final_logits_bias is (1, 3)",),
    ),
    "no table": (
        lambda f: change_tensors(f, lambda t: t.pop("model.shared.weight")),
        ("model.safetensors: missing model.shared.weight",),
    ),
    "other positions": (
        lambda f: change_tensors(f, lambda t: t.update({"model.encoder.embed_positions.weight": torch.zeros(40, 12)})),
        ("model.safetensors: model.encoder.embed_positions.weight is not sinusoids",),
    ),
    "untied output": (
        lambda f: change_tensors(f, lambda t: t.update({"lm_head.weight": t["model.shared.weight"] + 1})),
        ("model.safetensors: lm_head.weight differs from model.shared.weight",),
    ),
    "missing key": (lambda f: change_config(f, d_model=None), ("config.json", "missing d_model")),
    "another type": (lambda f: change_config(f, encoder_layers="two"), ("config.json.encoder_layers is 'two'",)),
    "another width": (lambda f: change_config(f, d_model=24), ("model.safetensors", "(12,) where (24,) is wanted")),
    "odd heads": (
        lambda f: change_config(f, encoder_attention_heads=5, decoder_attention_heads=5),
        ("config.json.encoder_attention_heads is 5",),
    ),
    "heads that differ": (
        lambda f: change_config(f, decoder_attention_heads=6),
        ("config.json.decoder_attention_heads is 6", "needs them equal"),
    ),
    "unscaled": (lambda f: change_config(f, scale_embedding=False), ("config.json.scale_embedding is False",)),
    "unknown activation": (
        lambda f: change_config(f, activation_function="tanh"),
        ("config.json.activation_function is 'tanh'", "relu"),
    ),
    "another family": (lambda f: change_config(f, model_type="marjan"), ("model_type is 'marjan'", "marian")),
    "another start": (
        lambda f: change_config(f, decoder_start_token_id=0),
        ("tokenizer.json: <pad> has the id", "decoder_start_token_id is 0"),
    ),
    "strange decoding": (
        lambda f: (f / "generation_config.json").write_text('{"num_beams": "many"}'),
        ("generation_config.json: cannot be used",),
    ),
}


def change_tensors(folder: Path, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def change_config(folder: Path, **changes: Any) -> None:
    values = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(
        json.dumps({k: v for k, v in values.items() if k != "d_model" or v is not None})
    )


@pytest.mark.parametrize("name", REFUSALS)
def test_a_folder_of_theirs_that_cannot_be_used_is_one_sentence(name, made_elsewhere):
    folder, _ = made_elsewhere("pegasus")
    damage, words = REFUSALS[name]
    damage(folder)
    with pytest.raises(InputError) as caught:
        regard.load(folder)
    message = str(caught.value)
    assert str(folder) in message
    assert "\n" not in message
    for word in words:
        assert word in message


OWN_DAMAGES = {
    "tampered": (
        lambda f: change_tensors(f, lambda t: t["model.decoder.layers.0.fc2.weight"].add_(1e-3)),
        "model.decoder.layers.0.fc2.weight is not what was saved",
    ),
    "a bias that is none": (
        lambda f: (
            change_tensors(f, lambda t: t["model.decoder.layers.0.self_attn.k_proj.bias"].add_(1)),
            forget_digests(f),
        ),
        "model.decoder.layers.0.self_attn.k_proj.bias is not zero",
    ),
    "missing": (
        lambda f: change_tensors(f, lambda t: t.pop("model.decoder.layers.0.fc2.weight")),
        "missing model.decoder.layers.0.fc2.weight",
    ),
    "an unknown key beside": (
        lambda f: change_card(f, lambda card: card["layout"]["unsaid"].update(atention_bias=True)),
        "unknown key 'atention_bias'",
    ),
}


def forget_digests(folder: Path) -> None:
    change_card(folder, lambda card: card.update(digests={}))


def change_card(folder: Path, change) -> None:
    card = json.loads((folder / "regard.json").read_text())
    change(card)
    (folder / "regard.json").write_text(json.dumps(card))


@pytest.mark.parametrize("name", OWN_DAMAGES)
def test_damage_to_a_folder_of_ours_names_their_tensor(name, exported, tmp_path):
    exported("post").save(tmp_path / "model")
    damage, words = OWN_DAMAGES[name]
    damage(tmp_path / "model")
    with pytest.raises(InputError) as caught:
        regard.load(tmp_path / "model")
    assert words in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_without_our_card_it_is_a_folder_like_any_other_of_theirs(exported, tmp_path, batch):
    ours = exported("post")
    ours.save(tmp_path / "model")
    (tmp_path / "model" / "regard.json").unlink()
    loaded = regard.load(tmp_path / "model")
    assert loaded.model.config.attention_bias, "nothing says that the zero biases were not trained"
    assert loaded.model.config.output_bias == "padding"
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(*batch), ours.model(*batch), rtol=1e-5, atol=1e-6)
