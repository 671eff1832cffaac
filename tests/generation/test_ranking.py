from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.generation.ranking import leading


@settings(max_examples=100, deadline=None)
@given(
    values=st.integers(1, 8).flatmap(
        lambda width: st.lists(
            st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0]), min_size=width, max_size=width),
            min_size=1,
            max_size=4,
        )
    ),
    count=st.integers(1, 10),
)
def test_leading_is_a_stable_sort_cut_short(values, count):
    found, index = leading(torch.tensor(values), count)
    assert found.shape == index.shape == (len(values), count)
    for row, best, places in zip(values, found.tolist(), index.tolist(), strict=True):
        order = sorted(range(len(row)), key=lambda place: -row[place])[:count]
        assert places[: len(order)] == order
        assert best == [row[place] for place in order] + [-torch.inf] * (count - len(order))


def test_ties_in_a_wide_row():
    values = torch.zeros(2, 5000)
    values[1, 4000] = 1.0
    assert leading(values, 4)[1].tolist() == [[0, 1, 2, 3], [4000, 0, 1, 2]]
