from __future__ import annotations

import torch
import torch.nn.functional as F

from regard.layers import FeedForward, GatedFeedForward


def test_two_linear_maps_with_a_rectifier_between(seeded, randomize, generator):
    layer = randomize(FeedForward(4, 9, activation=F.relu))
    x = torch.randn(2, 5, 4, generator=generator)
    hidden = (x @ layer.inner.weight.T + layer.inner.bias).clamp(min=0)
    torch.testing.assert_close(layer(x), hidden @ layer.outer.weight.T + layer.outer.bias)


def test_every_position_is_mapped_alike(seeded, generator):
    layer = FeedForward(4, 9, activation=torch.tanh)
    x = torch.randn(2, 5, 4, generator=generator)
    order = torch.randperm(5, generator=generator)
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order])


def test_dropout_falls_inside_and_only_in_training(seeded, generator):
    layer = FeedForward(4, 50, activation=F.relu, dropout=0.5)
    x = torch.randn(3, 4, generator=generator)
    assert not torch.equal(layer.train()(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))


def test_without_biases_nothing_is_added(seeded):
    layer = FeedForward(4, 9, activation=F.relu, bias=False)
    assert [name for name, _ in layer.named_parameters()] == ["inner.weight", "outer.weight"]
    assert not layer(torch.zeros(1, 4)).any()


def test_a_gate_says_how_much_passes(seeded, randomize, generator):
    layer = randomize(GatedFeedForward(4, 9, activation=F.gelu))
    x = torch.randn(2, 5, 4, generator=generator)
    hidden = F.gelu(x @ layer.gate.weight.T) * (x @ layer.inner.weight.T)
    torch.testing.assert_close(layer(x), hidden @ layer.outer.weight.T)
    assert [name for name, _ in layer.named_parameters()] == ["gate.weight", "inner.weight", "outer.weight"]
