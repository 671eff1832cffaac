"""Token vectors to one vector: every mode against a loop, padding on both sides, and what is no mode."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.embeddings.pooling import MODES, normalised, pool, unit
from regard.errors import InputError
from regard.layers import Tokens


def by_hand(vectors: torch.Tensor, mode: str) -> torch.Tensor:
    """(L, D) of real tokens to (D,)."""
    count = len(vectors)
    if mode == "cls":
        return vectors[0]
    if mode == "last":
        return vectors[-1]
    if mode == "max":
        return torch.stack([vectors[:, place].max() for place in range(vectors.shape[1])])
    if mode == "weighted_mean":
        return sum((n + 1) * vectors[n] for n in range(count)) / sum(range(1, count + 1))
    return vectors.sum(dim=0) / (count if mode == "mean" else count**0.5)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_against_a_loop(mode, side):
    lengths = (5, 1, 3)
    tokens = Tokens.pad([[1] * length for length in lengths], side=side)
    hidden = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))
    found = pool(hidden, tokens.valid, [mode])
    for row in range(3):
        torch.testing.assert_close(found[row], by_hand(hidden[row][tokens.valid[row]], mode))


@pytest.mark.parametrize("mode", MODES)
def test_what_stands_at_padding_is_never_looked_at(mode):
    valid = torch.tensor([[True, True, False], [False, True, True]])
    hidden = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(2))
    spoilt = hidden.clone()
    spoilt[~valid] = float("nan")
    assert torch.equal(pool(spoilt, valid, [mode]), pool(hidden, valid, [mode]))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.sampled_from(MODES), st.integers(0, 3))
def test_more_padding_changes_nothing(lengths, mode, extra):
    longest = max(lengths)
    hidden = torch.randn(len(lengths), longest + extra, 3, generator=torch.Generator().manual_seed(3))
    valid = torch.arange(longest + extra) < torch.tensor(lengths).unsqueeze(1)
    whole = pool(hidden, valid, [mode])
    torch.testing.assert_close(whole, pool(hidden[:, :longest], valid[:, :longest], [mode]))


def test_several_modes_stand_one_after_another():
    hidden = torch.randn(2, 3, 4)
    found = pool(hidden, None, ["max", "cls"])
    assert found.shape == (2, 8)
    assert torch.equal(found[:, :4], pool(hidden, None, ["max"]))
    assert torch.equal(found[:, 4:], pool(hidden, None, ["cls"]))


def test_sums_are_in_float32_whatever_the_vectors_are():
    hidden = torch.full((1, 3000, 2), 1.01, dtype=torch.bfloat16)
    found = pool(hidden, None, ["mean"])
    assert found.dtype == torch.float32
    assert found[0, 0].item() == pytest.approx(hidden[0, 0, 0].item(), rel=1e-5)


def test_normalised_vectors_have_length_one_and_zero_stays_zero():
    found = normalised(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    assert found.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("modes", "message"), [([], "one or more"), ("mean", "list"), (["meen"], "mean"), (["cls", "cls"], "once")]
)
def test_what_is_no_way_to_pool_is_refused(modes, message):
    with pytest.raises(InputError, match=message):
        pool(torch.ones(1, 2, 3), None, modes)


@pytest.mark.parametrize("scale", [1e30, 1e-30, 1.0])
def test_vectors_whose_squares_float32_cannot_hold_have_length_one_too(scale):
    vectors = np.array([[3.0, 4.0], [0.0, 0.0], [-8.0, 6.0]], dtype=np.float32) * np.float32(scale)
    assert unit(vectors).dtype == np.float32
    np.testing.assert_allclose(unit(vectors), [[0.6, 0.8], [0.0, 0.0], [-0.8, 0.6]], rtol=4e-7)
