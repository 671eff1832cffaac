from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import Additive, AttentionInputs, Dot, General, ScaledDot, ScoredAttention

B, H, L, S, E = 2, 3, 5, 7, 4
EXACT = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture
def query(generator):
    return torch.randn(B, H, L, E, generator=generator, dtype=torch.float64)


@pytest.fixture
def key(generator):
    return torch.randn(B, H, S, E, generator=generator, dtype=torch.float64)


def looped(query, key, match):
    """Scores from `match(q, k)` on plain lists of numbers, one pair at a time."""
    rows = [
        [[[match(q, k) for k in keys] for q in queries] for queries, keys in zip(a, b, strict=True)]
        for a, b in zip(query.tolist(), key.tolist(), strict=True)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def product(q, k):
    return sum(a * b for a, b in zip(q, k, strict=True))


def test_dot_is_the_inner_product(query, key):
    torch.testing.assert_close(Dot()(query, key), looped(query, key, product), **EXACT)


def test_scaled_dot_divides_by_the_root_of_the_width(query, key):
    expected = looped(query, key, lambda q, k: product(q, k) / math.sqrt(E))
    torch.testing.assert_close(ScaledDot()(query, key), expected, **EXACT)


@pytest.mark.parametrize("power", [0.0, 0.3, 0.5, 1.0])
def test_scaled_dot_divides_by_a_power_of_the_width(power, query, key):
    """0 is the plain product, 1/2 the published scale, 1 the lectures' error; the fused kernel is told the same."""
    expected = looped(query, key, lambda q, k: product(q, k) / math.exp(power * math.log(E)))
    torch.testing.assert_close(ScaledDot(power)(query, key), expected, **EXACT)
    assert ScaledDot(power).product_scale(E) == pytest.approx(E**-power)


def test_general_is_the_bilinear_form(query, generator):
    """q^T Wa k with a key of another width than the query: a transposed Wa could not pass."""
    key = torch.randn(B, H, S, 6, generator=generator, dtype=torch.float64)
    score = General(E, 6)
    torch.nn.init.normal_(score.weight, generator=generator)
    matrix = score.weight.double().tolist()

    def match(q, k):
        return sum(q[i] * matrix[i][j] * k[j] for i in range(E) for j in range(6))

    torch.testing.assert_close(score(query, key), looped(query, key, match), **EXACT)


def test_general_is_dot_with_a_projected_query(query, key, generator):
    score = General(E)
    torch.nn.init.normal_(score.weight, generator=generator)
    projected = query @ score.weight.double()
    torch.testing.assert_close(score(query, key), Dot()(projected, key), **EXACT)
    backwards = query @ score.weight.double().T
    assert not torch.allclose(score(query, key), Dot()(backwards, key))


def test_additive_is_a_hidden_layer_of_tanh(query, key, generator):
    score = Additive(E)
    torch.nn.init.normal_(score.weight, generator=generator)
    va = score.weight.double().tolist()

    def match(q, k):
        return sum(v * math.tanh(a + b) for v, a, b in zip(va, q, k, strict=True))

    torch.testing.assert_close(score(query, key), looped(query, key, match), **EXACT)


def test_an_untrained_additive_attention_is_exactly_uniform(query, key):
    """va = 0: the first attention looks everywhere alike (Bahdanau et al. 2015, appendix B.1)."""
    attention = ScoredAttention(Additive(E))
    weights = attention.weights(AttentionInputs(query=query.float(), key=key.float()))
    assert torch.equal(weights, torch.full_like(weights, 1 / S))


@pytest.mark.parametrize("width", [64, 512])
def test_the_scale_keeps_scores_at_deviation_one(width, generator):
    """With unit-variance entries: the plain product spreads as sqrt(E), divided by sqrt(E) as 1, divided by E as 1/sqrt(E)."""
    query, key = (torch.randn(1, 1, 400, width, generator=generator) for _ in range(2))
    plain, scaled = Dot()(query, key), ScaledDot()(query, key)
    assert plain.std().item() == pytest.approx(width**0.5, rel=0.02)
    assert scaled.std().item() == pytest.approx(1.0, rel=0.02)
    over_width = plain / width
    assert over_width.std().item() == pytest.approx(width**-0.5, rel=0.02)
    uniform = math.log(400)

    def entropy(scores):
        return torch.distributions.Categorical(logits=scores).entropy().mean().item()

    # Dividing by E comes out close to uniform; the plain product close to one-hot; the square root lies between.
    assert entropy(over_width) > uniform - 0.01
    assert uniform - 0.6 < entropy(scaled) < uniform - 0.4
    assert entropy(plain) < 0.3 * uniform


@pytest.mark.parametrize("score", [Dot(), ScaledDot(), General(E), Additive(E)], ids=lambda s: type(s).__name__)
def test_a_declared_product_scale_is_the_truth(score, query, key):
    """Where a score says it is c times the inner product, it is; the fused kernel relies on it."""
    scale = score.product_scale(E)
    if isinstance(score, Dot | ScaledDot):
        torch.testing.assert_close(score(query, key), scale * Dot()(query, key), **EXACT)
    else:
        assert scale is None


@given(shift=st.floats(-50, 50), seed=st.integers(0, 2**16))
@settings(max_examples=30, deadline=None)
def test_the_softmax_ignores_a_shift_of_all_scores(shift, seed):
    """A constant added to every score of a query changes no weight; adding u to every key does just that under `Dot`."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(1, 2, 3, 4, generator=generator, dtype=torch.float64)
    key = torch.randn(1, 2, 5, 4, generator=generator, dtype=torch.float64)
    attention = ScoredAttention(Dot())
    plain = attention.weights(AttentionInputs(query=query, key=key))
    moved = attention.weights(AttentionInputs(query=query, key=key + shift))
    torch.testing.assert_close(moved, plain, rtol=1e-9, atol=1e-12)
