"""Attention whose weights are dropped, on processors: with next to nothing dropped it is the attention itself."""

from __future__ import annotations

import pytest
import torch

from regard.attention import AttentionInputs, Causal, Dense, Padding, ScaledDot, ScoredAttention
from regard.attention.dropping import dropped, kept, sample_seed
from regard.kernels import Kernels

B, H, G, L, S, E = 2, 4, 2, 5, 7, 3


def masks():
    valid = torch.tensor([[True] * 5 + [False] * 2, [True] * 7])
    some = torch.rand(B, 1, L, S, generator=torch.Generator().manual_seed(1)) < 0.6
    some[0, 0, 2] = False  # a query with nothing visible
    return {"none": None, "padding": Padding(valid), "causal": Causal(offset=2), "dense": Dense(some)}


def drawn(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return (
        torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        .to(dtype)
        .requires_grad_()
    )


@pytest.mark.parametrize("mask", ["none", "padding", "causal", "dense"])
@pytest.mark.parametrize("key_heads", [H, G])
def test_with_nothing_dropped_it_is_the_attention_itself(mask, key_heads):
    query, key, value = drawn(B, H, L, E, seed=1), drawn(B, key_heads, S, E, seed=2), drawn(B, key_heads, S, E, seed=3)
    inputs = AttentionInputs(query=query, key=key, mask=masks()[mask])
    dropping = ScoredAttention(ScaledDot(), dropout=1e-9).train()  # rounds to no entry in 65,536
    plain = ScoredAttention(ScaledDot()).train()
    outputs = [mechanism(inputs, value) for mechanism in (dropping, plain)]
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-10, atol=1e-12)
    weight = torch.arange(outputs[0].numel(), dtype=torch.float64).view(outputs[0].shape).cos()
    gradients = [torch.autograd.grad((output * weight).sum(), (query, key, value)) for output in outputs]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_a_query_with_nothing_visible_gives_exact_zeros_and_no_gradient():
    query, key, value = (drawn(B, H, L if i == 0 else S, E, seed=i) for i in range(3))
    inputs = AttentionInputs(query=query, key=key, mask=masks()["dense"])
    output = ScoredAttention(ScaledDot(), dropout=0.3).train()(inputs, value)
    assert (output[0, :, 2] == 0).all()
    output.sum().backward()
    assert (query.grad[0, :, 2] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_low_precision_stays_finite(dtype):
    query, key, value = (30 * drawn(B, H, L if i == 0 else S, E, seed=i, dtype=dtype).detach() for i in range(3))
    for mask in masks().values():
        output = ScoredAttention(ScaledDot(), dropout=0.2).train()(
            AttentionInputs(query=query, key=key, mask=mask), value
        )
        assert output.dtype == dtype
        assert output.isfinite().all()


def test_under_autocast_matrix_products_are_bfloat16_and_float64_stays(seeded):
    query, key, value = (drawn(B, H, L if i == 0 else S, E, seed=i, dtype=torch.float32) for i in range(3))
    mechanism = ScoredAttention(ScaledDot(), dropout=1e-9).train()
    exact = mechanism(AttentionInputs(query=query, key=key), value)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = mechanism(AttentionInputs(query=query, key=key), value)
        double = mechanism(AttentionInputs(query=query.double(), key=key.double()), value.double())
    assert not torch.equal(exact, rounded)
    torch.testing.assert_close(rounded, exact, rtol=3e-2, atol=3e-2)
    torch.testing.assert_close(double, exact.double(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_as_many_are_dropped_as_said_and_the_mean_stays(p, seeded):
    x = torch.ones(200_000)
    found = dropped(x, p)
    assert (found == 0).float().mean().item() == pytest.approx(p, abs=0.006)
    assert found.mean().item() == pytest.approx(1, abs=0.01)


def test_a_seed_fixes_what_is_dropped_and_each_call_drops_others():
    x = torch.ones(1_000)
    torch.manual_seed(7)
    first, second = dropped(x, 0.5), dropped(x, 0.5)
    torch.manual_seed(7)
    assert torch.equal(dropped(x, 0.5), first)
    assert not torch.equal(first, second)
    together = ((first > 0) & (second > 0)).float().mean().item()
    assert together == pytest.approx(0.25, abs=0.06)


def test_next_to_everything_may_be_dropped():
    torch.manual_seed(1)
    found = dropped(torch.ones(400_000), 0.999995)
    assert found.isfinite().all()
    assert 0 < int((found > 0).sum()) < 40
    assert set(found.unique().tolist()) == {0.0, 65536.0}


@pytest.fixture(params=["float32", "bfloat16"])
def dtype(request):
    return getattr(torch, request.param)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 7, 11), (70_001,)])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9999])
def test_the_kernel_drops_what_the_mask_of_its_seed_drops_forwards_and_backwards(shape, p, dtype):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(5)).to(dtype).requires_grad_()
    torch.manual_seed(3)
    mask = kept(x, p, sample_seed())
    torch.manual_seed(3)
    found = dropped(x, p)
    assert torch.equal(found, x * mask)
    upstream = torch.ones_like(x) * 3
    (slope,) = torch.autograd.grad(found, x, upstream, create_graph=True)
    assert torch.equal(slope, upstream * mask)
    (again,) = torch.autograd.grad((dropped(x, p) ** 2).sum(), x, create_graph=True)
    again.sum().backward()  # a gradient of the gradient
    assert x.grad.shape == x.shape


def test_without_the_kernel_the_same_is_dropped(monkeypatch, dtype):
    x = torch.ones(3, 777, dtype=dtype, requires_grad=True)
    torch.manual_seed(4)
    found = dropped(x, 0.2)
    monkeypatch.setattr("regard.attention.dropping.kernels", lambda: Kernels(None, "there is no compiler"))
    torch.manual_seed(4)
    assert torch.equal(dropped(x, 0.2), found)


def test_a_tensor_that_is_turned_is_dropped_as_it_stands():
    x = torch.randn(40, 30).t()
    torch.manual_seed(1)
    found = dropped(x, 0.5)
    torch.manual_seed(1)
    assert torch.equal(found, dropped(x.contiguous(), 0.5))


def test_the_bits_of_a_word_are_independent():
    """Entries one to four places apart are dropped together as often as chance has it."""
    held = (kept(torch.empty(4_000_000), 0.5, 7) > 0).double()
    assert abs(held.mean() - 0.5) < 0.001
    for distance in (1, 2, 3, 4, 8, 64):
        both = (held[:-distance] * held[distance:]).mean()
        assert abs(both - 0.25) < 0.001, distance
