from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import (
    AttentionInputs,
    Causal,
    Padding,
    RelativeBias,
    RelativeDot,
    ScoredAttention,
    buckets_of,
    positions_of,
)
from regard.attention.relative import BIAS

H, E = 2, 4
EXACT = {"rtol": 1e-10, "atol": 1e-12}


def bucket(distance: int, buckets: int, maximum: int, both_ways: bool) -> int:
    """The equation, number by number."""
    each = buckets // 2 if both_ways else buckets
    far = abs(distance) if both_ways else max(-distance, 0)
    exact = each // 2
    place = far
    if far >= exact:
        share = math.log(far / exact) / math.log(maximum / exact)
        place = min(exact + math.floor(share * (each - exact) + 1e-6), each - 1)
    return place + (each if both_ways and distance > 0 else 0)


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(("buckets", "maximum"), [(32, 128), (8, 20), (4, 3)])
def test_buckets_are_the_equation(buckets, maximum, both_ways):
    distances = range(-2 * maximum, 2 * maximum + 1)
    found = buckets_of(torch.tensor(distances), buckets=buckets, maximum_distance=maximum, both_ways=both_ways)
    assert found.tolist() == [bucket(each, buckets, maximum, both_ways) for each in distances]


@given(half=st.integers(2, 40), beyond=st.integers(1, 300), both_ways=st.booleans(), distance=st.integers(-5000, 5000))
def test_buckets_widen_and_never_leave_the_table(half, beyond, both_ways, distance):
    settings = {"buckets": 2 * half, "maximum_distance": half + beyond, "both_ways": both_ways}
    here, farther = buckets_of(torch.tensor([distance, 2 * distance]), **settings).tolist()
    assert 0 <= here < 2 * half
    assert farther >= here
    if both_ways and distance > 0:
        assert here == half + buckets_of(torch.tensor([-distance]), **settings).item()
    if not both_ways and distance >= 0:
        assert here == 0


@pytest.fixture
def bias(generator):
    bias = RelativeBias(H, buckets=8, maximum_distance=6).double()
    torch.nn.init.normal_(bias.weight, generator=generator)
    return bias


def drawn(generator, valid):
    def random(length):
        return torch.randn(len(valid), H, length, E, generator=generator, dtype=torch.float64)

    return AttentionInputs(query=random(valid.shape[1]), key=random(valid.shape[1]), mask=Padding(valid))


def test_the_score_is_the_product_plus_the_bias_and_nothing_divides_it(bias, generator):
    inputs = drawn(generator, torch.ones(1, 5, dtype=torch.bool))
    score = RelativeDot(bias)(inputs.query, inputs.key, inputs)
    for head in range(H):
        for i in range(5):
            for j in range(5):
                product = (inputs.query[0, head, i] * inputs.key[0, head, j]).sum()
                expected = product + bias.weight[bucket(j - i, 8, 6, True), head]
                torch.testing.assert_close(score[0, head, i, j], expected, **EXACT)


@pytest.mark.parametrize("side", ["left", "right"])
def test_slots_are_as_good_as_positions_whichever_side_is_padded(side, bias, generator):
    valid = torch.arange(6) < torch.tensor([6, 4])[:, None]
    valid = valid.flip(1) if side == "left" else valid
    by_slots = drawn(generator, valid)
    places = positions_of(valid)
    by_places = AttentionInputs(
        query=by_slots.query, key=by_slots.key, mask=by_slots.mask, query_positions=places, key_positions=places
    )
    attention = ScoredAttention(RelativeDot(bias))
    seen = valid[:, None, :, None].expand(-1, H, -1, 6)
    found, expected = attention.weights(by_slots), attention.weights(by_places)
    torch.testing.assert_close(found[seen], expected[seen], **EXACT)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 7), (7, 1), (5, 9), (40, 40)])
@pytest.mark.parametrize("both_ways", [True, False])
def test_the_stretches_between_slots_are_those_between_positions(queries, keys, both_ways, generator):
    bias = RelativeBias(3, buckets=6, maximum_distance=11, both_ways=both_ways).double()
    torch.nn.init.normal_(bias.weight, generator=generator)
    found = bias.between_slots(queries, keys)
    expected = bias.between(torch.arange(queries)[None], torch.arange(keys)[None])
    assert torch.equal(found, expected)
    upstream = torch.randn(found.shape, generator=generator, dtype=torch.float64)
    ours, plain = (torch.autograd.grad(each, bias.weight, upstream)[0] for each in (found, expected))
    torch.testing.assert_close(ours, plain)


def test_a_bias_in_the_record_stands_in_for_the_layers_own(bias, generator):
    inputs = drawn(generator, torch.ones(2, 5, dtype=torch.bool))
    value = torch.randn(2, H, 5, 3, generator=generator, dtype=torch.float64)
    shared = AttentionInputs(
        query=inputs.query, key=inputs.key, mask=inputs.mask, record={BIAS: bias.between_slots(5, 5)}
    )
    alone, together = ScoredAttention(RelativeDot(bias)), ScoredAttention(RelativeDot())
    torch.testing.assert_close(together.weights(shared), alone.weights(inputs), **EXACT)
    torch.testing.assert_close(together(shared, value), alone(inputs, value), **EXACT)
    with pytest.raises(ValueError, match="no bias by distance"):
        together.weights(inputs)


def test_the_fused_kernel_is_used(bias, generator, monkeypatch):
    called = []
    kernel = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda *given, **named: called.append(named["scale"]) or kernel(*given, **named),
    )
    inputs = drawn(generator, torch.ones(1, 5, dtype=torch.bool))
    causal = AttentionInputs(query=inputs.query, key=inputs.key, mask=Causal())
    attention = ScoredAttention(RelativeDot(bias)).eval()
    torch.testing.assert_close(attention(causal, inputs.key), attention.weights(causal) @ inputs.key, **EXACT)
    assert called == [1.0]


@pytest.mark.parametrize("settings", [{"buckets": 7}, {"buckets": 2}, {"buckets": 8, "maximum_distance": 2}])
def test_buckets_that_cannot_be_dealt_out_are_refused(settings):
    with pytest.raises(ValueError, match="each direction needs at least 2 buckets"):
        RelativeBias(H, **settings)


def test_a_querys_position_counts_where_the_keys_have_none(bias, generator):
    """As in decoding without padding: the newest token over a cache."""
    inputs = drawn(generator, torch.ones(2, 5, dtype=torch.bool))
    whole = ScoredAttention(RelativeDot(bias)).weights(
        AttentionInputs(query=inputs.query, key=inputs.key, mask=Causal())
    )
    newest = {"query": inputs.query[:, :, 3:4], "key": inputs.key[:, :, :4]}
    for case in (AttentionInputs(**newest, query_positions=torch.full((2, 1), 3)), AttentionInputs(**newest)):
        weights = ScoredAttention(RelativeDot(bias)).weights(case)
        torch.testing.assert_close(weights, whole[:, :, 3:4, :4], **EXACT)
