from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import AttentionInputs, Soft

INPUTS = AttentionInputs(query=torch.zeros(1, 1, 1, 1), key=torch.zeros(1, 1, 1, 1))


@given(
    scores=st.lists(st.floats(-300, 300), min_size=1, max_size=8),
    visible=st.lists(st.booleans(), min_size=8, max_size=8),
    shift=st.floats(-1000, 1000),
)
@settings(max_examples=60, deadline=None)
def test_soft_is_the_exponential_share_over_the_visible(scores, visible, shift):
    seen = visible[: len(scores)]
    best = max((score for score, yes in zip(scores, seen, strict=True) if yes), default=0.0)
    shares = [math.exp(score - best) if yes else 0.0 for score, yes in zip(scores, seen, strict=True)]
    expected = [share / sum(shares) if any(seen) else 0.0 for share in shares]
    tensor = torch.tensor(scores, dtype=torch.float64).view(1, 1, 1, -1)
    mask = torch.tensor(seen).view(1, 1, 1, -1)
    torch.testing.assert_close(Soft()(tensor, mask, INPUTS).flatten().tolist(), expected, rtol=1e-10, atol=1e-12)
    shifted = Soft()(tensor + shift, mask, INPUTS).flatten().tolist()
    torch.testing.assert_close(shifted, expected, rtol=1e-9, atol=1e-12)


def test_soft_without_a_mask_sees_all(generator):
    scores = torch.randn(2, 3, 5, 7, generator=generator)
    everything = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    assert torch.equal(Soft()(scores, None, INPUTS), Soft()(scores, everything, INPUTS))


def test_soft_runs_over_keys_not_queries(generator):
    weights = Soft()(torch.randn(2, 3, 5, 7, generator=generator), None, INPUTS)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3, 5))
    assert not torch.allclose(weights.sum(dim=-2), torch.ones(2, 3, 7))


def test_soft_is_exact_for_scores_that_would_overflow():
    scores = torch.tensor([1e30, 1e30, -1e30]).view(1, 1, 1, 3)
    assert Soft()(scores, None, INPUTS).flatten().tolist() == [0.5, 0.5, 0.0]


def test_a_query_that_sees_nothing_has_zero_weights_and_zero_gradient(generator):
    scores = torch.randn(1, 1, 2, 3, generator=generator, requires_grad=True)
    visible = torch.tensor([[False, False, False], [True, False, True]]).view(1, 1, 2, 3)
    weights = Soft()(scores, visible, INPUTS)
    assert weights[0, 0, 0].tolist() == [0.0, 0.0, 0.0]
    weights.square().sum().backward()
    assert scores.grad[0, 0, 0].tolist() == [0.0, 0.0, 0.0]
    assert scores.grad[0, 0, 1, 1] == 0
    assert scores.grad[0, 0, 1, 0] != 0
