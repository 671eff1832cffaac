from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching import Batches
from regard.errors import InputError

data_sets = st.integers(1, 3).flatmap(
    lambda columns: st.lists(st.lists(st.integers(1, 30), min_size=columns, max_size=columns), min_size=1, max_size=60)
)


def cost(lengths: np.ndarray, batch: np.ndarray) -> int:
    """Tokens of one batch, padding included, all columns together."""
    return len(batch) * int(lengths[batch].max(axis=0).sum())


@given(rows=data_sets, budget=st.integers(1, 200), seed=st.integers(0, 2**31), epoch=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_every_example_comes_once_and_no_batch_exceeds_its_budget(rows, budget, seed, epoch):
    lengths = np.array(rows)
    batches = Batches(lengths, maximum_tokens=budget, seed=seed)
    for cut in (batches.epoch(epoch), batches.in_order()):
        assert sorted(np.concatenate(cut).tolist()) == list(range(len(rows)))
        for batch in cut:
            assert len(batch) == 1 or cost(lengths, batch) <= budget


@given(rows=data_sets, budget=st.integers(10, 200), seed=st.integers(0, 2**31), epoch=st.integers(0, 50))
@settings(max_examples=30, deadline=None)
def test_an_epoch_is_a_function_of_seed_and_number_alone(rows, budget, seed, epoch):
    """Computed anew, out of order, after other epochs, with the global generator elsewhere: the same batches."""
    lengths = np.array(rows)
    first = [batch.tolist() for batch in Batches(lengths, maximum_tokens=budget, seed=seed).epoch(epoch)]
    again = Batches(lengths.copy(), maximum_tokens=budget, seed=seed)
    again.epoch(epoch + 1)
    np.random.random(3)  # noqa: NPY002
    assert [batch.tolist() for batch in again.epoch(epoch)] == first


@pytest.fixture
def lengths():
    """Like sentences: the target about as long as the source."""
    draw = np.random.default_rng(3)
    source = draw.integers(3, 60, size=3000)
    return np.stack((source, np.maximum(1, source + draw.integers(-3, 4, size=3000))), axis=1)


def test_epochs_differ_and_so_do_seeds(lengths):
    one, other = Batches(lengths, maximum_tokens=2000, seed=1), Batches(lengths, maximum_tokens=2000, seed=2)

    def orders(batches, epoch):
        return [batch.tolist() for batch in batches.epoch(epoch)]

    assert orders(one, 0) != orders(one, 1)
    assert orders(one, 0) != orders(other, 0)
    # Not only the order of batches: who shares one with whom changes too.
    together = [{frozenset(batch) for batch in orders(one, epoch)} for epoch in (0, 1)]
    assert len(together[0] & together[1]) < 0.1 * len(together[0])


def test_examples_of_one_length_are_shuffled_without_blur():
    lengths = np.full((100, 2), 5)
    batches = Batches(lengths, maximum_tokens=100, seed=1, spread=0.0)
    orders = [[batch.tolist() for batch in batches.epoch(epoch)] for epoch in (0, 1)]
    assert orders[0] != orders[1]
    assert {frozenset(batch) for batch in orders[0]} != {frozenset(batch) for batch in orders[1]}


def padding_share(lengths, batches):
    total = sum(cost(lengths, batch) for batch in batches)
    return 1 - lengths.sum() / total


def test_like_lengths_share_a_batch(lengths):
    """Little padding; cut as they come, the same data would be a third padding or more."""
    batches = Batches(lengths, maximum_tokens=2000, seed=1)
    assert padding_share(lengths, batches.epoch(0)) < 0.15
    assert padding_share(lengths, batches.in_order()) < 0.1
    as_they_come = [np.arange(start, min(start + 16, 3000)) for start in range(0, 3000, 16)]
    assert padding_share(lengths, as_they_come) > 0.35


def test_batches_are_filled(lengths):
    """No example is left out that would still have fitted behind the last of its batch: budgets are used well."""
    costs = [cost(lengths, batch) for batch in Batches(lengths, maximum_tokens=2000, seed=1).epoch(0)]
    assert np.mean(costs) > 0.9 * 2000


def test_short_and_long_batches_come_mixed(lengths):
    """Sorted by length an epoch would end with nothing but long sentences."""
    means = [lengths[batch].mean() for batch in Batches(lengths, maximum_tokens=2000, seed=1).epoch(0)]
    half = len(means) // 2
    assert abs(np.mean(means[:half]) - np.mean(means[half:])) < 8


def test_evaluation_order_goes_from_short_to_long_and_draws_nothing(lengths):
    one, other = (Batches(lengths, maximum_tokens=2000, seed=seed).in_order() for seed in (1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    totals = lengths.sum(axis=1)[np.concatenate(one)]
    assert (np.diff(totals) >= 0).all()


def test_an_example_beyond_the_budget_stands_alone():
    lengths = np.array([[2, 2], [50, 50], [3, 2]])
    for cut in (Batches(lengths, maximum_tokens=10).epoch(0), Batches(lengths, maximum_tokens=10).in_order()):
        assert sorted(sorted(batch.tolist()) for batch in cut) == [[0, 2], [1]]


@pytest.mark.parametrize(
    ("lengths", "budget", "message"),
    [
        (np.array([[1, 1]]), 0, "batch_tokens is 0; give at least 1"),
        (np.zeros((0, 2), dtype=int), 100, "no example"),
    ],
)
def test_nothing_to_batch_is_said_so(lengths, budget, message):
    with pytest.raises(InputError, match=message):
        Batches(lengths, maximum_tokens=budget)


def test_an_epoch_may_hold_some_examples_and_one_of_them_twice():
    lengths = np.array([[3], [5], [3], [9], [4]])
    batches = Batches(lengths, maximum_tokens=10, seed=3, rows=lambda epoch: np.array([0, 2, 2, 4 - epoch]))
    for epoch in (0, 1):
        assert sorted(np.concatenate(batches.epoch(epoch)).tolist()) == sorted([0, 2, 2, 4 - epoch])
    assert sorted(np.concatenate(batches.in_order()).tolist()) == [0, 1, 2, 3, 4]
