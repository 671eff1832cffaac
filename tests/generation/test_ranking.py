from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.generation.choosing import BLOCK, leading, leading_continuations, leading_sums
from regard.kernels.interface import PART


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


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    width=st.integers(1, 3),
    vocabulary=st.sampled_from([1, 5, BLOCK, BLOCK + 1, 3 * BLOCK, 5 * BLOCK - 1]),
    count=st.integers(1, 12),
    kinds=st.integers(2, 50),
)
def test_leading_sums_are_the_leading_of_all_sums(seed, width, vocabulary, count, kinds):
    """Few kinds of values, so that many are equal, within blocks and across."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(kinds, (2, width, vocabulary), generator=generator).float()
    values[torch.rand(values.shape, generator=generator) < 0.2] = -torch.inf
    offsets = torch.randint(3, (2, width), generator=generator).float()
    expected, order = leading((values + offsets[..., None]).flatten(1), count)
    found, index = leading_sums(values, offsets, count)
    assert torch.equal(found, expected)
    real = expected > -torch.inf
    assert torch.equal(index[real], order[real])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    width=st.integers(1, 3),
    vocabulary=st.sampled_from([2, 5, PART, PART + 1, 3 * PART - 1]),
    count=st.integers(1, 12),
    kinds=st.integers(2, 50),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    never=st.sets(st.integers(0, 1), max_size=1),
)
def test_continuations_are_the_leading_sums_of_log_probabilities(seed, width, vocabulary, count, kinds, dtype, never):
    """By the kernel; few kinds of logits, so that many are equal."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(kinds, (2 * width, vocabulary), generator=generator).to(dtype)
    totals = torch.randint(-3, 1, (2, width), generator=generator).float()
    found = leading_continuations(logits, totals, count, tuple(never))
    if found is None:
        pytest.skip("there is no kernel")
    sums, index, own = found
    log_probabilities = logits.log_softmax(dim=-1, dtype=torch.float32)
    log_probabilities[:, list(never)] = -torch.inf
    expected, _ = leading_sums(log_probabilities.view(2, width, vocabulary), totals, count)
    torch.testing.assert_close(sums, expected, rtol=1e-5, atol=1e-5)
    real = expected > -torch.inf
    flat = log_probabilities.view(2, -1)
    torch.testing.assert_close(own[real], flat.gather(1, index)[real], rtol=1e-5, atol=1e-5)
    assert all(len(set(row[kept].tolist())) == int(kept.sum()) for row, kept in zip(index, real, strict=True))


def test_equal_continuations_are_in_the_order_of_their_indices_and_nan_is_told():
    found = leading_continuations(torch.zeros(2, 600), torch.zeros(1, 2), 4, (1,))
    if found is None:
        pytest.skip("there is no kernel")
    assert found[1].tolist() == [[0, 2, 3, 4]]
    logits = torch.zeros(4, 600)
    logits[3, 500] = torch.nan
    assert leading_continuations(logits, torch.zeros(2, 2), 4, ())[0][:, 0].isnan().tolist() == [False, True]
