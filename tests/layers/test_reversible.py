"""Reversible blocks: the same function and the same gradients as the blocks one after another, with memory that does not grow."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from regard.attention import Causal, LSHAttention, MultiHeadAttention, SharedAttention
from regard.layers import ChunkedFeedForward, FeedForward, ReversibleBlock, Seen, through_reversibly

WIDTH = 8


def blocks(count: int, *, hashed: bool, dropout: float, chunk: int = 0) -> nn.ModuleList:
    def attention():
        if not hashed:
            return MultiHeadAttention(WIDTH, 2, dropout=dropout)
        mechanism = LSHAttention(chunk=4, rounds=2, buckets=(4,), dropout=dropout)
        linear = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3)]
        return SharedAttention(query_key=linear[0], value=linear[1], output=linear[2], attention=mechanism, heads=2)

    return nn.ModuleList(
        ReversibleBlock(
            attention=attention(),
            feedforward=ChunkedFeedForward(WIDTH, 12, activation=torch.relu, dropout=dropout, chunk=chunk),
            width=WIDTH,
            dropout=dropout,
        )
        for _ in range(count)
    ).double()


def ordinary(stack: nn.ModuleList, x: torch.Tensor, seen: Seen) -> tuple[torch.Tensor, torch.Tensor]:
    """The equations, every number kept."""
    first, second = x, x
    for block in stack:
        first, second, _ = block(first, second, seen.mask)
    return first, second


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("chunk", [0, 5])
def test_outputs_and_gradients_are_the_ordinary_ones(hashed, dropout, chunk, generator):
    stack = blocks(3, hashed=hashed, dropout=dropout, chunk=chunk).train()
    x = torch.randn(2, 13, WIDTH, generator=generator, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(2, 13, WIDTH, generator=generator, dtype=torch.float64)
    found = []
    for way in (through_reversibly, ordinary):
        torch.manual_seed(3)
        first, second = way(stack, x, Seen(Causal()))
        total = (first * upstream).sum() + (second * upstream.flip(1)).sum()
        found.append((first, second, *torch.autograd.grad(total, [x, *stack.parameters()])))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10)


def test_what_went_in_is_computed_from_what_came_out(generator):
    """Claim 2.4x, in float32: the inverse to 1e-5."""
    (block,) = blocks(1, hashed=True, dropout=0.0).float().eval()
    first, second = torch.randn(2, 2, 11, WIDTH, generator=generator)
    out, other, _ = block(first, second, Causal())
    before = other - block.feed(out)
    torch.testing.assert_close(before, second, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out - block.attend(before, Seen(Causal()))[0], first, rtol=1e-5, atol=1e-5)


def test_training_leaves_the_generators_where_a_forward_pass_does(generator):
    stack = blocks(2, hashed=True, dropout=0.3).train()
    x = torch.randn(1, 9, WIDTH, generator=generator, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)
    first, _ = through_reversibly(stack, x, Seen(Causal()))
    after = torch.get_rng_state()
    first.sum().backward()
    assert torch.equal(torch.get_rng_state(), after)


def test_parameters_that_are_not_trained_get_no_gradient_and_stop_nobody(generator):
    stack = blocks(2, hashed=False, dropout=0.0).train()
    stack[0].requires_grad_(False)
    x = torch.randn(1, 6, WIDTH, generator=generator, dtype=torch.float64)
    first, second = through_reversibly(stack, x, Seen(Causal()))
    (first + second).sum().backward()
    assert all(parameter.grad is None for parameter in stack[0].parameters())
    assert all(parameter.grad is not None for parameter in stack[1].parameters())


def test_autocast_is_as_it_was(generator):
    stack = blocks(2, hashed=True, dropout=0.0).float().train()
    x = torch.randn(1, 12, WIDTH, generator=generator, requires_grad=True)
    found = []
    for way in (through_reversibly, ordinary):
        torch.manual_seed(0)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            first, second = way(stack, x, Seen(Causal()))
        (gradient,) = torch.autograd.grad(first.float().sum() + second.float().square().sum(), x)
        found.append(gradient)
    torch.testing.assert_close(*found, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("chunk", [1, 4, 7, 50])
def test_a_chunked_feedforward_is_the_whole_one(chunk, generator):
    whole = FeedForward(WIDTH, 12, activation=torch.relu)
    parted = ChunkedFeedForward(WIDTH, 12, activation=torch.relu, chunk=chunk)
    parted.load_state_dict(copy.deepcopy(whole.state_dict()))
    x = torch.randn(2, 15, WIDTH, generator=generator)
    torch.testing.assert_close(parted(x), whole(x))
    with torch.no_grad():
        torch.testing.assert_close(parted(x), whole(x))
    for module in (whole, parted):
        module(x).square().sum().backward()
    for mine, theirs in zip(parted.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
