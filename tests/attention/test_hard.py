"""Hard attention against its definition: one key, drawn by the softmax's probabilities."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import AttentionInputs, Dot, Hard, Padding, ScoredAttention
from regard.attention.alignments import LOT, MEAN, chosen


def scored(scores: list[float], rows: int = 1) -> AttentionInputs:
    """Inputs whose dot scores are these, for `rows` queries."""
    key = torch.tensor(scores).view(1, 1, -1, 1)
    return AttentionInputs(query=torch.ones(1, 1, rows, 1), key=key)


def test_draws_come_as_often_as_the_softmax_says():
    scores = [0.0, 1.0, -1.0, 2.0]
    attention, count = ScoredAttention(Dot(), Hard()), 20_000
    sampled = attention.sample(scored(scores, count), torch.Generator().manual_seed(0))
    frequencies = attention.weights(sampled).mean(dim=2).flatten()
    torch.testing.assert_close(frequencies, torch.tensor(scores).softmax(dim=0), atol=0.01, rtol=0)


def test_without_a_draw_the_most_probable_key_is_taken():
    attention = ScoredAttention(Dot(), Hard(0.5))
    assert attention.weights(scored([0.0, 1.0, 3.0, 2.0])).flatten().tolist() == [0, 0, 1, 0]


@given(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=6).filter(lambda alpha: sum(alpha) > 0.01),
    st.floats(0, 1, exclude_max=True, width=32),
)
def test_a_key_without_probability_is_never_drawn(alpha, lot):
    probabilities = torch.tensor(alpha) / sum(alpha)
    found = chosen(probabilities.view(1, 1, 1, -1), {LOT: torch.tensor([[[lot]]])}).item()
    assert probabilities[found] > 0
    before, up_to = probabilities[:found].sum().item(), probabilities[: found + 1].sum().item()
    assert before - 1e-5 <= lot <= up_to + 1e-5  # the first key up to which the probabilities sum to more than the lot


def test_a_draw_means_the_same_behind_padding():
    attention = ScoredAttention(Dot(), Hard())
    inputs = attention.sample(scored([0.5, 1.0, 0.2], rows=50), torch.Generator().manual_seed(3))
    padded = AttentionInputs(
        query=inputs.query,
        key=torch.nn.functional.pad(inputs.key, (0, 0, 2, 0), value=9.0),
        mask=Padding(torch.tensor([[False, False, True, True, True]])),
        record=inputs.record,
    )
    assert torch.equal(attention.weights(padded)[..., 2:], attention.weights(inputs))
    assert not attention.weights(padded)[..., :2].any()


def test_queries_that_take_the_mean_are_soft_and_pass_gradients_back():
    attention = ScoredAttention(Dot(), Hard(1.0))
    inputs = scored([0.0, 1.0])
    inputs.key.requires_grad_()
    inputs = attention.sample(inputs, torch.Generator().manual_seed(0))
    weights = attention.weights(inputs)
    torch.testing.assert_close(weights.flatten(), torch.tensor([0.0, 1.0]).softmax(dim=0))
    weights[..., 0].sum().backward()
    assert inputs.key.grad is not None
    assert inputs.key.grad.abs().sum() > 0


def test_a_record_that_says_who_takes_the_mean_keeps_it():
    attention = ScoredAttention(Dot(), Hard(0.5))
    inputs = scored([0.0, 1.0], rows=40)
    told = torch.arange(40).view(1, 1, 40) % 2 == 0
    inputs = AttentionInputs(query=inputs.query, key=inputs.key, record={MEAN: told})
    sampled = attention.sample(inputs, torch.Generator().manual_seed(0))
    assert torch.equal(sampled.record[MEAN], told)
    assert set(attention.weights(sampled)[0, 0, 1::2].flatten().tolist()) == {0.0, 1.0}


def test_one_generator_draws_the_same_again():
    attention = ScoredAttention(Dot(), Hard(0.5))
    first, second = (attention.sample(scored([1.0, 2.0], 9), torch.Generator().manual_seed(7)) for _ in range(2))
    assert all(torch.equal(first.record[name], second.record[name]) for name in (LOT, MEAN))


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_a_share(share):
    with pytest.raises(ValueError, match="mean_share"):
        Hard(share)
