"""The machinery of the tables: a new layout is one table, and no field of either side is dropped in silence."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import torch

from regard.checkpoints import layout_of, parameters_of, read_model, write_model
from regard.checkpoints import layouts as formats
from regard.checkpoints.hf_format import IGNORED, HFFormat, HFTensor
from regard.checkpoints.layouts import FORMATS, format_of, hf_format
from regard.errors import InputError
from regard.models import MODELS, GPT2Config, TransformerConfig

MOCK = HFFormat(
    model_type="mock",
    title="Mock",
    configs=(GPT2Config,),
    architecture="MockForCausalLM",
    fields={
        "vocabulary": "V",
        "width": "D",
        "heads": "H",
        "layers": "N",
        "feedforward_width": "F",
        "activation": "act",
    },
    must_be={"parallel_residual": False},
    tensors={
        "embedding.{*}": "emb.{*}",
        "layers.{i}.attention.{query,key,value}.{*}": HFTensor("blk.{i}.qkv.{*}", transposed=True),
        "layers.{i}.{*}": "blk.{i}.{*}",
        "norm.{*}": "out.{*}",
    },
)
"""A layout of nobody's: a table of ten lines, and the machinery reads and writes it."""

SIZES: dict[str, Any] = {"vocabulary": 11, "width": 8, "heads": 2, "layers": 2, "feedforward_width": 12}


@pytest.fixture
def mock(monkeypatch):
    """`MOCK` among the formats, GPT-2 written as it."""
    monkeypatch.setattr(formats, "FORMATS", {**FORMATS, "mock": "mock"})
    monkeypatch.setattr(formats, "hf_format", lambda name: MOCK if name == "mock" else hf_format(name))
    monkeypatch.setattr(formats, "FAMILIES", {"gpt2": ("mock",)})
    monkeypatch.setattr("regard.checkpoints.folder.FORMATS", formats.FORMATS)
    monkeypatch.setattr("regard.checkpoints.folder.hf_format", formats.hf_format)


def test_a_new_layout_is_one_table(mock, tmp_path):
    torch.manual_seed(0)
    config = GPT2Config(**SIZES, maximum_positions=1024)
    model = MODELS["gpt2"].model(config)
    write_model(tmp_path, config, parameters_of(model), task={}, recipe={}, metrics={})
    values = json.loads((tmp_path / "config.json").read_text())
    assert (values["model_type"], values["V"], values["act"]) == ("mock", 11, "gelu_new")
    stored = formats.hf_format("mock").tensors_to_hf(config, parameters_of(model))
    assert stored["blk.1.qkv.weight"].shape == (8, 24)
    back = read_model(tmp_path)
    assert back.config == config
    own = parameters_of(model)
    assert all(torch.equal(tensor, own[name]) for name, tensor in parameters_of(back).items())


def test_a_new_layouts_field_is_followed_refused_or_reported(mock, tmp_path):
    config = GPT2Config(**SIZES, maximum_positions=1024)
    write_model(tmp_path, config, parameters_of(MODELS["gpt2"].model(config)), task={}, recipe={}, metrics={})
    file = tmp_path / "config.json"
    values = json.loads(file.read_text())
    for changes, message in (
        ({"parallel_residual": True}, r"config\.json\.parallel_residual is True; Regard's Mock needs False"),
        ({"act": "tanh"}, r"config\.json\.act is 'tanh'; it must be one of gelu, gelu_new"),
        ({"H": 3}, r"config\.json\.H is 3 but must be a divisor of width 8"),
        ({"N": 3}, r"missing blk\.2\."),
    ):
        file.write_text(json.dumps(values | changes))
        with pytest.raises(InputError, match=message):
            read_model(tmp_path)
    file.write_text(json.dumps(values | {"rope_theta": 10000, "nothing": None, "temperature": 0.5}))
    with pytest.warns(UserWarning, match=r"config\.json: Regard's Mock knows no rope_theta, and reads") as told:
        read_model(tmp_path)
    assert len(told) == 1


@pytest.mark.parametrize("name", FORMATS)
def test_no_field_of_our_configs_is_dropped_in_silence(name):
    table = hf_format(name)
    kept = {part.name for part in dataclasses.fields(table.extra)}
    for config in table.configs:
        ours = {part.name for part in dataclasses.fields(config)}
        said = {*table.fields, *table.special_fields, *table.implied, *table.unwritten, *kept}
        assert not ours - said, "written nowhere"
        assert not {*table.fields, *table.special_fields, *table.unwritten} - {
            part.name for each in table.configs for part in dataclasses.fields(each)
        }, "no field of ours"


@pytest.mark.parametrize("name", FORMATS)
def test_a_table_says_each_thing_once(name):
    table = hf_format(name)
    assert table.model_type == name
    assert not set(table.fields) & set(table.implied)
    assert all(IGNORED.values())
    assert all(table.ignored.values())


def test_the_nearest_layout_says_why_it_cannot_be():
    sizes: dict[str, Any] = {
        "source_vocabulary": 9,
        "target_vocabulary": 9,
        "padding_id": 8,
        "start_id": 8,
        "end_id": 0,
    }
    kinds: tuple[tuple[Any, str], ...] = (("post", "marian"), ("pre", "pegasus"))
    for norm, written_as in kinds:
        found, why = format_of(TransformerConfig(**sizes, norm=norm))
        assert found is not None
        assert (found.model_type, why) == (written_as, "")
        _, why = format_of(TransformerConfig(**sizes, norm=norm, positions="learned"))
        assert why == "positions is learned and not sinusoidal"
    first = TransformerConfig(**{**sizes, "padding_id": 1, "start_id": 1})
    assert layout_of(first)["why"] == "the padding token is not the last one"
