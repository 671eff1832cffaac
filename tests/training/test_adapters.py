"""Runs that train low-rank adapters beside a trained model."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.checkpoints import read_model, read_parameters
from regard.checkpoints.adapters import has_adapters, read_adapters
from regard.errors import InputError
from regard.layers import Tokens
from regard.layers.blocks import adapt
from regard.training.recipe import read_recipe

TRAINING: dict[str, Any] = {
    "steps": 8,
    "batch_tokens": 200,
    "learning_rate": 2e-2,
    "warmup": 1,
    "schedule": "constant",
    "precision": "float32",
    "evaluate_every": 4,
    "save_every": 2,
}
WORDS = ("red", "green", "blue", "cat", "dog", "sits", "runs")
BERT: dict[str, Any] = {"name": "bert", "width": 16, "heads": 2, "feedforward_width": 24, "layers": 2, "dropout": 0.1}


def texts(seed: int, count: int = 60) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 6))) for _ in range(count)]


@pytest.fixture(scope="module")
def gpt(tmp_path_factory) -> Path:
    """A trained language model."""
    recipe = {
        "task": "language_modelling",
        "seed": 3,
        "model": {
            "name": "gpt2",
            "width": 16,
            "heads": 2,
            "feedforward_width": 24,
            "layers": 2,
            "maximum_positions": 16,
        },
        "data": {"length": 16},
        "tokenizer": {"kind": "word", "size": 20},
        "training": TRAINING,
    }
    folder = tmp_path_factory.mktemp("gpt") / "run"
    regard.train(recipe, output=folder, data=texts(1))
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    """A trained masked language model."""
    recipe = {
        "task": "masked_language_modelling",
        "seed": 3,
        "model": BERT,
        "data": {"maximum_length": 16, "next_sentence": False},
        "tokenizer": {"kind": "bert", "size": 60},
        "training": TRAINING,
    }
    folder = tmp_path_factory.mktemp("bert") / "run"
    regard.train(recipe, output=folder, data=texts(2))
    return folder


def language_recipe(gpt: Path, **training: Any) -> dict[str, Any]:
    return {
        "task": "language_modelling",
        "seed": 4,
        "model": {"pretrained": str(gpt)},
        "adapters": {"rank": 2, "alpha": 8, "dropout": 0.1, "on": ["query", "value", "inner"]},
        "data": {"length": 16},
        "training": TRAINING | training,
    }


@pytest.fixture(scope="module")
def adapted(gpt, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("adapted") / "run"
    regard.train(language_recipe(gpt), output=folder, data=texts(6))
    return folder


def labelled() -> list[tuple[str, str]]:
    draw = random.Random(5)
    return [(f"{draw.choice(('red', 'blue'))} {word}", word) for word in ("cat", "runs") for _ in range(40)]


@pytest.fixture(scope="module")
def classifier(bert, tmp_path_factory) -> Path:
    recipe = {
        "task": "classification",
        "model": {"pretrained": str(bert)},
        "adapters": {"rank": 3, "alpha": 6, "on": ["query", "value", "outer"]},
        "data": {"maximum_length": 16},
        "training": TRAINING | {"steps": 40, "evaluate_every": 40},
    }
    folder = tmp_path_factory.mktemp("classifier") / "run"
    regard.train(recipe, output=folder, data=labelled())
    return folder


def test_only_adapters_learn_and_the_user_is_told_how_many(gpt, tmp_path):
    said: list[str] = []
    # Other texts: there is something to learn.
    run = regard.train(
        language_recipe(gpt, steps=60, learning_rate=4e-2),
        output=tmp_path / "run",
        data=["dog dog runs"] * 60,
        say=said.append,
    )
    start, stored = read_parameters(gpt)[1], read_parameters(run.folder, merged=False)[1]
    assert all(torch.equal(stored[name], start[name]) for name in start)
    card, adapters = read_adapters(run.folder, read_parameters(gpt)[0])
    trained = sum(tensor.numel() for tensor in adapters.values())
    assert len(card.maps) == 6
    assert trained == 2 * (2 * 2 * (16 + 16) + 2 * (16 + 24))  # r (I + O) of each, in two layers
    (sentence,) = [each for each in said if "adapters of rank 2 on 6 linear maps" in each]
    assert f"{trained:,} of" in sentence
    before, after = (regard.evaluate(each, ["dog dog runs"]).metrics["loss"] for each in (regard.load(gpt), run.load()))
    assert after < before - 0.3
    moments = load_file(next((run.folder / "checkpoints").glob("step-*60")) / "optimizer.safetensors")
    assert {name.rpartition("/")[0].rpartition(".")[2] for name in moments} == {"down", "up"}


def test_opened_they_are_merged(gpt, adapted, tmp_path):
    assert has_adapters(adapted)
    opened = regard.load(adapted)
    config, stored = read_parameters(adapted, merged=False)
    apart = read_model(gpt)
    adapt(apart, ["query", "value", "inner"], rank=2, alpha=8)
    own = dict(apart.named_parameters())
    with torch.no_grad():
        for name, tensor in {**stored, **read_adapters(adapted, config)[1]}.items():
            own[name].copy_(tensor)
    tokens = opened.task.batch([[1, 4, 5, 6, 7]]).tokens
    expected = apart.eval()(tokens)
    assert torch.allclose(opened.model(tokens), expected, atol=1e-5)
    assert not torch.allclose(read_model(gpt)(tokens), expected, atol=1e-3)
    opened.save(tmp_path / "whole")  # an ordinary model from here on
    assert not has_adapters(tmp_path / "whole")
    assert torch.equal(regard.load(tmp_path / "whole").model(tokens), opened.model(tokens))


class Stop(BaseException):
    """Raised where a process is to end."""


class StopAfter:
    def started(self, model, progress, total_steps):
        """Nothing."""

    def stepped(self, progress, tokens_per_second):
        if progress.step == 5:
            raise Stop

    def logged(self, event):
        """Nothing."""

    def ended(self, progress):
        """Nothing."""


def test_a_resumed_run_is_the_run_that_was_never_stopped(gpt, adapted, tmp_path):
    recipe = language_recipe(gpt)
    with pytest.raises(Stop):
        regard.train(recipe, output=tmp_path / "parted", data=texts(6), callbacks=[StopAfter()])
    regard.train(recipe, output=tmp_path / "parted", data=texts(6), resume=True)
    for file in ("adapter/adapter_model.safetensors", "optimizer.safetensors", "model.safetensors"):
        one, other = (
            load_file(next((run / "checkpoints").glob("step-*8")) / file) for run in (adapted, tmp_path / "parted")
        )
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_new_head_is_trained_whole_and_the_rest_is_not(classifier, bert):
    start, stored = read_parameters(bert)[1], read_parameters(classifier, merged=False)[1]
    shared = {name for name in start if not name.startswith("head.")}
    assert all(torch.equal(stored[name], start[name]) for name in shared)
    assert {name for name in stored if name not in shared} >= {"head.output.weight", "head.output.bias"}
    assert read_recipe(classifier / "recipe.yaml").adapters.rank == 3
    found = regard.evaluate(regard.load(classifier), labelled())
    assert found.metrics["accuracy"] > 0.8


def test_the_next_run_starts_from_what_the_adapters_learnt(classifier, tmp_path):
    recipe = {
        "task": "classification",
        "model": {"pretrained": str(classifier)},
        "data": {"maximum_length": 16},
        "training": TRAINING | {"steps": 1, "learning_rate": 1e-9},
    }
    run = regard.train(recipe, output=tmp_path / "run", data=labelled())
    merged = read_parameters(classifier)[1]["layers.0.attention.query.weight"]
    assert torch.allclose(run.load().model.layers[0].attention.query.weight, merged, atol=1e-6)


def test_peft_makes_the_same_of_the_folder(classifier, adapted):
    """BERT's maps are its own there; GPT-2's query, key and value are one, in which two of the three have an adapter."""
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    ids = torch.tensor([[5, 6, 7, 8, 9]])
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool))
    for folder, kind in ((classifier, "AutoModelForSequenceClassification"), (adapted, "AutoModelForCausalLM")):
        made = regard.load(folder).model(tokens)
        ours = made if isinstance(made, torch.Tensor) else made.logits
        base = getattr(transformers, kind).from_pretrained(folder)
        with torch.no_grad():
            assert not torch.allclose(base.eval()(input_ids=ids).logits, ours, atol=1e-3)
            theirs = peft.PeftModel.from_pretrained(base, folder / "adapter").eval()
            assert torch.allclose(theirs(input_ids=ids).logits, ours, atol=1e-5)
            assert torch.allclose(theirs.merge_and_unload()(input_ids=ids).logits, ours, atol=1e-5)


def test_mistakes_are_told_before_training(gpt, tmp_path):
    recipe = language_recipe(gpt)
    with pytest.raises(InputError, match="did you mean 'query'"):
        regard.train(recipe, ["adapters.on=[querry]"], output=tmp_path / "run", data=texts(6))
    with pytest.raises(InputError, match=r"adapters.rank is 0"):
        read_recipe(recipe, ["adapters.rank=0"])
    with pytest.raises(InputError, match="unknown key 'ranks'"):
        read_recipe(recipe, ["adapters.ranks=2"])
    recipe["model"] = {"name": "gpt2", "width": 16, "heads": 2}
    recipe["tokenizer"] = {"kind": "word"}
    with pytest.raises(InputError, match=r"without model.pretrained"):
        read_recipe(recipe)


@pytest.mark.parametrize("damage", ["card", "tensor", "missing"])
def test_a_damaged_folder_is_refused(classifier, tmp_path, damage):
    folder = tmp_path / "copy"
    shutil.copytree(classifier, folder, ignore=shutil.ignore_patterns("checkpoints*", "data"))
    file = folder / "adapter" / "adapter_model.safetensors"
    if damage == "card":
        (folder / "adapter" / "regard.json").write_text("{")
    elif damage == "missing":
        file.unlink()
    else:
        tensors = load_file(file)
        save_file({name: tensor + 1 for name, tensor in tensors.items()}, file)
    with pytest.raises(InputError, match="adapter"):
        regard.load(folder)


def test_a_plan_counts_what_is_trained(gpt):
    recipe = language_recipe(gpt)
    found = regard.plan(recipe, device="t4", read=False)
    whole = regard.plan({**recipe, "adapters": None}, device="t4", read=False)
    assert 0 < found.parameters.trained < 0.3 * whole.parameters.trained
    assert found.memory[0].parts["optimizer"] == 8 * found.parameters.trained


def test_the_files_are_those_of_peft(classifier):
    described = json.loads((classifier / "adapter" / "adapter_config.json").read_text())
    assert (described["peft_type"], described["r"], described["lora_alpha"]) == ("LORA", 3, 6.0)
    names = load_file(classifier / "adapter" / "adapter_model.safetensors").keys()
    assert "base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight" in names
