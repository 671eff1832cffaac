"""What is decayed, and by which optimiser."""

from __future__ import annotations

import pytest
import torch

from regard.models import Bahdanau, Transformer
from regard.training import TrainingSettings
from regard.training.optimizers import build_optimizer


@pytest.mark.parametrize(("name", "kind"), [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam)])
def test_the_named_optimizer_with_its_settings(name, kind, tiny_bahdanau):
    settings = TrainingSettings(steps=1, optimizer=name, learning_rate=0.5, betas=(0.8, 0.9), epsilon=1e-3)
    optimizer = build_optimizer(Bahdanau(tiny_bahdanau()), settings)
    assert type(optimizer) is kind
    for group in optimizer.param_groups:
        assert (group["lr"], group["betas"], group["eps"]) == (0.5, (0.8, 0.9), 1e-3)


def test_matrices_are_decayed_and_vectors_are_not(tiny_transformer):
    model = Transformer(tiny_transformer(attention_bias=True))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = build_optimizer(model, TrainingSettings(steps=1, learning_rate=0.1, weight_decay=0.5))
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
