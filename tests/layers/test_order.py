from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.layers import in_order, put_back, reading_order

VALID = torch.tensor([[True, True, True, True], [True, True, False, False], [False, False, True, True], [False] * 4])


def test_only_real_tokens_are_turned_round():
    """The padding of a reversed row stands after its tokens, not before."""
    ids = torch.tensor([[5, 6, 7, 8], [5, 6, 0, 0], [0, 0, 5, 6], [0, 0, 0, 0]])
    assert in_order(ids, reading_order(VALID, backwards=True)).tolist() == [
        [8, 7, 6, 5],
        [6, 5, 0, 0],
        [6, 5, 0, 0],
        [0, 0, 0, 0],
    ]
    assert in_order(ids, reading_order(VALID)).tolist() == [[5, 6, 7, 8], [5, 6, 0, 0], [5, 6, 0, 0], [0, 0, 0, 0]]


def test_a_batch_that_stands_in_order_is_left_alone():
    x = torch.randn(2, 4, 3)
    assert reading_order(VALID[:2]) is None
    assert in_order(x, None) is x
    assert put_back(x, None) is x


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4), backwards=st.booleans())
def test_putting_back_is_the_inverse(rows, backwards):
    valid = torch.tensor(rows)
    x = torch.arange(valid.numel() * 2).view(*valid.shape, 2)
    order = reading_order(valid, backwards=backwards)
    assert torch.equal(put_back(in_order(x, order), order), x)
    for row, there in zip(in_order(x, order), zip(x, valid, strict=True), strict=True):
        real = there[0][there[1]]
        assert torch.equal(row[: len(real)], real.flip(0) if backwards else real)
