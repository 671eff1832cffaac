from __future__ import annotations

import pytest
import torch

from regard.layers import maxout


def test_neighbouring_channels_compete(generator):
    x = torch.randn(2, 5, 6, generator=generator)
    expected = [
        [[max(row[0], row[1]), max(row[2], row[3]), max(row[4], row[5])] for row in rows] for rows in x.tolist()
    ]
    assert maxout(x).tolist() == expected


def test_only_the_winner_of_a_pair_learns():
    x = torch.tensor([1.0, 5.0, -2.0, -3.0], requires_grad=True)
    maxout(x).sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 0]


def test_an_odd_number_of_channels_has_no_pairs():
    with pytest.raises(RuntimeError):
        maxout(torch.zeros(3))
