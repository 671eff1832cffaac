"""What the contract does not see: which path `ScoredAttention` takes, and that all of them agree."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.attention import (
    Alignment,
    AttentionInputs,
    Causal,
    Dense,
    Dot,
    Padding,
    ScaledDot,
    Score,
    ScoredAttention,
)

B, H, L, S, E = 2, 3, 5, 7, 4


class Undeclared(Score):
    """A score that keeps its product scale to itself, so that no fused kernel is used."""

    def __init__(self, score):
        super().__init__()
        self.score = score

    def forward(self, query, key, inputs=None):
        return self.score(query, key, inputs)


def drawn(generator, dtype=torch.float32, queries=L, mask=None):
    def random(length, width):
        return torch.randn(B, H, length, width, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    return AttentionInputs(query=random(queries, E), key=random(S, E), mask=mask), random(S, 6)


@pytest.fixture
def fused_calls(monkeypatch):
    """Every call of PyTorch's fused kernel, by its keyword arguments; the kernel itself still runs."""
    calls = []
    kernel = F.scaled_dot_product_attention

    def counted(*arguments, **options):
        output = kernel(*arguments, **options)
        calls.append(options | {"dtype": output.dtype})
        return output

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    return calls


def test_dot_products_under_a_softmax_run_fused(generator, fused_calls):
    inputs, value = drawn(generator)
    for score, scale in ((Dot(), 1.0), (ScaledDot(), 0.5)):
        fused_calls.clear()
        ScoredAttention(score)(inputs, value)
        assert [call["scale"] for call in fused_calls] == [scale]


def test_another_alignment_does_not_run_fused(generator, fused_calls):
    class Hard(Alignment):
        def forward(self, scores, visible, inputs):
            return F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)

    inputs, value = drawn(generator)
    attention = ScoredAttention(Dot(), Hard())
    output = attention(inputs, value)
    assert not fused_calls
    torch.testing.assert_close(output, attention.weights(inputs) @ value)


def test_the_kernels_own_triangle_is_used_only_where_it_is_right(generator, fused_calls):
    """It is aligned top left: right for a whole sequence, wrong for queries after a cached past or behind padding."""
    attention = ScoredAttention(ScaledDot())
    valid = torch.ones(B, S, dtype=torch.bool)
    for queries, mask, native in (
        (S, Causal(), True),
        (L, Causal(), False),
        (L, Causal(offset=S - L), False),
        (S, Causal(offset=1), False),
        (S, Causal() & Padding(valid), False),
        (S, None, False),
    ):
        fused_calls.clear()
        inputs, value = drawn(generator, queries=queries, mask=mask)
        output = attention(inputs, value)
        assert [call["is_causal"] for call in fused_calls] == [native]
        torch.testing.assert_close(output, attention.weights(inputs) @ value)


@pytest.mark.parametrize("score", [Dot(), ScaledDot()], ids=["dot", "scaled"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_fused_equals_plain_in_value_and_gradient(score, dtype, generator):
    mask = Dense(torch.rand(B, H, L, S, generator=generator) < 0.5)
    inputs, value = drawn(generator, dtype, mask=mask)
    leaves = (inputs.query, inputs.key, value)
    fast, plain = ScoredAttention(score)(inputs, value), ScoredAttention(Undeclared(score))(inputs, value)
    torch.testing.assert_close(fast, plain)
    torch.testing.assert_close(
        torch.autograd.grad(fast.square().sum(), leaves), torch.autograd.grad(plain.square().sum(), leaves)
    )


def test_bfloat16_training_on_a_processor_runs_the_kernel_in_float32(generator, fused_calls):
    """Its bfloat16 backward pass is slow there; without gradients bfloat16 stays."""
    inputs, value = drawn(generator, torch.bfloat16)
    attention = ScoredAttention(ScaledDot())
    trained = attention(inputs, value)
    with torch.no_grad():
        quick = attention(inputs, value)
    assert [call["dtype"] for call in fused_calls] == [torch.float32, torch.bfloat16]
    assert trained.dtype == quick.dtype == torch.bfloat16
    exact = attention.weights(inputs) @ value.float()
    torch.testing.assert_close(trained, exact.bfloat16(), rtol=2**-8, atol=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(attention(inputs, value), trained, rtol=0, atol=0)
    assert fused_calls[-1]["dtype"] == torch.float32, "autocast must not turn the inputs back"
    single, values = drawn(generator)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        attention(single, values)
    assert fused_calls[-1]["dtype"] == torch.float32, "nor what was float32 before"


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("key_heads", [H, 1])
def test_bfloat16_training_lays_out_the_weights_of_middling_lengths(masked, key_heads, generator, fused_calls):
    """Its own way, as exact as bfloat16 allows in value and gradient, and only there: not in evaluation, not for float32."""

    def random(heads, length, width):
        return torch.randn(B, heads, length, width, generator=generator).bfloat16().requires_grad_()

    length = 40
    mask = Dense(torch.rand(B, 1, length, length, generator=generator) < 0.5) if masked else None
    leaves = random(H, length, 8), random(key_heads, length, 8), random(key_heads, length, 6)
    inputs = AttentionInputs(query=leaves[0], key=leaves[1], mask=mask)
    attention = ScoredAttention(ScaledDot())
    output = attention(inputs, leaves[2])
    assert output.dtype == torch.bfloat16
    assert not fused_calls
    exact = tuple(leaf.detach().double().requires_grad_() for leaf in leaves)
    plain = ScoredAttention(Undeclared(ScaledDot()))(AttentionInputs(query=exact[0], key=exact[1], mask=mask), exact[2])
    torch.testing.assert_close(output.double(), plain, rtol=2**-5, atol=2**-6)
    found = torch.autograd.grad(output.square().sum(), leaves)
    for each, right in zip(found, torch.autograd.grad(plain.square().sum(), exact), strict=True):
        assert F.cosine_similarity(each.double().flatten(), right.flatten(), dim=0) > 0.9999
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(attention(inputs, leaves[2]), output, rtol=0, atol=0)
    attention.eval()(inputs, leaves[2])
    single = AttentionInputs(query=leaves[0].float(), key=leaves[1].float(), mask=mask)
    attention.train()(single, leaves[2].float())
    assert [call["dtype"] for call in fused_calls] == [torch.float32, torch.float32]


def test_the_softmax_of_half_precision_inputs_runs_in_float32(generator):
    """Scores that differ by less than half precision resolves still get different weights."""
    query = torch.tensor([1.0]).view(1, 1, 1, 1)
    key = torch.tensor([10.0, 10.0625]).view(1, 1, 2, 1)
    for dtype in (torch.bfloat16, torch.float16):
        inputs = AttentionInputs(query=query.to(dtype), key=key.to(dtype))
        weights = ScoredAttention(Dot()).weights(inputs)
        exact = (query * key).flatten().softmax(0)
        assert weights.dtype == torch.float32
        torch.testing.assert_close(weights.flatten(), exact)


def test_scores_beyond_half_precision_stay_finite():
    """A product of 90,000 is infinite in float16, and the softmax of two infinities is no number."""
    inputs = AttentionInputs(
        query=torch.full((1, 1, 1, 1), 300.0, dtype=torch.float16),
        key=torch.full((1, 1, 2, 1), 300.0, dtype=torch.float16),
    )
    assert ScoredAttention(Dot()).weights(inputs).flatten().tolist() == [0.5, 0.5]


@pytest.mark.parametrize("dropout", [-0.1, 1.0, 2.0])
def test_an_impossible_dropout_is_refused(dropout):
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\)"):
        ScoredAttention(Dot(), dropout=dropout)


def test_the_declaration_follows_the_alignment():
    class Gaussian(Alignment):
        distribution = False

        def forward(self, scores, visible, inputs):
            return torch.exp(-scores.square())

    assert ScoredAttention(Dot()).declaration.distribution
    assert not ScoredAttention(Dot(), Gaussian()).declaration.distribution
