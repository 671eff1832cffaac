"""The best passages by their two logits: all pairs are compared."""

from __future__ import annotations

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tasks.answer_spans import best_spans


@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 9),
    maximum=st.integers(1, 12),
    count=st.integers(1, 30),
    share=st.floats(0.1, 1.0),
)
@settings(max_examples=100, deadline=None)
def test_they_are_those_of_all_allowed_pairs(seed, length, maximum, count, share):
    draw = torch.Generator().manual_seed(seed)
    start, end = torch.randn(2, 3, length, generator=draw)
    may_start, may_end = torch.rand(2, 3, length, generator=draw) < share
    found = best_spans(start, end, may_start=may_start, may_end=may_end, maximum=maximum, count=count)
    for row in range(3):
        pairs = {
            (i, j): float(start[row, i] + end[row, j])
            for i, j in itertools.product(range(length), repeat=2)
            if i <= j < i + maximum and may_start[row, i] and may_end[row, j]
        }
        expected = sorted(pairs, key=lambda pair: -pairs[pair])[:count]
        kept = torch.isfinite(found.scores[row])
        got = list(zip(found.starts[row][kept].tolist(), found.ends[row][kept].tolist(), strict=True))
        assert got == expected
        assert found.scores[row][kept].tolist() == [pairs[pair] for pair in expected]


def test_the_best_pair_is_found_where_the_best_starts_all_stand_behind_the_best_ends():
    """Comparing only the best few starts with the best few ends would find nothing here."""
    start = torch.tensor([[0.0, 0.0, 0.0, 9.0, 9.5]])
    end = torch.tensor([[9.0, 9.5, 1.0, -5.0, -6.0]])
    every = torch.ones(1, 5, dtype=torch.bool)
    found = best_spans(start, end, may_start=every, may_end=every, maximum=5, count=2)
    assert found.scores.tolist() == [[9.5, 9.5]]
    assert {(0, 1), (1, 1)} == set(zip(found.starts[0].tolist(), found.ends[0].tolist(), strict=True))
