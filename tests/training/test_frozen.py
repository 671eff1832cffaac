"""Parameters that are not updated."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.errors import InputError
from regard.models import MODELS, Transformer
from regard.training import TrainingSettings
from regard.training.optimizers import build_optimizer, freeze
from regard.training.recipe import read_recipe

FROZEN = ["encoder.layers.*.attention", "decoder.layers.0", "decoder.layers.1.feedforward.inner.bias"]


def frozen_of(model) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["encoder"], lambda name: name.startswith("encoder.")),
        (["encoder.layers.0"], lambda name: name.startswith("encoder.layers.0.")),
        (["*.layers.*"], lambda name: ".layers." in name),
        (["encoder.layers.[01].attention"], lambda name: name.startswith("encoder.layers.") and ".attention." in name),
        (["encoder.embedding.*.weight"], lambda name: name == "encoder.embedding.tokens.weight"),
        (["encoder", "decoder.layers"], lambda name: name.startswith(("encoder.", "decoder.layers."))),
    ],
)
def test_a_pattern_means_modules_with_all_in_them_and_parameters(patterns, expected, tiny_transformer):
    model = Transformer(tiny_transformer(sharing="none"))
    count = freeze(model, patterns)
    names = {name for name, _ in model.named_parameters() if expected(name)}
    assert frozen_of(model) == names
    assert names
    assert count == sum(parameter.numel() for name, parameter in model.named_parameters() if name in names)


def test_what_is_named_twice_is_counted_once(tiny_transformer):
    once, twice = (Transformer(tiny_transformer()) for _ in range(2))
    assert freeze(once, ["encoder"]) == freeze(twice, ["encoder", "encoder.layers.0"])


def test_the_optimizer_has_the_others_only(tiny_transformer):
    model = Transformer(tiny_transformer())
    freeze(model, ["encoder"])
    optimizer = build_optimizer(model, TrainingSettings(steps=1))
    learnt = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    assert learnt == {id(parameter) for parameter in model.parameters() if parameter.requires_grad}


def test_a_name_that_nothing_has_is_refused_with_the_nearest(tiny_transformer):
    with pytest.raises(InputError, match=r"training.frozen: nothing is called 'encoder.layer'.*'encoder.layers'"):
        freeze(Transformer(tiny_transformer()), ["encoder.layer"])


def test_freezing_everything_is_refused(tiny_transformer):
    with pytest.raises(InputError, match=r"leaves nothing to train"):
        freeze(Transformer(tiny_transformer()), ["*"])


def test_a_mistake_is_told_before_training_and_the_folder_stays_free(recipe, pairs, tmp_path):
    with pytest.raises(InputError, match="nothing is called"):
        regard.train(recipe("transformer", frozen=["encodr"]), output=tmp_path / "run", data=pairs)
    regard.train(recipe("transformer", frozen=["encoder"], steps=1), output=tmp_path / "run", data=pairs)


def test_frozen_parameters_keep_their_bits_and_all_others_move(recipe, pairs, tmp_path):
    values = recipe("transformer", frozen=FROZEN, weight_decay=0.1)
    said: list[str] = []
    run = regard.train(values, output=tmp_path / "run", data=pairs, say=said.append)
    resolved = read_recipe(tmp_path / "run" / "recipe.yaml")
    config = run.load().model.config
    with torch.random.fork_rng():
        torch.manual_seed(resolved.seed)
        start = MODELS["transformer"].model(config)
    count = freeze(start, FROZEN)
    assert f"{count:,} of these parameters are frozen." in said
    trained = dict(run.load().model.named_parameters())
    for name, parameter in start.named_parameters():
        assert torch.equal(parameter, trained[name]) != parameter.requires_grad, name


class Stop(BaseException):
    """Raised where a process is to end."""


class StopAfter:
    """Raises after an update."""

    def __init__(self, step: int) -> None:
        self.step = step

    def started(self, model, progress, total_steps):
        """Nothing."""

    def stepped(self, progress, tokens_per_second):
        if progress.step == self.step:
            raise Stop

    def logged(self, event):
        """Nothing."""

    def ended(self, progress):
        """Nothing."""


def test_a_resumed_run_is_the_run_that_was_never_stopped(recipe, pairs, tmp_path):
    values = recipe("transformer", frozen=FROZEN, save_every=2)
    regard.train(values, output=tmp_path / "whole", data=pairs)
    with pytest.raises(Stop):
        regard.train(values, output=tmp_path / "parted", data=pairs, callbacks=[StopAfter(3)])
    regard.train(values, output=tmp_path / "parted", data=pairs, resume=True)
    for name in ("model.safetensors", "optimizer.safetensors"):
        one, other = (
            load_file(next((tmp_path / run / "checkpoints").glob("step-*6")) / name) for run in ("whole", "parted")
        )
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_resuming_with_others_frozen_is_refused(recipe, pairs, tmp_path):
    regard.train(recipe("transformer", frozen=["encoder"]), output=tmp_path / "run", data=pairs)
    with pytest.raises(InputError, match=r"training.frozen"):
        regard.train(recipe("transformer", frozen=["decoder"]), output=tmp_path / "run", data=pairs, resume=True)
