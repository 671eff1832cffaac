"""Attention of texts in one row in training, by the compiled kernel, against its equation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import AttentionInputs, Rows, ScaledDot, ScoredAttention, Unpadded
from regard.attention.dropping import dropped
from regard.attention.texts import TextAttention, attention_of_texts, by_equation
from regard.kernels import Kernels, kernels

HEADS, WIDTH = 2, 6


def masks(lengths, others=None, *, causal=False, side="right"):
    def rows(many):
        columns = torch.arange(max(many) + 1)
        spots = torch.tensor(many).unsqueeze(1)
        return Rows.of(columns < spots if side == "right" else columns >= len(columns) - spots)

    asking = rows(lengths)
    return Unpadded.over(asking, asking if others is None else rows(others), causal=causal)


def drawn(mask, dtype, generator, width=WIDTH):
    sizes = (len(mask.queries.kept), len(mask.keys.kept), len(mask.keys.kept))
    return [
        torch.randn(1, HEADS, size, width, generator=generator, dtype=torch.float32).to(dtype).requires_grad_()
        for size in sizes
    ]


def plainly(query, key, value, mask, scale, dropout, seed):
    wanted = TextAttention(mask, scale, dropout, seed, None)
    rows = (x.squeeze(0).transpose(0, 1) for x in (query, key, value))
    return by_equation(*rows, wanted).transpose(0, 1).unsqueeze(0)


@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=5).filter(any),
    others=st.integers(0, 40),
    width=st.sampled_from([1, 5, 16, 20]),
    causal=st.booleans(),
    dropout=st.sampled_from([0.0, 0.3]),
    narrow=st.booleans(),
    side=st.sampled_from(["right", "left"]),
)
@settings(max_examples=60, deadline=None)
def test_output_and_gradients_are_those_of_the_equation(lengths, others, width, causal, dropout, narrow, side):
    dtype = torch.bfloat16 if narrow else torch.float32
    mask = masks(lengths, None if causal else [others, *lengths[1:]], causal=causal, side=side)
    generator = torch.Generator().manual_seed(1)
    given_ = drawn(mask, dtype, generator, width)
    torch.manual_seed(9)
    found = attention_of_texts(*given_, mask, 0.7, dropout)
    torch.manual_seed(9)
    seed = int(torch.randint(2**63 - 1, ())) if dropout else 0
    wanted = plainly(*given_, mask, 0.7, dropout, seed)
    assert found.dtype == dtype
    upstream = torch.randn(found.shape, generator=generator).to(dtype)
    slopes = torch.autograd.grad(found, given_, upstream)
    right = torch.autograd.grad(wanted, given_, upstream)
    for one, other in zip((found, *slopes), (wanted, *right), strict=True):
        high = float(other.detach().abs().max()) if other.numel() else 0.0
        # Both sum in float32 and round the result to bfloat16 at most.
        torch.testing.assert_close(one, other, rtol=1.6e-2 if narrow else 1e-4, atol=2e-5 * (1 + high))


def test_a_gradient_of_the_gradient(generator):
    mask = masks([3, 5])
    query, key, value = drawn(mask, torch.float32, generator)
    rates = []
    for attend in (attention_of_texts, lambda *all_: plainly(*all_, 0)):
        found = attend(query, key, value, mask, 0.5, 0.0)
        (slope,) = torch.autograd.grad(found.pow(2).sum(), query, create_graph=True)
        rates.append(torch.autograd.grad(slope.pow(2).sum(), (query, key, value)))
    for one, other in zip(*rates, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_text_has_the_same_bits_alone_and_on_any_number_of_threads(dropout, generator):
    mask = masks([7, 20, 3], causal=True)
    given_ = drawn(mask, torch.float32, generator)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(5)
            output = attention_of_texts(*given_, mask, 0.5, dropout)
            found.append((output, *torch.autograd.grad(output.sum(), given_)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    if not dropout:
        alone = [x.detach()[:, :, 7:27].requires_grad_() for x in given_]
        output = attention_of_texts(*alone, masks([20], causal=True), 0.5, 0.0)
        single = (output, *torch.autograd.grad(output.sum(), alone))
        assert all(torch.equal(one[:, :, 7:27], other) for one, other in zip(found[0], single, strict=True))


@pytest.mark.parametrize("side", ["right", "left"])
def test_with_and_without_the_kernel_the_same_weights_are_dropped(side, generator, monkeypatch):
    mask = masks([4, 9, 2], side=side)
    query, key, value = drawn(mask, torch.float32, generator)
    attention = ScoredAttention(ScaledDot(), dropout=0.4).train()
    inputs = AttentionInputs(query=query, key=key, mask=mask)
    found = []
    for library in (kernels(), Kernels(None, "there is no compiler")):
        monkeypatch.setattr("regard.attention.texts.kernels", lambda library=library: library)
        torch.manual_seed(2)
        found.append(attention(inputs, value))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)
    assert not torch.equal(found[0], found[1]), "one of them is the kernel's"


def test_numbers_that_the_kernel_does_not_read_are_left_to_pytorch(generator):
    mask = masks([3, 5])
    query, key, value = (x.double() for x in drawn(mask, torch.float32, generator))
    assert attention_of_texts(query, key, value, mask, 0.5, 0.0) is None
    assert attention_of_texts(query.float(), key.float()[:, :1], value.float()[:, :1], mask, 0.5, 0.0) is None
    assert attention_of_texts(query.float(), key.float(), value.float()[..., :2], mask, 0.5, 0.0) is None


def test_dropping_nothing_is_attention(generator):
    mask = masks([3, 5])
    query, key, value = drawn(mask, torch.float32, generator)
    plain = attention_of_texts(query, key, value, mask, 0.5, 0.0)
    torch.testing.assert_close(attention_of_texts(query, key, value, mask, 0.5, 1e-9), plain)
    assert torch.equal(dropped(plain, 0.0), plain)
