from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import AttentionInputs, Dot, Local, Padding, ScoredAttention, positions_of

EXACT = {"rtol": 1e-10, "atol": 1e-12}


def written_out(scores, centre, window, gaussian):
    """The weights of one query over the places 0, 1, ... of one source, as the paper has them."""
    inside = [s for s in range(len(scores)) if centre - window <= s <= centre + window]
    total = sum(math.exp(scores[s]) for s in inside)
    weights = [0.0] * len(scores)
    for s in inside:
        weights[s] = math.exp(scores[s]) / total
        if gaussian:
            deviation = window / 2
            weights[s] *= math.exp(-((s - centre) ** 2) / (2 * deviation**2))
    return weights


@given(
    scores=st.lists(st.floats(-5, 5), min_size=1, max_size=9),
    centre=st.integers(-192, 896).map(
        lambda n: n / 64
    ),  # exact sums: which slot an edge takes in is no matter of rounding
    window=st.integers(1, 4),
    gaussian=st.booleans(),
    padding=st.integers(0, 3),
    left=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_local_is_a_softmax_inside_the_window(scores, centre, window, gaussian, padding, left):
    """Clipped at the ends, zero where the window lies beyond them, the same whichever side is padded."""
    valid = torch.tensor([[True] * len(scores) + [False] * padding])
    places = slice(padding, None) if left else slice(0, len(scores))
    valid = valid.flip(1) if left else valid
    tensor = torch.full((1, 1, 1, valid.shape[1]), 3.0, dtype=torch.float64)
    tensor[..., places] = torch.tensor(scores, dtype=torch.float64)
    inputs = AttentionInputs(
        query=torch.zeros(1, 1, 1, 1),
        key=torch.zeros(1, 1, valid.shape[1], 1),
        mask=Padding(valid),
        key_positions=positions_of(valid),
        record={"centre": torch.full((1, 1, 1), centre, dtype=torch.float64)},
    )
    weights = Local(window, gaussian=gaussian)(tensor, inputs.visible(), inputs).flatten()
    expected = written_out(scores, centre, window, gaussian)
    torch.testing.assert_close(weights[places].tolist(), expected, **EXACT)
    assert weights.count_nonzero() == sum(weight > 0 for weight in expected)


def drawn(generator, centre, slots=9, queries=1):
    def random(length):
        return torch.randn(1, 1, length, 4, generator=generator, dtype=torch.float64).requires_grad_()

    record = {"centre": torch.tensor(centre, dtype=torch.float64).view(1, 1, queries).requires_grad_()}
    return AttentionInputs(query=random(queries), key=random(slots), record=record)


def test_the_gaussian_is_not_normalised_away(generator):
    inputs = drawn(generator, [4.3])
    window, gaussian = (ScoredAttention(Dot(), Local(3, gaussian=g)).weights(inputs).flatten() for g in (False, True))
    torch.testing.assert_close(window.sum(), torch.tensor(1.0, dtype=torch.float64))
    assert gaussian.sum() < 0.99
    factors = (gaussian / window)[2:8]
    expected = torch.exp(-((torch.arange(2, 8).double() - 4.3) ** 2) / (2 * 1.5**2))  # the deviation is half the window
    torch.testing.assert_close(factors, expected, **EXACT)


def test_the_gradient_reaches_the_centre_through_the_gaussian_alone(generator):
    inputs = drawn(generator, [4.3])
    centre = inputs.record["centre"]
    flat = ScoredAttention(Dot(), Local(3)).weights(inputs)
    assert torch.autograd.grad(flat.square().sum(), centre, allow_unused=True) == (None,)
    bell = ScoredAttention(Dot(), Local(3, gaussian=True)).weights(inputs)
    upstream = torch.randn(bell.shape, generator=generator, dtype=torch.float64)
    (mine,) = torch.autograd.grad(bell, centre, upstream)
    # d/dp of exp(-(s-p)^2 / (2 d^2)) is (s - p) / d^2 times itself; the softmax inside the window stands still.
    expected = (upstream * bell * (torch.arange(9).double() - 4.3) / 1.5**2).sum()
    torch.testing.assert_close(mine.flatten()[0], expected.detach(), **EXACT)


def test_a_window_beyond_the_source_holds_nothing(generator):
    inputs = drawn(generator, [3.0, 40.0], queries=2)
    attention = ScoredAttention(Dot(), Local(2, gaussian=True))
    weights = attention.weights(inputs)
    assert (weights[0, 0, 1] == 0).all()
    assert (weights[0, 0, 0, 1:6] > 0).all()
    output = attention(inputs, torch.ones(1, 1, 9, 3, dtype=torch.float64))
    assert (output[0, 0, 1] == 0).all()
    output.sum().backward()
    for leaf in (inputs.query, inputs.key, inputs.record["centre"]):
        assert leaf.grad.isfinite().all()
    assert (inputs.query.grad[0, 0, 1] == 0).all()
    assert inputs.record["centre"].grad.flatten()[1] == 0


def test_without_centres_a_query_looks_around_its_own_place(generator):
    query, key = (torch.randn(2, 3, n, 4, generator=generator) for n in (2, 7))
    positions = torch.tensor([[0, 4], [6, 2]])
    inputs = AttentionInputs(query=query, key=key, query_positions=positions)
    weights = ScoredAttention(Dot(), Local(1)).weights(inputs)
    for row in range(2):
        for t in range(2):
            seen = weights[row, :, t].nonzero()[:, 1].unique().tolist()
            place = int(positions[row, t])
            assert seen == [s for s in (place - 1, place, place + 1) if 0 <= s < 7]


def test_without_positions_queries_are_the_last_of_the_keys():
    inputs = AttentionInputs(query=torch.zeros(1, 2, 3, 1), key=torch.zeros(1, 2, 4, 1))
    weights = ScoredAttention(Dot(), Local(1)).weights(inputs)
    assert (weights[0, 0] > 0).int().tolist() == [[1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]


def test_centres_of_another_shape_are_refused():
    inputs = AttentionInputs(query=torch.zeros(1, 2, 3, 1), key=torch.zeros(1, 2, 4, 1))
    narrow = AttentionInputs(query=inputs.query, key=inputs.key, record={"centre": torch.zeros(1, 1, 3)})
    with pytest.raises(ValueError, match=r"\(1, 1, 3\); it must be \(1, 2, 3\)"):
        ScoredAttention(Dot(), Local(1)).weights(narrow)


def test_a_window_that_reaches_nothing_is_refused():
    with pytest.raises(ValueError, match="window is 0"):
        Local(0)


@pytest.mark.parametrize("gaussian", [False, True])
def test_it_never_runs_fused(gaussian, generator, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the fused kernel knows no window")

    monkeypatch.setattr(F, "scaled_dot_product_attention", refuse)
    attention = ScoredAttention(Dot(), Local(2, gaussian=gaussian))
    inputs, value = drawn(generator, [4.3]), torch.ones(1, 1, 9, 2, dtype=torch.float64)
    torch.testing.assert_close(attention(inputs, value), attention.weights(inputs) @ value)
    assert not attention.declaration.distribution
