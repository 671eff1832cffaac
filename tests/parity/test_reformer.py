"""Hugging Face's Reformer beside ours, both ways, on parameters that were all drawn anew and with the same hashes."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.checkpoints import layout_of, parameters_of, read_model, write_model
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import Reformer, ReformerConfig

transformers = pytest.importorskip("transformers")

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
SIZES = {
    "vocab_size": 30,
    "hidden_size": 24,
    "num_attention_heads": 3,
    "attention_head_size": 5,
    "feed_forward_size": 40,
    "attn_layers": ["local", "lsh", "lsh"],
    "max_position_embeddings": 160,
    "axial_pos_shape": [16, 10],
    "axial_pos_embds_dim": [8, 16],
    "lsh_attn_chunk_length": 16,
    "local_attn_chunk_length": 16,
    "num_hashes": 2,
    "num_buckets": 8,
    "hash_seed": 7,
    "is_decoder": True,
}


def theirs_of(generator, *, bias=False, **changes):
    model = transformers.ReformerModelWithLMHead(transformers.ReformerConfig(**(SIZES | changes)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
        if not bias:
            model.lm_head.bias.zero_()
        # At -100000 their float32 rounds the first token's softmax by a half percent; at -1000 nothing else is different.
        for name, buffer in model.named_buffers():
            if name.endswith("self_mask_value_float32"):
                buffer.fill_(-1e3)
    return model.eval()


def texts(length: int, generator) -> Tokens:
    ids = torch.randint(0, 30, (2, length), generator=generator)
    return Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere")


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        ({}, 16),
        ({}, 64),
        ({"num_hashes": 1}, 48),
        ({"num_hashes": 3, "num_buckets": [4, 4]}, 80),
        ({"num_hashes": 4, "lsh_num_chunks_before": 2}, 160),
        ({"attn_layers": ["lsh"], "hidden_act": "gelu"}, 96),
        ({"attn_layers": ["local", "local"], "local_num_chunks_before": 0}, 64),
        ({"axial_pos_embds": False}, 32),
    ],
)
def test_their_folder_gives_their_logits(changes, length, generator, tmp_path):
    theirs = theirs_of(generator, **changes)
    theirs.save_pretrained(tmp_path)
    model = read_model(tmp_path)
    assert isinstance(model, Reformer)
    tokens = texts(length, generator)
    with torch.no_grad():
        state = torch.get_rng_state()
        expected = theirs(tokens.ids, use_cache=False).logits
        torch.set_rng_state(state)  # they seed the generator of everybody
        found = model(tokens)
    torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        # A local chunk that does not divide the hashed one: texts are filled to a multiple of both.
        *(({"local_attn_chunk_length": 6, "lsh_attn_chunk_length": 4}, length) for length in (4, 5, 6, 12, 17, 24, 50)),
        *(({"local_attn_chunk_length": 4, "lsh_attn_chunk_length": 6}, length) for length in (3, 5, 6, 7, 12, 31)),
        ({"local_attn_chunk_length": 6, "lsh_attn_chunk_length": 4, "num_hashes": 1, "lsh_num_chunks_before": 0}, 31),
        ({"local_attn_chunk_length": 5, "lsh_attn_chunk_length": 16}, 40),
        # So many chunks before that they reach into other rounds, or round the whole ring.
        *(({"lsh_num_chunks_before": 2, "num_hashes": rounds}, 32) for rounds in (1, 2, 3)),
        *(({"lsh_num_chunks_before": before}, 48) for before in (3, 5, 6, 7, 8)),
        ({"lsh_num_chunks_before": 3, "num_hashes": 1}, 20),
        ({"local_num_chunks_before": 2}, 32),
        ({"local_num_chunks_before": 3, "local_attn_chunk_length": 4}, 21),
        ({"local_num_chunks_before": 4, "local_attn_chunk_length": 8}, 16),
    ],
)
def test_chunks_of_every_kind_are_theirs(changes, length, generator, tmp_path):
    theirs = theirs_of(generator, **changes)
    theirs.save_pretrained(tmp_path / "theirs")
    model = read_model(tmp_path / "theirs")
    (tmp_path / "ours").mkdir()
    write_model(tmp_path / "ours", model.config, parameters_of(model), task={}, recipe={}, metrics={})
    tokens = texts(length, generator)
    with torch.no_grad():
        state = torch.get_rng_state()
        expected = theirs(tokens.ids, use_cache=False).logits
        torch.set_rng_state(state)
        torch.testing.assert_close(model(tokens), expected, **CLOSE)
    written = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert {key: written[key] for key in changes} == changes


def test_padding_at_the_end_is_theirs_too(generator, tmp_path):
    theirs = theirs_of(generator, num_hashes=1)
    theirs.save_pretrained(tmp_path)
    tokens = texts(64, generator)
    valid = tokens.valid.clone()
    valid[0, 50:] = False
    padded = Tokens(tokens.ids, valid, "right")
    with torch.no_grad():
        expected = theirs(tokens.ids, attention_mask=valid.long(), use_cache=False).logits
        torch.testing.assert_close(read_model(tmp_path)(padded)[valid], expected[valid], **CLOSE)


def test_our_folder_opens_there_with_nothing_missing(generator, tmp_path):
    theirs = theirs_of(generator)
    theirs.save_pretrained(tmp_path / "theirs")
    model = read_model(tmp_path / "theirs")
    assert layout_of(model.config)["name"] == "reformer"
    (tmp_path / "ours").mkdir()
    write_model(tmp_path / "ours", model.config, parameters_of(model), task={}, recipe={}, metrics={})
    again, told = transformers.ReformerModelWithLMHead.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    assert not told["mismatched_keys"]
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert read_model(tmp_path / "ours").config == model.config


def test_a_bias_of_the_output_is_kept(generator, tmp_path):
    theirs_of(generator, bias=True).save_pretrained(tmp_path)
    model = read_model(tmp_path)
    assert model.config.output_bias
    assert torch.equal(model.output.bias, load_file(tmp_path / "model.safetensors")["lm_head.bias"])


def test_usual_buckets_are_written_as_numbers_and_read_as_usual(tmp_path):
    model = Reformer(
        ReformerConfig(vocabulary=9, width=8, heads=2, head_width=4, layers=("lsh",), maximum_positions=512)
    )
    write_model(tmp_path, model.config, parameters_of(model), task={}, recipe={}, metrics={})
    assert json.loads((tmp_path / "config.json").read_text())["num_buckets"] == 16
    assert read_model(tmp_path).config == model.config


def test_sets_of_buckets_keep_our_layout(tmp_path):
    sizes = {"vocabulary": 9, "width": 8, "heads": 2, "head_width": 4, "layers": ("lsh",), "maximum_positions": 64}
    model = Reformer(ReformerConfig(**sizes, sets="bucket"))
    write_model(tmp_path, model.config, parameters_of(model), task={}, recipe={}, metrics={})
    assert layout_of(model.config)["name"] == "regard"
    assert read_model(tmp_path).config == model.config


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("is_decoder", False),
        ("lsh_num_chunks_after", 1),
        ("local_num_chunks_after", 1),
        ("lsh_num_chunks_before", -1),
        ("local_num_chunks_before", -1),
        ("hidden_act", "tanh"),
        ("num_buckets", 7),
        ("num_buckets", None),
        ("axial_pos_shape", [8, 8]),
    ],
)
def test_what_our_model_cannot_be_is_refused_by_name(key, value, generator, tmp_path):
    theirs_of(generator).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {key: value}))
    with pytest.raises(InputError, match=key):
        read_model(tmp_path)


def test_a_missing_tensor_is_called_as_the_file_calls_it(generator, tmp_path):
    theirs_of(generator).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["reformer.encoder.layers.1.attention.self_attention.query_key.weight"]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"layers\.1\.attention\.self_attention\.query_key\.weight"):
        read_model(tmp_path)
