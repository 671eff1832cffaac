"""Blocks whose feed-forward net reads what attention reads, by their equation, and with parts of them taken out."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.inspection.editing import patch, without_feedforward, without_skips
from regard.layers import Tokens
from regard.models import GPTNeoX, GPTNeoXConfig

SIZES = {"vocabulary": 11, "width": 12, "heads": 3, "feedforward_width": 20, "layers": 3, "maximum_positions": 9}
TEXT, OTHER = Tokens.pad([[3, 9, 4, 4, 7], [5, 6]]), Tokens.pad([[2, 8, 1, 3, 5], [9, 1]])


def made(seed: int = 0, **changes) -> GPTNeoX:
    generator = torch.Generator().manual_seed(seed)
    model = GPTNeoX(GPTNeoXConfig(**SIZES, rotary_share=0.5, **changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator))
    return model.double().eval()


def by_hand(model: GPTNeoX, x: torch.Tensor, *, skips: bool = True, feedforward: bool = True) -> torch.Tensor:
    """Each block plainly: x + attention(norm(x)) + ffn(norm'(x))."""
    for block in model.layers:
        read, net = block.attention_residual.before(x), block.feedforward
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        added = block.attention(read, block.attention.keys_values(read), mask=regard.attention.Dense(seen[None, None]))
        fed = net(block.feedforward_residual.before(x)) if feedforward else 0.0
        x = added + fed + (x if skips else 0.0)
    return model.norm(x)


def entered(model: GPTNeoX) -> torch.Tensor:
    return model.embedding(TEXT.ids, torch.arange(5)[None])


@given(st.integers(0, 1000))
@settings(max_examples=8, deadline=None)
def test_a_parallel_stack_is_its_equation(seed):
    model = made(seed)
    with torch.no_grad():
        found = model.hidden(TEXT, model.start(2))[0]
        wanted = by_hand(model, entered(model))
    torch.testing.assert_close(found[TEXT.valid], wanted[TEXT.valid])


def test_the_net_of_one_after_another_reads_the_sum():
    parallel, serial = made(), made(parallel=False)
    assert not torch.allclose(parallel(TEXT), serial(TEXT))
    for model in (parallel, serial):
        model.layers[0].attention.output.weight.data.zero_()
        model.layers[0].attention.output.bias.data.zero_()
    # Where attention adds nothing, both read the same.
    with torch.no_grad():
        x = entered(parallel)
        torch.testing.assert_close(parallel.layers[0](x, None)[0], serial.layers[0](x, None)[0])


def test_without_skips_a_block_gives_what_its_two_parts_give():
    model = made()
    with torch.no_grad():
        found = without_skips(model).hidden(TEXT, model.start(2))[0]
        wanted = by_hand(model, entered(model), skips=False)
    torch.testing.assert_close(found[TEXT.valid], wanted[TEXT.valid])


def test_without_feedforward_nets_attention_alone_is_added():
    model = made()
    with torch.no_grad():
        found = without_feedforward(model).hidden(TEXT, model.start(2))[0]
        wanted = by_hand(model, entered(model), feedforward=False)
    torch.testing.assert_close(found[TEXT.valid], wanted[TEXT.valid])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_stream_that_is_put_back_brings_the_answer_back(place):
    model = made()

    def score(logits: torch.Tensor) -> float:
        return logits[0, -1, 5].item()

    found = patch(model, lambda: model(TEXT), lambda: model(OTHER), score, hidden=[f"layers.{place}"])
    assert found.rows[0].effect == pytest.approx(1.0, abs=1e-9)
    # One block's attention does not: the feed-forward net beside it read the other text.
    heads = patch(model, lambda: model(TEXT), lambda: model(OTHER), score, by="layer")
    assert len({row.effect for row in heads.rows}) == 3
