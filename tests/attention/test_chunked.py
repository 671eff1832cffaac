"""Local attention in chunks: the fast path against the equation, padding, and short texts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import AttentionInputs, Causal, ChunkedAttention, Dense, Padding

B, H, E, EV = 2, 3, 4, 5


def built(length, generator, mask=None):
    query, key = (torch.randn(B, H, length, E, generator=generator, dtype=torch.float64) for _ in range(2))
    value = torch.randn(B, H, length, EV, generator=generator, dtype=torch.float64, requires_grad=True)
    return AttentionInputs(query=query.requires_grad_(), key=key.requires_grad_(), mask=mask), value


@settings(max_examples=25, deadline=None)
@given(
    length=st.integers(1, 30),
    chunk=st.integers(1, 7),
    before=st.integers(0, 3),
    kind=st.integers(0, 3),
    seed=st.integers(0, 9),
)
def test_the_fast_path_is_the_equation_and_so_are_its_gradients(length, chunk, before, kind, seed):
    generator = torch.Generator().manual_seed(seed)
    valid = torch.rand(B, length, generator=generator) < 0.8
    any_of_them = Dense(torch.rand(B, H, length, length, generator=generator) < 0.5)
    inputs, value = built(length, generator, (None, Causal(), Causal() & Padding(valid), any_of_them)[kind])
    attention = ChunkedAttention(chunk=chunk, before=before)
    output, defined = attention(inputs, value), attention.weights(inputs) @ value
    torch.testing.assert_close(output, defined, rtol=1e-10, atol=1e-12)
    upstream = torch.randn(output.shape, generator=generator, dtype=torch.float64)
    leaves = [inputs.query, inputs.key, value]
    fast = torch.autograd.grad(output, leaves, upstream)
    plain = torch.autograd.grad(defined, leaves, upstream)
    torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-11)


def test_a_query_looks_at_its_chunk_and_those_before_it(generator):
    inputs, _ = built(10, generator)
    looked_at = ChunkedAttention(chunk=4, before=1).weights(inputs)[0, 0] > 0
    assert looked_at[2].tolist() == [True] * 4 + [False] * 6
    assert looked_at[5].tolist() == [True] * 8 + [False] * 2
    assert looked_at[9].tolist() == [False] * 4 + [True] * 6


def test_places_count_from_the_first_real_token_where_they_are_given(generator):
    inputs, value = built(10, generator, Causal())
    attention = ChunkedAttention(chunk=4, before=0)
    alone = attention(inputs, value)
    pad = (0, 0, 3, 0)
    query, key, longer = (torch.nn.functional.pad(x, pad, value=2.0) for x in (inputs.query, inputs.key, value))
    valid = torch.ones(B, 13, dtype=torch.bool)
    valid[:, :3] = False
    places = (torch.arange(13) - 3).clamp_min(0).expand(B, -1)
    padded = AttentionInputs(
        query=query, key=key, mask=Causal() & Padding(valid), query_positions=places, key_positions=places
    )
    torch.testing.assert_close(attention(padded, longer)[:, :, 3:], alone)


@pytest.mark.parametrize("wrong", [{"chunk": 0}, {"chunk": 4, "before": -1}])
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="at least 1"):
        ChunkedAttention(**wrong)


def test_places_of_queries_alone_and_more_queries_than_keys(generator):
    """Both ways are one, whatever is given; queries that are not among the keys have places of their own."""
    inputs, value = built(10, generator)
    attention = ChunkedAttention(chunk=4, before=0)
    turned = AttentionInputs(query=inputs.query, key=inputs.key, query_positions=torch.arange(9, -1, -1).expand(B, -1))
    assert (attention.weights(turned)[0, 0, 0] > 0).tolist() == [False] * 8 + [True] * 2
    fewer = AttentionInputs(query=inputs.query, key=inputs.key[:, :, :7])
    for case, values in ((turned, value), (fewer, value[:, :, :7])):
        torch.testing.assert_close(attention(case, values), attention.weights(case) @ values, rtol=1e-9, atol=1e-11)
