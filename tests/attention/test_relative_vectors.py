from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import (
    AttentionInputs,
    Causal,
    MultiHeadAttention,
    Padding,
    RelativeAttention,
    RelativeKeys,
    RelativeVectors,
    ScoredAttention,
)
from regard.attention.relative import skewed

H, E = 2, 4
EXACT = {"rtol": 1e-10, "atol": 1e-12}
KINDS = [
    {"both_ways": True, "beyond": "last"},
    {"both_ways": True, "beyond": "nothing"},
    {"both_ways": False, "beyond": "last"},
    {"both_ways": False, "beyond": "nothing"},
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind['both_ways']}-{kind['beyond']}")


def vectors(farthest, kind, *, heads=H, generator=None):
    made = RelativeVectors(E, farthest, heads=heads, **kind).double()
    torch.nn.init.normal_(made.weight, generator=generator)
    return made


def vector(made, head, distance):
    """The equation for one distance, by hand."""
    k, both = made.maximum_distance, made.both_ways
    zero = torch.zeros(E, dtype=torch.float64)
    if distance > 0 and not both:
        return zero
    if abs(distance) > k:
        if made.beyond == "nothing":
            return zero
        distance = math.copysign(k, distance)
    return made.weight[head if len(made.weight) > 1 else 0, int(distance) + k]


def drawn(generator, queries, keys, batch=3, width=E):
    def random(length):
        return torch.randn(batch, H, length, width, generator=generator, dtype=torch.float64).requires_grad_()

    return AttentionInputs(query=random(queries), key=random(keys))


@every_kind
@pytest.mark.parametrize("heads", [1, H])
@pytest.mark.parametrize("farthest", [0, 2, 20])
def test_the_score_is_the_equation(kind, heads, farthest, generator):
    made = vectors(farthest, kind, heads=heads, generator=generator)
    inputs = drawn(generator, 5, 6, batch=1)
    score = RelativeKeys(made)(inputs.query, inputs.key, inputs)
    for head in range(H):
        for i in range(5):
            for j in range(6):
                q, k = inputs.query[0, head, i], inputs.key[0, head, j]
                expected = (
                    q @ (k + vector(made, head, j - (i + 1))) / math.sqrt(E)
                )  # the queries are the last 5 of the 6
                torch.testing.assert_close(score[0, head, i, j], expected, **EXACT)


@given(
    queries=st.integers(1, 9),
    keys=st.integers(1, 9),
    farthest=st.integers(0, 12),
    kind=st.sampled_from(KINDS),
    heads=st.sampled_from([1, H]),
)
def test_the_skew_is_the_naive_gather_exactly_and_so_are_its_gradients(queries, keys, farthest, kind, heads):
    generator = torch.Generator().manual_seed(queries * 100 + keys)
    made = vectors(farthest, kind, heads=heads, generator=generator)
    query = torch.randn(2, H, queries, E, generator=generator, dtype=torch.float64).requires_grad_()
    distance = torch.arange(keys) - torch.arange(queries).unsqueeze(-1)
    naive = (query.unsqueeze(-2) * made(distance)).sum(dim=-1)  # (B, H, L, S, E) laid out
    upstream = torch.randn(naive.shape, generator=generator, dtype=torch.float64)
    expected = torch.autograd.grad(naive, [query, made.weight], upstream)
    for found in (made.products_of_slots(query, keys), made.products(query, distance.unsqueeze(0))):
        torch.testing.assert_close(found, naive, **EXACT)
        torch.testing.assert_close(torch.autograd.grad(found, [query, made.weight], upstream), expected, **EXACT)


def test_the_skew_only_moves_numbers():
    """The paper's steps: pad on the left, read with another row length, drop the first row; below the diagonal bit for bit."""
    length = 7
    products = torch.randn(2, 3, length, length)
    padded = torch.nn.functional.pad(products, (1, 0))
    papers = padded.view(2, 3, length + 1, length)[:, :, 1:]
    assert torch.equal(skewed(padded, length, length), papers)
    for i in range(length):
        for j in range(i + 1):
            assert torch.equal(papers[..., i, j], products[..., i, j - i + length - 1])


@every_kind
def test_sums_of_vectors_are_the_naive_ones(kind, generator):
    made = vectors(3, kind, generator=generator)
    weights = torch.rand(2, H, 5, 7, generator=generator, dtype=torch.float64)
    distance = torch.arange(7) - torch.arange(5).unsqueeze(-1)
    expected = (weights.unsqueeze(-1) * made(distance)).sum(dim=-2)
    torch.testing.assert_close(made.sums(weights, distance.unsqueeze(0)), expected, **EXACT)


def test_the_memory_grows_with_length_times_width_and_not_with_its_square():
    """No tensor that autograd keeps, or that is made, has L x L x E numbers: the largest is L x (L + 1)."""
    length, width = 64, 32
    made = RelativeVectors(width, length - 1, both_ways=False)
    query = torch.randn(1, 1, length, width, requires_grad=True)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        made.products_of_slots(query, length).square().sum().backward()
    assert max(kept) <= length * (length + 1)
    assert made.weight.numel() == length * width


def test_an_attention_layer_knows_order_by_distance_alone(generator, seeded):
    """Moved along by any number of places, and padded on either side, the outputs are the same."""
    mechanism = RelativeAttention(RelativeVectors(E, 3, heads=H), RelativeVectors(E, 3))
    layer = MultiHeadAttention(H * E, H, attention=mechanism).double()
    x = torch.randn(1, 6, H * E, generator=generator, dtype=torch.float64)
    plain = layer(x, layer.keys_values(x))
    places = torch.arange(6).unsqueeze(0) + 1000
    torch.testing.assert_close(
        layer(x, layer.keys_values(x), query_positions=places, key_positions=places), plain, **EXACT
    )
    for before, after in ((2, 0), (0, 3), (1, 1)):
        wide = torch.nn.functional.pad(x, (0, 0, before, after), value=1.7)
        valid = torch.zeros(1, 6 + before + after, dtype=torch.bool)
        valid[:, before : before + 6] = True
        found = layer(wide, layer.keys_values(wide), mask=Padding(valid))
        torch.testing.assert_close(found[:, before : before + 6], plain, **EXACT)
    turned = layer(x.flip(1), layer.keys_values(x.flip(1))).flip(1)
    assert not torch.allclose(turned, plain)


@every_kind
def test_fused_and_plain_agree_on_slots(kind, generator):
    attention = ScoredAttention(RelativeKeys(vectors(3, kind, generator=generator)))
    inputs = drawn(generator, 6, 6)
    inputs = AttentionInputs(query=inputs.query, key=inputs.key, mask=Causal())
    value = torch.randn(3, H, 6, 5, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(attention(inputs, value), attention.weights(inputs) @ value, **EXACT)


def test_keys_after_the_query_have_no_vector_backwards(generator):
    made = vectors(2, {"both_ways": False, "beyond": "last"}, generator=generator)
    assert (made(torch.tensor([1, 5])) == 0).all()
    assert torch.equal(made(torch.tensor([-7])), made(torch.tensor([-2])))


def test_sizes_that_are_none_are_refused():
    with pytest.raises(ValueError, match="at least 1 and 0"):
        RelativeVectors(4, -1)
    with pytest.raises(ValueError, match="at least 1 and 0"):
        RelativeVectors(4, 3, heads=0)
