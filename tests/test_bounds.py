"""Sizes that no machine has are refused in a sentence, at once and before any memory is taken."""

from __future__ import annotations

import json
import time

import pytest

import regard
from regard.checkpoints import folder
from regard.data.dates import Dates
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.models import GPT2Config, ViTConfig
from regard.models.config import check_memory


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"layers": 10**9}, "layers is 1000000000 but must be at most 1,000"),
        ({"vocabulary": 2**31}, "vocabulary is 2147483648 but must be at most 16,777,216"),
        ({"width": 10**12}, "width is 1000000000000 but must be at most"),
    ],
)
def test_a_config_has_bounds(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        GPT2Config(**{"vocabulary": 9, "width": 8, "heads": 2, "layers": 1} | changes)


def test_sides_of_images_have_bounds_too():
    sizes = {"image_width": 8, "image_channels": 1, "outputs": 3, "patch": 4, "width": 8, "heads": 2, "layers": 1}
    with pytest.raises(InputError, match="image_height is 1099511627776 but must be at most 16,777,216"):
        ViTConfig(image_height=2**40, **sizes)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"beam": 10**9}, "generation.beam: 1000000000 will not do; give a whole number of at most 1000"),
        ({"n_best": 10**9, "sample": True}, "generation.n_best: .* at most 1000"),
        ({"seed": 2**64}, "generation.seed: 18446744073709551616 will not do; .* at most 9223372036854775807"),
    ],
)
def test_decoding_has_bounds(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        GenerationSettings(**settings)


def test_builtin_data_has_bounds():
    with pytest.raises(InputError, match="size is 1000000000000, and at most 100,000,000 are made"):
        Dates("train", size=10**12)


def recipe(**model):
    return {
        "model": {"name": "transformer", "width": 16, "heads": 2, "feedforward_width": 16, "encoder_layers": 1}
        | {"decoder_layers": 1}
        | model,
        "data": {"dates": {"size": 60, "validation_size": 10, "languages": ["en"]}},
        "tokenizer": {"kind": "character", "size": 200},
        "training": {"steps": 1, "precision": "float32"},
    }


def test_a_model_larger_than_memory_is_refused_before_it_is_made(tmp_path):
    began = time.process_time()
    with pytest.raises(InputError, match=r"model: [\d,]+ parameters take [\d,.]+ GiB and this machine has"):
        regard.train(recipe(width=1 << 20, feedforward_width=1 << 20), output=tmp_path / "run")
    assert time.process_time() - began < 20


def test_memory_is_asked_for_without_drawing_a_number():
    import torch

    torch.manual_seed(3)
    from regard.models import GPT2

    state = torch.get_rng_state()
    check_memory(GPT2, GPT2Config(vocabulary=9, width=8, heads=2, layers=1))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_config_of_other_sizes_than_the_weights_is_refused_before_it_takes_memory(tmp_path, monkeypatch):
    trained = regard.train(recipe(), output=tmp_path / "run").load()
    trained.save(tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    values = json.loads(file.read_text())
    monkeypatch.setattr(folder, "read_tensors", lambda *_: pytest.fail("the header says enough"))
    for key, size in (("d_model", 1 << 20), ("encoder_layers", 900), ("encoder_ffn_dim", 1 << 22)):
        file.write_text(json.dumps(values | {key: size}))
        began = time.process_time()
        with pytest.raises(InputError):
            regard.load(tmp_path / "model")
        assert time.process_time() - began < 10, key
