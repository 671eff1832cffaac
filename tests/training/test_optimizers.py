"""What is decayed, and by which optimiser."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

import regard
from regard.models import Bahdanau, Transformer
from regard.training import TrainingSettings
from regard.training.optimizers import build_optimizer, numbers_kept
from regard.training.settings import OptimizerName

KINDS = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "adadelta": torch.optim.Adadelta,
    "rmsprop": torch.optim.RMSprop,
    "adafactor": torch.optim.Adafactor,
}
RATES = {"sgd": 0.3, "adadelta": 3.0}
"""At which a small model learns, where 1e-2 is not enough."""
MOMENTUM = {"sgd": 0.5, "rmsprop": 0.5}


def test_every_name_has_its_kind():
    assert set(get_args(OptimizerName)) == KINDS.keys()


@pytest.fixture(scope="module")
def untrained(recipe, pairs, tmp_path_factory) -> float:
    """The loss of a model that has learnt nothing."""
    asked = recipe("transformer", steps=1, learning_rate=1e-9)
    return regard.train(asked, output=tmp_path_factory.mktemp("untrained"), data=pairs).metrics["loss"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("adam", "adafactor") else [pytest.mark.slow]) for name in KINDS]
)
def test_the_named_optimizer_learns_and_goes_on_as_if_it_had_not_stopped(name, recipe, pairs, untrained, tmp_path):
    asked = {
        "optimizer": name,
        "learning_rate": RATES.get(name, 1e-2),
        "momentum": MOMENTUM.get(name, 0.0),
        "warmup": 1,
        "schedule": "constant",
    }
    whole = regard.train(recipe("transformer", steps=12, **asked), output=tmp_path / "whole", data=pairs)
    assert whole.metrics["loss"] < untrained - 0.05
    regard.train(recipe("transformer", steps=5, **asked), output=tmp_path / "run", data=pairs)
    again = regard.train(recipe("transformer", steps=12, **asked), output=tmp_path / "run", data=pairs, resume=True)
    one, other = (run.load().model.state_dict() for run in (whole, again))
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_so_many_numbers_are_kept(name, momentum, tiny_transformer):
    momentum = momentum if name in MOMENTUM else 0.0
    model = Transformer(tiny_transformer(attention_bias=True))
    optimizer = build_optimizer(model, TrainingSettings(steps=1, optimizer=name, momentum=momentum))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    for parameter in model.parameters():
        state = optimizer.state[parameter].values()
        kept = sum(value.numel() for value in state if isinstance(value, torch.Tensor) and value.dim())
        assert kept == numbers_kept(parameter.shape, name, momentum=momentum > 0)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"optimizer": "adamw", "momentum": 0.9},
            r"training\.momentum is 0\.9 but must be 0 with training\.optimizer=adamw",
        ),
        ({"optimizer": "sgd", "momentum": 1.0}, r"training\.momentum is 1\.0"),
        ({"optimizer": "adafactor", "parallel": "fsdp"}, r"training\.optimizer is 'adafactor'"),
    ],
)
def test_what_an_optimizer_does_not_have_is_refused(asked, message):
    with pytest.raises(regard.InputError, match=message):
        TrainingSettings(steps=1, **asked)


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("adamw", {"betas": (0.8, 0.9), "epsilon": 1e-3}, {"betas": (0.8, 0.9), "eps": 1e-3}),
        ("adam", {"betas": (0.8, 0.9), "epsilon": 1e-3}, {"betas": (0.8, 0.9), "eps": 1e-3}),
        ("sgd", {"momentum": 0.9}, {"momentum": 0.9}),
        ("adagrad", {}, {"eps": 1e-10}),
        ("adadelta", {}, {"rho": 0.95, "eps": 1e-6}),
        ("rmsprop", {"momentum": 0.9}, {"alpha": 0.95, "momentum": 0.9}),
        ("adafactor", {}, {"d": 1.0}),
    ],
)
def test_the_named_optimizer_with_its_settings(name, settings, expected, tiny_bahdanau):
    asked = TrainingSettings(steps=1, optimizer=name, learning_rate=0.5, **settings)
    optimizer = build_optimizer(Bahdanau(tiny_bahdanau()), asked)
    assert type(optimizer) is KINDS[name]
    for group in optimizer.param_groups:
        assert {key: group[key] for key in ("lr", *expected)} == {"lr": 0.5} | expected


@pytest.mark.parametrize("name", ["adamw", "adafactor"])
def test_matrices_are_decayed_and_vectors_are_not(name, tiny_transformer):
    model = Transformer(tiny_transformer(attention_bias=True))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    settings = TrainingSettings(steps=1, optimizer=name, learning_rate=0.1, weight_decay=0.5)
    optimizer = build_optimizer(model, settings)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        factor = 0.95 if parameter.dim() > 1 else 1.0
        torch.testing.assert_close(
            parameter.detach(), factor * before[name], msg=lambda text, name=name: f"{name}: {text}"
        )


def test_every_parameter_is_learnt_once_tied_ones_too(tiny_transformer):
    model = Transformer(tiny_transformer(sharing="all"))
    optimizer = build_optimizer(model, TrainingSettings(steps=1))
    learnt = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(learnt) == sorted(id(parameter) for parameter in model.parameters())
    assert len(set(learnt)) == len(learnt)
