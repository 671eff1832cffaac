"""LSH attention: hashing, the sets of keys, the fast path against the equations, and what is left when nothing is cut."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import AttentionInputs, Causal, Dense, Document, LSHAttention, Mask, Padding
from regard.attention.lsh import ALONE, BUCKETS, ROTATIONS, buckets_by_rotation, sample_rotations, unit, usual_buckets

B, H, E, EV = 2, 3, 6, 5


def case(length, generator, *, mask=None, dtype=torch.float64):
    query, key = (torch.randn(B, length, H, E, generator=generator, dtype=dtype).transpose(1, 2) for _ in range(2))
    value = torch.randn(B, H, length, EV, generator=generator, dtype=dtype)
    leaves = [query.requires_grad_(), key.requires_grad_(), value.requires_grad_()]
    return AttentionInputs(query=query, key=key, mask=mask), value, leaves


def masks(length: int, generator) -> dict[str, Mask | None]:
    valid = torch.ones(B, length, dtype=torch.bool)
    valid[0, :3], valid[1, length - 2 :] = False, False
    return {
        "none": None,
        "causal": Causal(),
        "padding": Padding(valid),
        "causal and padding": Causal() & Padding(valid),
        "documents": Causal() & Document((torch.arange(length) // 7).expand(B, -1)),
        "any": Dense(torch.rand(B, H, length, length, generator=generator) < 0.4),
    }


@pytest.mark.parametrize("sets", ["bucket", "chunk"])
@pytest.mark.parametrize("mask", ["none", "causal", "padding", "causal and padding", "documents", "any"])
@pytest.mark.parametrize(
    ("length", "chunk", "rounds", "before"),
    [(12, 4, 1, 1), (23, 4, 3, 1), (17, 8, 2, 2), (30, 5, 2, 0), (13, 5, 3, 5), (9, 4, 1, 6)],
)
def test_the_fast_path_is_the_equation_and_so_are_its_gradients(sets, mask, length, chunk, rounds, before, generator):
    attention = LSHAttention(chunk=chunk, rounds=rounds, buckets=(4,), before=before, sets=sets, filled=(chunk, 6))
    inputs, value, leaves = case(length, generator, mask=masks(length, generator)[mask])
    inputs = attention.sample(inputs, generator)
    output, defined = attention(inputs, value), attention.weights(inputs) @ value
    torch.testing.assert_close(output, defined, rtol=1e-10, atol=1e-12)
    upstream = torch.randn(output.shape, generator=generator, dtype=torch.float64)
    fast = torch.autograd.grad(output, leaves, upstream)
    plain = torch.autograd.grad(defined, leaves, upstream, materialize_grads=True)
    torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-10)


@settings(max_examples=25, deadline=None)
@given(
    length=st.integers(1, 40),
    chunk=st.integers(1, 9),
    rounds=st.integers(1, 3),
    before=st.integers(0, 2),
    sets=st.sampled_from(["bucket", "chunk"]),
    seed=st.integers(0, 99),
)
def test_every_length_and_size_agrees_with_the_equation(length, chunk, rounds, before, sets, seed):
    generator = torch.Generator().manual_seed(seed)
    attention = LSHAttention(chunk=chunk, rounds=rounds, buckets=(2, 4), before=before, sets=sets)
    inputs, value, _ = case(length, generator, mask=Causal())
    torch.testing.assert_close(attention(inputs, value), attention.weights(inputs) @ value, rtol=1e-9, atol=1e-10)
    assert torch.allclose(attention.weights(inputs).sum(dim=-1), torch.ones(B, H, length, dtype=torch.float64))


def shared_full(inputs: AttentionInputs) -> torch.Tensor:
    """Full attention with shared queries and keys, as the paper's section 2 says it in words."""
    scores = inputs.query @ unit(inputs.key).transpose(-1, -2)
    length = scores.shape[-1]
    earlier = torch.ones(length, length, dtype=torch.bool).tril(-1)
    weights = scores.masked_fill(~earlier, -math.inf).softmax(dim=-1)
    alone = torch.zeros_like(weights)
    alone[:, :, 0, 0] = 1.0  # the first token has nobody but itself
    return weights.nan_to_num() + alone


@pytest.mark.parametrize("sets", ["bucket", "chunk"])
def test_one_bucket_and_enough_chunks_are_full_attention(sets, generator):
    """Claim 2.4x: with every key in one bucket, and as many chunks before as there are, nothing is left out."""
    inputs, value, _ = case(24, generator, mask=Causal())
    attention = LSHAttention(chunk=8, rounds=2, buckets=(2,), before=2, sets=sets)
    inputs = replace(inputs, record={BUCKETS: torch.zeros(B, H, 2, 24, dtype=torch.int64)})
    expected = shared_full(inputs)
    torch.testing.assert_close(attention.weights(inputs), expected, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(attention(inputs, value), expected @ value, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("length", [1, 2, 7, 8])
def test_a_text_of_one_chunk_is_attended_to_in_full_whatever_the_hashes(length, generator):
    inputs, _, _ = case(length, generator, mask=Causal())
    attention = LSHAttention(chunk=8, rounds=3, buckets=(16,), sets="bucket")
    assert attention.full(length)
    torch.testing.assert_close(attention.weights(inputs), shared_full(inputs), rtol=1e-9, atol=1e-10)


def test_sets_are_those_of_the_paper(generator):
    """P_i by its definition, in loops: the same bucket, this chunk of the order by (bucket, place) or the one before it."""
    attention = LSHAttention(chunk=4, rounds=1, buckets=(4,), sets="bucket")
    inputs, _, _ = case(18, generator)
    inputs = attention.sample(inputs, generator)
    buckets = buckets_by_rotation(inputs.key, inputs.record[ROTATIONS].double(), (4,))
    weights = attention.weights(inputs)
    for row in range(B):
        for head in range(H):
            own = buckets[row, head, 0].tolist()
            order = sorted(range(18), key=lambda j: (own[j], j))
            chunk = {j: place // 4 for place, j in enumerate(order)}
            for i in range(18):
                near = {j for j in range(18) if own[j] == own[i] and chunk[i] - chunk[j] in (0, 1)}
                looked_at = {j for j in range(18) if weights[row, head, i, j] > 0}
                assert looked_at == (near - {i} or {i})


def test_a_key_met_in_several_rounds_counts_once_or_in_each(generator):
    """Identical rounds: one softmax over the same keys by either reading, for every key counts as often as every other."""
    inputs, value, _ = case(20, generator, mask=Causal())
    once = LSHAttention(chunk=4, rounds=1, buckets=(4,), sets="bucket")
    sampled = once.sample(inputs, generator)
    twice = replace(sampled, record={ROTATIONS: sampled.record[ROTATIONS].repeat(1, 1, 1, 2, 1)})
    again = LSHAttention(chunk=4, rounds=2, buckets=(4,), sets="bucket")
    torch.testing.assert_close(again(twice, value), once(sampled, value), rtol=1e-9, atol=1e-10)
    # A key that both rounds hold weighs double beside one that one of them holds.
    each = LSHAttention(chunk=4, rounds=2, buckets=(4,), sets="chunk")
    sampled = each.sample(inputs, generator)
    weights = each.weights(sampled)
    scores = sampled.query @ unit(sampled.key).transpose(-1, -2)
    relative = weights / scores.exp()
    relative = relative / relative.masked_fill(weights == 0, math.inf).amin(dim=-1, keepdim=True)
    times = set(relative[weights > 0].round(decimals=6).tolist())
    assert times > {1.0, 2.0} or times == {1.0, 2.0}
    assert all(time.is_integer() for time in times)


def test_more_rounds_find_more_of_the_heaviest_keys(generator):
    inputs, _, _ = case(64, generator, mask=Causal())
    inputs = replace(inputs, key=inputs.query * 3, query=inputs.query * 3)
    full = shared_full(inputs)
    found = []
    for rounds in (1, 2, 4, 8):
        attention = LSHAttention(chunk=8, rounds=rounds, buckets=(16,), sets="bucket")
        looked_at = attention.weights(attention.sample(inputs, torch.Generator().manual_seed(0))) > 0
        found.append((full * looked_at)[:, :, 1:].sum(dim=-1).mean().item())
    assert found == sorted(found)
    assert found[-1] > found[0] + 0.1


def test_a_query_prefers_anything_to_itself(generator):
    inputs, _, _ = case(9, generator, mask=Causal())
    shared = replace(inputs, key=inputs.query)
    weights = LSHAttention(chunk=16, rounds=1, buckets=(2,)).weights(shared)
    assert (weights[:, :, 0, 0] == 1.0).all()
    assert (weights.diagonal(dim1=-2, dim2=-1)[:, :, 1:] == 0.0).all()
    assert ALONE < -1000


def test_decoding_looks_at_the_sets_of_the_text_so_far(generator):
    attention = LSHAttention(chunk=4, rounds=2, buckets=(4,), sets="bucket")
    inputs, value, _ = case(19, generator, mask=Causal())
    whole = attention(inputs, value)
    last = AttentionInputs(query=inputs.query[:, :, -1:], key=inputs.key)
    torch.testing.assert_close(attention(last, value)[:, :, 0], whole[:, :, -1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_takes_no_place_among_the_hashed(side, generator):
    attention = LSHAttention(chunk=4, rounds=2, buckets=(4,), sets="bucket")
    inputs, value, _ = case(17, generator, mask=Causal())
    alone = attention(inputs, value)
    pad = (0, 0, 6, 0) if side == "left" else (0, 0, 0, 6)
    real = slice(6, None) if side == "left" else slice(0, 17)
    valid = torch.zeros(B, 23, dtype=torch.bool)
    valid[:, real] = True
    longer = [torch.nn.functional.pad(x, pad, value=1.5) for x in (inputs.query, inputs.key, value)]
    padded = AttentionInputs(query=longer[0], key=longer[1], mask=Causal() & Padding(valid))
    torch.testing.assert_close(attention(padded, longer[2])[:, :, real], alone, rtol=1e-9, atol=1e-10)


def test_dropout_is_the_same_when_the_scores_are_computed_again(generator, seeded):
    """The gradient of a draw is that of the output of the same draw, by differences."""
    attention = LSHAttention(chunk=4, rounds=2, buckets=(4,), sets="bucket", dropout=0.4).train()
    inputs, value, leaves = case(12, generator, mask=Causal())
    step = torch.randn(value.shape, generator=generator, dtype=torch.float64)

    def output(shift):
        torch.manual_seed(5)
        return attention(inputs, value + shift * step)

    (gradient,) = torch.autograd.grad(output(0.0).sum(), leaves[2])
    change = (output(1e-3) - output(-1e-3)).sum() / 2e-3
    torch.testing.assert_close((gradient * step).sum(), change.detach(), rtol=1e-7, atol=1e-8)
    assert not torch.allclose(output(0.0), attention.eval()(inputs, value))


def test_near_vectors_share_a_bucket_far_more_often(generator):
    vectors = torch.randn(1, 1, 400, 16, generator=generator)
    near = vectors + 0.1 * torch.randn(vectors.shape, generator=generator)
    rotations = sample_rotations(16, heads=1, rounds=8, buckets=(16,), generator=generator).unsqueeze(0)
    own, close = (buckets_by_rotation(x, rotations, (16,)) for x in (vectors, near))
    assert (own == close).float().mean() > 0.8
    assert (own == own.roll(1, dims=-1)).float().mean() < 0.15
    assert torch.equal(own, buckets_by_rotation(7 * vectors, rotations, (16,)))
    assert own.min() >= 0
    assert own.max() < 16


def test_several_factors_are_one_number_among_their_product(generator):
    vectors = torch.randn(1, 2, 500, 12, generator=generator)
    rotations = sample_rotations(12, heads=2, rounds=2, buckets=(4, 6), generator=generator).unsqueeze(0)
    both = buckets_by_rotation(vectors, rotations, (4, 6))
    assert both.max() == 23
    assert torch.equal(both % 4, buckets_by_rotation(vectors, rotations[..., :2], (4,)))
    assert torch.equal(both // 4, buckets_by_rotation(vectors, rotations[..., 2:], (6,)))


@pytest.mark.parametrize(("length", "chunk"), [(1, 64), (64, 64), (4096, 64), (65536, 64), (524288, 64), (144, 16)])
def test_the_usual_number_of_buckets_is_a_power_of_two_near_twice_the_chunks(length, chunk):
    product = math.prod(usual_buckets(length, chunk))
    assert product & (product - 1) == 0
    assert product == 2 or length / chunk < product <= 2 * length / chunk


@pytest.mark.parametrize(
    "wrong",
    [{"chunk": 0}, {"rounds": 0}, {"buckets": ()}, {"buckets": (3,)}, {"before": -1}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="at least 1"):
        LSHAttention(**{"chunk": 4, "rounds": 1, "buckets": (2,), **wrong})


def test_few_tokens_see_each_other_whatever_stands_beside_them(generator):
    """A text of at most a chunk is looked at all together, also in a batch that is wide enough to be hashed."""
    attention = LSHAttention(chunk=4, rounds=2, buckets=(6,))
    inputs, value, _ = case(3, generator, mask=Causal())
    alone = attention(inputs, value)
    pad = (0, 0, 2, 5)
    query, key, longer = (torch.nn.functional.pad(x, pad, value=0.5) for x in (inputs.query, inputs.key, value))
    valid = torch.zeros(B, 10, dtype=torch.bool)
    valid[:, 2:5] = True
    padded = AttentionInputs(query=query, key=key, mask=Causal() & Padding(valid))
    for found in (attention(padded, longer), attention.weights(padded) @ longer):
        torch.testing.assert_close(found[:, :, 2:5], alone, rtol=1e-10, atol=1e-12)
