"""Choices of layers, and the mixture that is learnt."""

from __future__ import annotations

import pytest
import torch

from regard.embeddings import LayerChoice, ScalarMix, layer_choice
from regard.errors import InputError

STATES = [torch.full((1, 2, 3), float(number)) for number in range(1, 6)]  # the embedding and four blocks


def combined(choice) -> torch.Tensor:
    chosen = layer_choice(choice, 4)
    return chosen.combined([STATES[number] for number in chosen.numbers(4)])


@pytest.mark.parametrize(
    ("choice", "value"),
    [
        ("embeddings", 1.0),
        ("last", 5.0),
        ("second_to_last", 4.0),
        ("second-to-last", 4.0),
        ("sum_last_four", 14.0),
        ("sum_all", 15.0),
        (0, 1.0),
        (-5, 1.0),
        (3, 4.0),
        ("2,-1", 8.0),
        ([1, 2], 5.0),
        (LayerChoice(layers=(1, 2), weights=(0.5, 2.0)), 7.0),
    ],
)
def test_one_vector_for_each_token(choice, value):
    assert combined(choice).shape == (1, 2, 3)
    assert combined(choice).unique().tolist() == [value]


def test_the_last_four_one_after_another_and_all_of_them_kept_apart():
    found = combined("concatenate_last_four")
    assert found.shape == (1, 2, 12)
    assert found[0, 0].tolist() == [2.0] * 3 + [3.0] * 3 + [4.0] * 3 + [5.0] * 3
    every = combined("all")
    assert every.shape == (1, 2, 5, 3)
    assert every[0, 1, :, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_sums_are_in_float32():
    assert layer_choice("sum_all", 1).combined([torch.ones(1, 1, 1).bfloat16()] * 2).dtype == torch.float32


@pytest.mark.parametrize(
    ("choice", "depth", "message"),
    [
        ("lst", 4, "did you mean 'last'"),
        ("sum_last_four", 2, r"layer -4 does not exist in a model with 2 layers"),
        (5, 4, "from 0, its embedding, to 4"),
        ("1,x", 4, "or give numbers"),
        ([], 4, "no layer is chosen"),
    ],
)
def test_layers_that_are_not_there_are_refused(choice, depth, message):
    with pytest.raises(InputError, match=message):
        layer_choice(choice, depth)


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="1 weights are given for 2 layers"):
        LayerChoice(layers=(0, 1), weights=(1.0,))
    with pytest.raises(InputError, match="for a sum"):
        LayerChoice(layers=(0,), weights=(1.0,), combine="stack")


def test_a_scalar_mix_is_elmos_equation():
    mix = ScalarMix(3)
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([0.0, 1.0, -1.0]))
        mix.gamma.fill_(2.0)
    states = [torch.randn(2, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) for k in range(3)]
    shares = torch.exp(torch.tensor([0.0, 1.0, -1.0]).double())
    wanted = 2 * sum(share * state for share, state in zip(shares / shares.sum(), states, strict=True))
    torch.testing.assert_close(mix(states), wanted, rtol=1e-5, atol=1e-6)
    mix(states).sum().backward()
    assert mix.weights.grad is not None
    assert mix.weights.grad.abs().min() > 0
    assert mix.gamma.grad is not None
    again = mix.choice().combined([state.float() for state in states])
    torch.testing.assert_close(again, wanted.float(), rtol=1e-5, atol=1e-5)


def test_a_mix_that_normalises_leaves_padding_out():
    mix = ScalarMix(1, normalise=True)
    state = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))
    valid = torch.tensor([[True, True, True], [True, False, False]])
    found = mix([state], valid)[valid]
    assert found.mean().item() == pytest.approx(0.0, abs=1e-5)
    assert found.var(correction=0).item() == pytest.approx(1.0, abs=1e-4)
    spoilt = state.clone()
    spoilt[~valid] = 1e6
    torch.testing.assert_close(mix([spoilt], valid)[valid], found)
    with pytest.raises(ValueError, match="call the mix itself"):
        mix.choice()
