from __future__ import annotations

import json
import shutil
from importlib import metadata

import torch

import regard


def test_without_a_folder_it_says_what_the_doctor_says(command):
    for name in ("info", "doctor"):
        answer = command(name, "--json")
        assert (answer.code, answer.err) == (0, "")
        found = json.loads(answer.out)
        assert (found["command"], found["versions"]["torch"]) == (name, metadata.version("torch"))
        assert found["threads"] == torch.get_num_threads()
    text = command("doctor").out
    for line in (found["precision"]["reason"], f"regard          {regard.__version__}", "slow here"):
        assert line in text


def test_the_doctor_names_what_is_missing_and_how_to_get_it(command, monkeypatch):
    from regard.checking import machine

    monkeypatch.setattr(machine, "extras", lambda: {"plot": {"no-such-package": None}})
    monkeypatch.setattr(machine, "remarks", lambda found: ["the disk is full"])
    answer = command("doctor")
    assert answer.code == 0
    assert "not installed (no-such-package): pip install 'regard[plot]'" in answer.out
    assert answer.out.endswith("What is slow here, and why:\n- the disk is full.\n")


def test_a_models_folder(command, model, pairs_file):
    answer = command("info", model, "--json")
    found = json.loads(answer.out)
    translator = regard.load(model)
    assert answer.err == ""
    assert (found["task"], found["family"]) == ("translation", "transformer")
    assert found["parameters"] == sum(parameter.numel() for parameter in translator.model.parameters())
    assert found["sizes"]["width"] == 16
    assert found["tokenizers"] == {"shared": {"kind": "character", "vocabulary": 7}}
    assert found["attention"][-1] == "decoder.layers.0.cross_attention"
    assert found["recipe"]["data"]["train"] == pairs_file.name
    assert found["metrics"] == translator.metrics
    assert found["layout"]["name"] == "marian"
    assert "Hugging Face's Marian" in command("info", model).out
    assert found["versions"]["torch"] == torch.__version__
    assert (found["run"]["step"], found["run"]["finished"]) == (40, "40 steps done")
    table = command("info", model).out
    for text in (
        f"{found['parameters']:,} parameters",
        "decoder.layers.0.cross_attention",
        f"  {pairs_file.name}",
        "exact match",
    ):
        assert text in table


def test_builtin_data_and_two_vocabularies(command, dates_model):
    found = json.loads(command("info", dates_model, "--json").out)
    assert set(found["tokenizers"]) == {"source", "target"}
    assert found["layout"] == {"name": "regard", "why": "no other library has the family bahdanau"}
    assert "builtin dates, 100 in en, fr" in command("info", dates_model).out


def test_a_run_that_is_not_finished_shows_its_best_checkpoint(command, model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "run")
    (folder / "config.json").unlink()
    found = json.loads(command("info", folder, "--json").out)
    assert found["checkpoint"].startswith("step-000000")
    assert found["checkpoint"] in command("info", folder).out


def test_a_model_without_a_run_and_without_a_recipe(command, model, tmp_path):
    translator = regard.load(model)
    translator.recipe, translator.metrics = {}, {}
    translator.save(tmp_path / "model")
    found = json.loads(command("info", tmp_path / "model", "--json").out)
    assert (found["run"], found["recipe"], found["checkpoint"]) == (None, {}, None)
    assert "trained on" not in command("info", tmp_path / "model").out


def test_folders_that_hold_no_model(command, model, tmp_path):
    assert "no such folder" in command("info", tmp_path / "none").refusal()
    assert "holds no model" in command("info", tmp_path).refusal()
    folder = shutil.copytree(model, tmp_path / "run")
    (folder / "regard.json").write_text("{")
    assert "regard.json: is not JSON" in command("info", folder).refusal()
