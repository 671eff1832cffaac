"""Additive scores by the compiled kernel, and without it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import Additive, AttentionInputs, ScoredAttention
from regard.attention.additive import additive_scores, by_equation
from regard.kernels import Kernels

NONE = Kernels(None, "there is no compiler")


def drawn(shape, generator, dtype=torch.float32):
    return torch.randn(shape, generator=generator).to(dtype).requires_grad_()


@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 2),
    asking=st.integers(0, 6),
    asked=st.integers(0, 9),
    width=st.integers(1, 70),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=60, deadline=None)
def test_scores_and_gradients_equal_the_equation_in_float64(batch, heads, asking, asked, width, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    query, key = (drawn((batch, heads, count, width), generator, dtype) for count in (asking, asked))
    weight, upstream = drawn(width, generator), torch.randn(batch, heads, asking, asked, generator=generator)
    given = (query, key, weight)
    scores = additive_scores(*given)
    if scores is None:
        pytest.skip("there is no kernel")
    exact = [x.detach().double().requires_grad_() for x in given]
    wanted = by_equation(*exact)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores.double(), wanted, rtol=1e-6, atol=1e-6 * width)
    gradients = torch.autograd.grad(scores, given, upstream)
    for found, right in zip(gradients, torch.autograd.grad(wanted, exact, upstream.double()), strict=True):
        rounding = 2**-8 if found.dtype == torch.bfloat16 else 1e-6
        torch.testing.assert_close(found.double(), right, rtol=rounding, atol=1e-5)
    assert [x.dtype for x in gradients] == [dtype, dtype, torch.float32]


def test_the_gradient_has_a_gradient(generator):
    """Of those inputs that need one: the weight does not."""
    query, key = drawn((2, 1, 3, 8), generator), drawn((2, 1, 4, 8), generator)
    weight = torch.randn(8, generator=generator)
    found = []
    for score in (additive_scores, by_equation):
        scores = score(query, key, weight)
        if scores is None:
            pytest.skip("there is no kernel")
        slopes = torch.autograd.grad(scores.square().sum(), (query, key), create_graph=True)
        found.append(torch.autograd.grad(sum(x.square().sum() for x in slopes), (query, key)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_text_has_the_same_bits_alone_and_in_a_batch(generator):
    query, key, weight = drawn((5, 1, 3, 200), generator), drawn((5, 1, 21, 200), generator), drawn(200, generator)
    together = additive_scores(query, key, weight)
    if together is None:
        pytest.skip("there is no kernel")
    for row in range(5):
        assert torch.equal(additive_scores(query[row : row + 1], key[row : row + 1], weight)[0], together[row])


def test_half_precision_from_start_to_end_and_exact_weights_in_evaluation(generator, monkeypatch):
    """With and without the kernel; without it, training computes tanh(q + k) in the dtype of the inputs."""
    attention = ScoredAttention(Additive(8))
    with torch.no_grad():
        attention.score.weight.normal_(generator=generator)
    query, key, value = (drawn((2, 1, length, 8), generator, torch.bfloat16) for length in (3, 5, 5))
    wide = AttentionInputs(query=query.float(), key=key.float())
    exact = attention.eval().weights(wide)
    for library in (None, NONE):
        if library is not None:
            monkeypatch.setattr("regard.attention.additive.kernels", lambda: NONE)
        for training in (False, True):
            attention.train(training)
            inputs = AttentionInputs(query=query, key=key)
            weights, output = attention.weights(inputs), attention(inputs, value)
            assert (weights.dtype, output.dtype) == (torch.float32, torch.bfloat16)
            tolerance = 0.02 if training and library is NONE else 1e-6
            torch.testing.assert_close(weights, exact, rtol=tolerance, atol=tolerance)
            gradients = torch.autograd.grad(output.float().square().sum(), (query, key, value, attention.score.weight))
            assert all(bool(x.isfinite().all()) for x in gradients)


def test_other_dtypes_are_computed_by_the_equation(generator):
    query, key, weight = (torch.randn(1, 1, 2, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    assert additive_scores(query, key, weight[0, 0, 0]) is None
    score = Additive(4).double()
    assert score(query, key).dtype == torch.float64
