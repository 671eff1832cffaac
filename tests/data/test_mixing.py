"""Mixing: shares as the paper's equation has them, every example in its turn, a function of seed and epoch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching import Mixing
from regard.errors import InputError

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=5)


def rates(sizes: list[int], limit: int | None, temperature: float) -> np.ndarray:
    """Section 3.5.2, plainly."""
    raised = [min(e, limit or e) ** (1 / temperature) for e in sizes]
    return np.array(raised) / sum(raised)


@given(sizes=SIZES, limit=st.none() | st.integers(1, 50), temperature=st.sampled_from([1.0, 2.0, 8.0]))
@settings(max_examples=60, deadline=None)
def test_shares_are_those_of_the_equation(sizes, limit, temperature):
    counts = Mixing(limit=limit, temperature=temperature).counts(np.array(sizes))
    total = sum(min(e, limit or e) for e in sizes)
    assert (np.abs(counts - total * rates(sizes, limit, temperature)) <= 0.5 + 1e-9).all() or (counts == 1).any()
    if temperature == 1:
        assert counts.tolist() == [min(e, limit or e) for e in sizes]


@given(sizes=SIZES, limit=st.integers(1, 20), seed=st.integers(0, 99), epoch=st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_an_epoch_holds_each_part_as_often_as_it_is_to(sizes, limit, seed, epoch):
    mixing, array = Mixing(limit=limit, seed=seed), np.array(sizes)
    rows = mixing.rows(array, epoch)
    parts = np.searchsorted(np.cumsum(array), rows, side="right")
    assert np.bincount(parts, minlength=len(sizes)).tolist() == mixing.counts(array).tolist()
    assert (rows == mixing.rows(array, epoch)).all()


def test_a_large_part_is_gone_through_before_anything_of_it_comes_again():
    sizes = np.array([10, 3])
    mixing = Mixing(limit=4, seed=7)
    first = [mixing.rows(sizes, epoch) for epoch in range(5)]
    large = np.concatenate([rows[rows < 10] for rows in first])
    assert sorted(large[:10].tolist()) == sorted(large[10:20].tolist()) == list(range(10))
    assert large[:10].tolist() != large[10:20].tolist()
    assert all(sorted(rows[rows >= 10].tolist()) == [10, 11, 12] for rows in first)


def test_a_small_part_comes_several_times_where_temperature_lifts_it():
    sizes = np.array([4, 400])
    rows = Mixing(temperature=2.0).rows(sizes, 0)
    small = np.bincount(rows[rows < 4], minlength=4)
    assert len(rows) == 404
    assert small.sum() == round(404 * 2 / 22)
    assert small.max() - small.min() <= 1


@pytest.mark.parametrize("settings", [{"limit": 0}, {"temperature": 0.5}])
def test_what_is_no_limit_or_temperature_is_refused(settings):
    with pytest.raises(InputError, match=f"data.{next(iter(settings))}"):
        Mixing(**settings)
