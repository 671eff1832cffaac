from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.attention import (
    AttentionInputs,
    Causal,
    Dense,
    Dot,
    MultiHeadAttention,
    Padding,
    ScoredAttention,
)

B, L, S, H, E = 2, 5, 7, 3, 4
D = H * E


@pytest.fixture
def layer(seeded, randomize):
    return randomize(MultiHeadAttention(D, heads=H)).double()


@pytest.fixture
def target(generator):
    return torch.randn(B, L, D, generator=generator, dtype=torch.float64)


@pytest.fixture
def source(generator):
    return torch.randn(B, S, D, generator=generator, dtype=torch.float64)


def test_it_is_the_papers_heads_one_after_another(layer, target, source):
    """A loop over rows, heads, queries and keys, read off section 3.2.2."""
    valid = torch.tensor([[True] * S, [True] * 4 + [False] * 3])

    def affine(part, x):
        return part.weight @ x + part.bias

    expected = torch.zeros(B, L, D, dtype=torch.float64)
    for b in range(B):
        for i in range(L):
            heads = []
            for h in range(H):
                channels = slice(h * E, (h + 1) * E)
                query = affine(layer.query, target[b, i])[channels]
                seen = [j for j in range(S) if valid[b, j]]
                scores = [(query @ affine(layer.key, source[b, j])[channels]).item() / math.sqrt(E) for j in seen]
                total = sum(math.exp(score) for score in scores)
                heads.append(
                    sum(
                        math.exp(score) / total * affine(layer.value, source[b, j])[channels]
                        for j, score in zip(seen, scores, strict=True)
                    )
                )
            expected[b, i] = affine(layer.output, torch.cat(heads))
    output = layer(target, layer.keys_values(source), mask=Padding(valid))
    torch.testing.assert_close(output, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_parity_with_torch(bias, masked, target, source, randomize, generator):
    """`torch.nn.MultiheadAttention` with the same weights: output, weights of every head, gradients."""
    theirs = randomize(nn.MultiheadAttention(D, H, bias=bias, batch_first=True)).double()
    ours = MultiHeadAttention(D, heads=H, bias=bias).double()
    with torch.no_grad():
        for index, part in enumerate((ours.query, ours.key, ours.value)):
            part.weight.copy_(theirs.in_proj_weight.chunk(3)[index])
            if bias:
                part.bias.copy_(theirs.in_proj_bias.chunk(3)[index])
        ours.output.weight.copy_(theirs.out_proj.weight)
        if bias:
            ours.output.bias.copy_(theirs.out_proj.bias)
    may_attend = torch.rand(L, S, generator=generator) < 0.6
    may_attend[:, 2] = True
    valid = torch.tensor([[True] * S, [True] * 5 + [False] * 2])
    mask = Dense(may_attend[None, None]) & Padding(valid) if masked else None
    target.requires_grad_()
    source.requires_grad_()
    output = ours(target, ours.keys_values(source), mask=mask)
    wanted, wanted_weights = theirs(
        target,
        source,
        source,
        attn_mask=~may_attend if masked else None,  # True = blocked there
        key_padding_mask=~valid if masked else None,
        average_attn_weights=False,
    )
    torch.testing.assert_close(output, wanted, rtol=1e-10, atol=1e-12)
    inputs = ours.inputs(target, ours.keys_values(source).key, mask=mask)
    torch.testing.assert_close(ours.attention.weights(inputs), wanted_weights, rtol=1e-10, atol=1e-12)
    upstream = torch.randn(B, L, D, generator=generator, dtype=torch.float64)
    mine = torch.autograd.grad(output, [target, source, ours.value.weight], upstream)
    stacked = torch.autograd.grad(wanted, [target, source, theirs.in_proj_weight], upstream)
    torch.testing.assert_close(mine[:2], stacked[:2], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(mine[2], stacked[2][-D:], rtol=1e-10, atol=1e-12)


def test_permuting_heads_consistently_changes_nothing(layer, target, source):
    before = layer(target, layer.keys_values(source))
    order = torch.tensor([2, 0, 1])
    channels = torch.arange(D).view(H, E)[order].flatten()
    with torch.no_grad():
        for part in (layer.query, layer.key, layer.value):
            part.weight.copy_(part.weight[channels].clone())
            part.bias.copy_(part.bias[channels].clone())
        broken = layer(target, layer.keys_values(source))
        layer.output.weight.copy_(layer.output.weight[:, channels].clone())
    assert not torch.allclose(broken, before), "the output projection must follow its heads"
    torch.testing.assert_close(layer(target, layer.keys_values(source)), before, rtol=1e-10, atol=1e-12)


def test_without_positions_attention_is_blind_to_order(layer, source, generator):
    """Permutation equivariance of self-attention; a causal mask breaks it."""
    order = torch.randperm(S, generator=generator)
    plain = layer(source, layer.keys_values(source))
    shuffled = source[:, order]
    torch.testing.assert_close(layer(shuffled, layer.keys_values(shuffled)), plain[:, order], rtol=1e-10, atol=1e-12)
    causal = layer(source, layer.keys_values(source), mask=Causal())
    assert not torch.allclose(layer(shuffled, layer.keys_values(shuffled), mask=Causal()), causal[:, order])


def test_one_position_passes_its_value_through(layer, target):
    """The lectures' digit classifier attends over a single position: the layer is then a linear map of the value."""
    one = target[:, :1]
    expected = layer.output(layer.value(one))
    torch.testing.assert_close(layer(one, layer.keys_values(one)), expected, rtol=1e-10, atol=1e-12)


def test_fewer_key_heads_are_shared_by_groups(seeded, generator):
    shared = MultiHeadAttention(24, heads=6, key_heads=2)
    full = MultiHeadAttention(24, heads=6)
    with torch.no_grad():
        for mine, other in ((full.key, shared.key), (full.value, shared.value)):
            mine.weight.copy_(other.weight.unflatten(0, (2, 4)).repeat_interleave(3, dim=0).flatten(0, 1))
            mine.bias.copy_(other.bias.unflatten(0, (2, 4)).repeat_interleave(3, dim=0).flatten(0, 1))
        full.query.load_state_dict(shared.query.state_dict())
        full.output.load_state_dict(shared.output.state_dict())
    x = torch.randn(B, S, 24, generator=generator)
    assert shared.keys_values(x).key.shape == (B, 2, S, 4)
    torch.testing.assert_close(shared(x, shared.keys_values(x)), full(x, full.keys_values(x)))


def test_another_mechanism_can_take_the_place(seeded, target):
    mechanism = ScoredAttention(Dot())
    layer = MultiHeadAttention(D, heads=H, attention=mechanism).double()
    keys = layer.keys_values(target)
    inputs = layer.inputs(target, keys.key)
    assert isinstance(inputs, AttentionInputs)
    expected = layer.output((mechanism.weights(inputs) @ keys.value).transpose(1, 2).flatten(-2))
    torch.testing.assert_close(layer(target, keys), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 10, "heads": 3}, "width 10 does not divide into 3 heads"),
        ({"width": 12, "heads": 0}, "0 heads"),
        ({"width": 12, "heads": 6, "key_heads": 4}, "6 query heads do not divide into 4 key heads"),
    ],
)
def test_heads_that_do_not_divide_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(**settings)
