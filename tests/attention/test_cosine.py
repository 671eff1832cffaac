from __future__ import annotations

import math

import pytest
import torch

from regard.attention import AttentionInputs, Cosine, ScoredAttention

B, H, L, S, E = 2, 3, 2, 5, 4
EXACT = {"rtol": 1e-10, "atol": 1e-12}


def drawn(generator, record=None):
    query, key = (torch.randn(B, H, n, E, generator=generator, dtype=torch.float64) for n in (L, S))
    return AttentionInputs(query=query, key=key, record=record or {})


def cosine(a, b):
    product = sum(x * y for x, y in zip(a, b, strict=True))
    return product / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(y * y for y in b))


def test_the_weights_are_a_softmax_of_strength_times_cosine(generator):
    strengths = torch.rand(B, H, L, generator=generator, dtype=torch.float64) * 9
    inputs = drawn(generator, {"strength": strengths})
    weights = ScoredAttention(Cosine(77.0)).weights(inputs)
    for b in range(B):
        for h in range(H):
            keys = inputs.key[b, h].tolist()
            for t, query in enumerate(inputs.query[b, h].tolist()):
                shares = [math.exp(strengths[b, h, t].item() * cosine(query, key)) for key in keys]
                expected = [share / sum(shares) for share in shares]
                torch.testing.assert_close(weights[b, h, t].tolist(), expected, **EXACT)


def test_the_constant_stands_in_for_a_strength_that_is_not_there(generator):
    inputs = drawn(generator)
    same = drawn(torch.Generator().manual_seed(20170612), {"strength": torch.full((B, H, L), 2.5)})
    torch.testing.assert_close(
        Cosine(2.5)(inputs.query, inputs.key, inputs), Cosine()(same.query, same.key, same), **EXACT
    )


def test_length_has_no_say_and_no_number_is_too_small_or_large(generator):
    inputs = drawn(generator)
    score = Cosine(3.0)
    plain = score(inputs.query.float(), inputs.key.float())
    assert plain.abs().max() <= 3.0 + 1e-6
    for factor in (1e-30, 1e-3, 1e30):
        scaled = score((inputs.query * factor).float(), inputs.key.float())
        torch.testing.assert_close(scaled, plain, rtol=1e-5, atol=1e-6)


def test_b13_a_cosine_needs_a_strength_to_look_up_the_nearest_key(generator):
    """A cosine alone can hardly prefer; the strength turns the softmax into a hard choice."""
    inputs = drawn(generator)
    nearest = Cosine()(inputs.query, inputs.key).argmax(dim=-1)
    largest = [ScoredAttention(Cosine(beta)).weights(inputs).amax(dim=-1).min().item() for beta in (1.0, 10.0, 1e4)]
    assert largest[0] < largest[1] < largest[2]
    hard = ScoredAttention(Cosine(1e6)).weights(inputs)
    torch.testing.assert_close(hard, torch.nn.functional.one_hot(nearest, S).double())


@pytest.mark.parametrize("zeros", ["query", "key"])
def test_a_vector_of_zeros_matches_nothing_and_passes_back_zero(zeros, generator):
    inputs = drawn(generator)
    query, key = inputs.query.clone(), inputs.key.clone()
    (query if zeros == "query" else key)[:, :, 1] = 0
    query.requires_grad_(), key.requires_grad_()
    scores = Cosine(5.0)(query, key)
    assert (scores[:, :, 1] if zeros == "query" else scores[..., 1]).abs().max() == 0
    scores.square().sum().backward()
    scores = Cosine(5.0)(query, key)
    scores.sum().backward()
    here, other = (query, key) if zeros == "query" else (key, query)
    assert (here.grad[:, :, 1] == 0).all()
    assert here.grad[:, :, 0].any()
    assert other.grad.isfinite().all()


def test_gradients_are_those_of_finite_differences(generator):
    query, key = (torch.randn(1, 1, n, 3, generator=generator, dtype=torch.float64).requires_grad_() for n in (2, 3))
    assert torch.autograd.gradcheck(lambda q, k: Cosine(2.0)(q, k), (query, key))


def test_a_strength_of_another_shape_is_refused_by_both_shapes(generator):
    inputs = drawn(generator, {"strength": torch.ones(B, 1, L)})
    with pytest.raises(ValueError, match=r"strength has shape \(2, 1, 2\); it must be \(2, 3, 2\)"):
        ScoredAttention(Cosine()).weights(inputs)


def test_it_is_no_product_of_query_and_key():
    assert Cosine().product_scale(E) is None
