from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.layers import Residual

D = 6


def sublayer(x):
    return 2 * x.flip(-1) + 1


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_norm_stands_after_the_sum_or_before_the_sublayer(placement, randomize, generator):
    residual = randomize(Residual.with_norm(placement, D, epsilon=1e-3))
    x = torch.randn(2, 5, D, generator=generator)

    def norm(y):
        gain, bias = (residual.after if placement == "post" else residual.before).parameters()
        centred = y - y.mean(dim=-1, keepdim=True)
        return gain * centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-3).sqrt() + bias

    expected = norm(x + sublayer(x)) if placement == "post" else x + sublayer(norm(x))
    torch.testing.assert_close(residual(x, sublayer), expected)


def test_weights_of_one_placement_do_not_fit_the_other():
    post, pre = Residual.with_norm("post", D), Residual.with_norm("pre", D)
    assert post.state_dict().keys() == {"after.weight", "after.bias"}
    assert pre.state_dict().keys() == {"before.weight", "before.bias"}
    with pytest.raises(RuntimeError, match="Missing key"):
        pre.load_state_dict(post.state_dict())


def test_dropout_falls_on_the_sublayer_and_only_in_training(seeded):
    residual = Residual(before=nn.Identity(), after=nn.Identity(), dropout=0.5)
    x = torch.full((4, 100), 10.0)
    trained = residual.train()(x, torch.ones_like)
    assert set(trained.unique().tolist()) == {10.0, 12.0}
    assert residual.eval()(x, torch.ones_like).unique().tolist() == [11.0]


def test_layer_norm_looks_at_one_position_only(generator):
    """Not batch norm: other rows and positions have no part, in training as in evaluation."""
    residual = Residual.with_norm("post", D)
    x = torch.randn(3, 5, D, generator=generator)
    for training in (True, False):
        residual.train(training)
        torch.testing.assert_close(residual(x, sublayer)[1:2, 2:3], residual(x[1:2, 2:3], sublayer))
