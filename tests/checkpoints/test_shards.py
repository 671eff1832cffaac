"""Weights in several files: written as transformers writes them, read as one, and refused by name where they do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.checking import check
from regard.checkpoints import parameters_of, read_config, read_model, read_tensors, write_tensors
from regard.checkpoints.tensors import SHARD, read_outline, shard_file, size_in_bytes
from regard.errors import InputError

GOLDEN = Path(__file__).parents[1] / "golden" / "folders"
INDEX = "model.safetensors.index.json"


def shards(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if SHARD.fullmatch(path.name))


def test_shards_hold_what_the_file_held(tmp_path, generator):
    tensors = {f"t{number}": torch.randn(5, number + 1, generator=generator) for number in range(6)}
    file = tmp_path / "model.safetensors"
    digests = write_tensors(file, tensors)
    places = shard_file(file, 200)
    assert [place.name for place in places] == shards(tmp_path)
    assert len(places) > 1
    assert not file.exists()
    index = json.loads((tmp_path / INDEX).read_text())
    assert index["metadata"] == {"total_parameters": 105, "total_size": 420}
    assert {name: sorted(load_file(tmp_path / name)) for name in shards(tmp_path)} == {
        name: sorted(key for key, where in index["weight_map"].items() if where == name) for name in shards(tmp_path)
    }
    assert all(sum(tensor.nbytes for tensor in load_file(place).values()) <= 200 for place in places)
    read, outline = read_tensors(file, digests), read_outline(file, largest=0)
    assert read.keys() == outline.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
    assert all(outline[name].shape == tensor.shape for name, tensor in tensors.items())


def test_what_is_small_enough_stays_one_file_and_one_tensor_is_never_divided(tmp_path):
    file = tmp_path / "model.safetensors"
    write_tensors(file, {"a": torch.zeros(10), "b": torch.zeros(100)})
    assert shard_file(file, 440) == [file]
    assert len(shard_file(file, 100)) == 2
    assert {path.stat().st_size > 400 for path in map(tmp_path.joinpath, shards(tmp_path))} == {True, False}


@pytest.mark.parametrize("size", [0, -1, "", "big", "5 apples", "GB", True, "0.1"])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(InputError, match=r"max_shard_size is .*; give a size above 0, such as 5GB"):
        size_in_bytes(size)


def test_a_model_saved_in_shards_is_the_model(tmp_path):
    model = regard.load(GOLDEN / "gpt2")
    model.save(tmp_path / "one")
    model.save(tmp_path / "several", max_shard_size="4KB")
    assert len(shards(tmp_path / "several")) > 2
    again = regard.load(tmp_path / "several")
    own = parameters_of(model.model)
    assert all(torch.equal(tensor, own[name]) for name, tensor in parameters_of(again.model).items())
    assert read_config(tmp_path / "several") == model.model.config
    report = check(tmp_path / "several")
    assert not report.refusal
    assert all(file.state == "present" for file in report.files)
    again.save(tmp_path / "several")  # in place of the shards
    assert not shards(tmp_path / "several")
    assert not (tmp_path / "several" / INDEX).exists()


def test_an_exported_model_may_be_in_shards(tmp_path):
    exported = regard.export(GOLDEN / "bert", tmp_path / "given", max_shard_size=3000)
    assert INDEX in exported.files
    assert {name for name in exported.files if SHARD.fullmatch(name)} == set(shards(tmp_path / "given"))
    assert check(tmp_path / "given").refusal == ""


def test_shards_go_to_transformers_and_back(tmp_path):
    transformers = pytest.importorskip("transformers")
    ours = regard.load(GOLDEN / "gpt2")
    ours.save(tmp_path / "ours", max_shard_size="4KB")
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="4KB")
    assert len(shards(tmp_path / "theirs")) > 1
    back = read_model(tmp_path / "theirs")
    own = parameters_of(ours.model)
    assert all(torch.equal(tensor, own[name]) for name, tensor in parameters_of(back).items())
    one, other = (json.loads((tmp_path / name / INDEX).read_text()) for name in ("ours", "theirs"))
    assert one["metadata"] == other["metadata"]
    assert one["weight_map"].keys() == other["weight_map"].keys()


@pytest.fixture
def several(tmp_path) -> Path:
    regard.load(GOLDEN / "gpt2").save(tmp_path / "model", max_shard_size="4KB")
    return tmp_path / "model"


def test_shards_that_do_not_fit_are_refused_by_name(several):
    first, second = shards(several)[:2]
    index = json.loads((several / INDEX).read_text())
    name = next(key for key, place in index["weight_map"].items() if place == first)
    for change, message in (
        ({**index, "weight_map": {}}, rf"{INDEX}: has no weight_map"),
        (
            {**index, "weight_map": {**index["weight_map"], name: "../other.safetensors"}},
            "which is not a safetensors file in the same folder",
        ),
        (
            {**index, "weight_map": {**index["weight_map"], name: second}},
            rf"{second}: lacks {name}|{first}: holds {name}",
        ),
    ):
        (several / INDEX).write_text(json.dumps(change))
        with pytest.raises(InputError, match=message):
            read_model(several)
    (several / INDEX).write_text(json.dumps(index))
    tensors = load_file(several / first)
    save_file({key: tensor + 1 for key, tensor in tensors.items()}, several / first)
    with pytest.raises(InputError, match="is not what was saved"):
        read_model(several)
    (several / first).unlink()
    with pytest.raises(InputError, match=rf"{first}: no such file, and some of the weights"):
        read_model(several)
    assert [file.path for file in check(several).files if file.state == "missing"] == [first]
