"""What the lectures say about long texts, and what is right (docs/lectures.md)."""

from __future__ import annotations

import torch
from torch import nn

from regard.layers import ChunkedFeedForward


def test_b28_the_inner_layer_is_wide_and_a_chunk_of_it_stands_in_memory():
    """There is one inner layer; d_ff numbers stand there for each position, in chunks for some positions at a time."""
    net = ChunkedFeedForward(8, 32, activation=torch.relu, chunk=5)
    assert sum(isinstance(part, nn.Linear) for part in net.modules()) == 2
    shapes = []
    net.inner.register_forward_hook(lambda module, given, made: shapes.append(tuple(made.shape)))
    with torch.no_grad():
        net(torch.randn(1, 12, 8))
    assert shapes == [(1, 5, 32), (1, 5, 32), (1, 2, 32)]
