from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import LearnedPositions, SinusoidalPositions, positions_of, sinusoids
from regard.attention.positions import check_length
from regard.errors import InputError

WIDTH = 16


def test_the_papers_values_at_position_one():
    """PE(1) for D = 512, computed in float64: a table that counts channels from 1 would begin with sin(0.965)."""
    angles = [10000.0 ** (-2 * k / 512) for k in range(256)]
    expected = [wave(angle) for angle in angles for wave in (math.sin, math.cos)]
    encoded = sinusoids(torch.tensor(1), 512).double()
    torch.testing.assert_close(encoded, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-7)
    rounded = [round(value, 4) for value in encoded[:4].tolist()]
    assert rounded == [0.8415, 0.5403, 0.8219, 0.5697]
    assert encoded[-2].item() == pytest.approx(0.000104, abs=5e-7)
    assert round(encoded[-1].item(), 4) == 1.0


def test_positions_count_from_zero():
    """PE(0) is the sine and cosine of nothing, in every channel pair."""
    assert sinusoids(torch.tensor([0]), 6).tolist() == [[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]]


def test_wavelengths_run_from_two_pi_to_just_under_ten_thousand_times_that():
    slowest = 10000.0 ** (510 / 512)
    assert slowest == pytest.approx(9646.6, abs=0.1)
    places = torch.tensor([0.0, 2 * math.pi, 2 * math.pi * slowest], dtype=torch.float64)
    encoded = sinusoids(places, 512)
    torch.testing.assert_close(encoded[1, :2], encoded[0, :2])
    torch.testing.assert_close(encoded[2, -2:], encoded[0, -2:], rtol=0, atol=1e-6)


def test_far_positions_are_exact():
    """In float32 the angle 99,999 would already be off by some thousandths."""
    expected = [wave(99_999 * 10000.0 ** (-k / 8)) for k in (0, 2, 4, 6) for wave in (math.sin, math.cos)]
    assert sinusoids(torch.tensor(99_999), 8).tolist() == pytest.approx(expected, abs=1e-6)


def shift(k: int, width: int) -> torch.Tensor:
    """M_k, block diagonal: each pair of channels turned by k times its frequency. It knows nothing of any position."""
    matrix = torch.zeros(width, width, dtype=torch.float64)
    for pair in range(width // 2):
        angle = k * 10000.0 ** (-2 * pair / width)
        cos, sin = math.cos(angle), math.sin(angle)
        block = slice(2 * pair, 2 * pair + 2)
        matrix[block, block] = torch.tensor([[cos, sin], [-sin, cos]])
    return matrix


@given(k=st.integers(-40, 40), positions=st.lists(st.integers(40, 3000), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_a_shift_is_one_linear_map_for_every_position(k, positions):
    """PE(p + k) = M_k PE(p) (Vaswani et al. 2017, section 3.5)."""
    places = torch.tensor(positions)
    there = sinusoids(places + k, WIDTH).double()
    torch.testing.assert_close(sinusoids(places, WIDTH).double() @ shift(k, WIDTH).T, there, rtol=0, atol=1e-6)


# The lectures ask four things of a position encoding, and reject three simple ones for failing them.


def index(length: int) -> torch.Tensor:
    """The plain position, as one channel."""
    return torch.arange(length, dtype=torch.float64).unsqueeze(1)


def fraction(length: int) -> torch.Tensor:
    """The position as a share of the length, in [0, 1]."""
    return index(length) / (length - 1)


def binary(length: int) -> torch.Tensor:
    """The position's binary digits, one channel each."""
    return torch.tensor([[(p >> bit) & 1 for bit in range(WIDTH)] for p in range(length)], dtype=torch.float64)


def waves(length: int) -> torch.Tensor:
    return sinusoids(torch.arange(length), WIDTH).double()


def distances(table: torch.Tensor, offset: int) -> torch.Tensor:
    """How far each position lies from the one `offset` later."""
    return (table[offset:] - table[:-offset]).norm(dim=1)


@pytest.mark.parametrize("scheme", [waves, index, fraction, binary])
def test_criterion_1_every_position_is_unlike_every_other(scheme):
    apart = torch.cdist(scheme(200), scheme(200)) + torch.eye(200)
    assert apart.min() > 1e-3


@pytest.mark.parametrize("offset", [1, 2, 5, 17])
def test_criterion_2_the_distance_of_two_positions_depends_on_their_offset_alone(offset):
    """Whatever the place and whatever the sentence's length."""
    steps = torch.cat([distances(waves(length), offset) for length in (20, 77, 300)])
    torch.testing.assert_close(steps, steps[:1].expand_as(steps), rtol=0, atol=1e-5)


def test_criterion_2_fails_for_a_share_of_the_length():
    """The same two neighbours lie ten times closer in a sentence ten times longer."""
    short, long = distances(fraction(10), 1)[0], distances(fraction(91), 1)[0]
    assert short / long == pytest.approx(10)


def test_criterion_2_fails_for_binary_digits():
    """From 7 to 8 four digits flip, from 8 to 9 one: neighbours lie at different distances, with jumps between."""
    flips = distances(binary(64), 1).square().round().int().tolist()
    assert flips[7] == 4
    assert flips[8] == 1
    assert len(set(flips)) > 4


def test_criterion_3_longer_sequences_keep_every_value_within_bounds():
    """And what stands at a position does not change when the sequence grows."""
    assert waves(5000).abs().max() <= 1
    torch.testing.assert_close(waves(5000)[:50], waves(50), rtol=0, atol=0)


def test_criterion_3_fails_for_the_plain_index():
    """Values beyond all that were seen in training."""
    assert index(5000).max() > 100 * index(50).max()


def test_criterion_4_the_encoding_is_deterministic(seeded):
    first = waves(50)
    torch.rand(3)
    assert torch.equal(waves(50), first)
    assert not torch.equal(LearnedPositions(4, 9).weight, LearnedPositions(4, 9).weight), "drawn, until it is trained"


def test_the_table_is_the_formula_and_is_not_saved():
    positions = SinusoidalPositions(WIDTH, 30)
    places = torch.tensor([[0, 3, 29], [5, 5, 1]])
    assert torch.equal(positions(places), sinusoids(places, WIDTH))
    assert not positions.state_dict()
    assert not list(positions.parameters())


def test_a_table_from_the_meta_device_can_be_filled():
    with torch.device("meta"):
        positions = SinusoidalPositions(WIDTH, 30)
    positions = positions.to_empty(device="cpu")
    positions.reset_parameters()
    assert torch.equal(positions(torch.arange(30)), sinusoids(torch.arange(30), WIDTH))


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match="even width, not 7"):
        sinusoids(torch.tensor([1]), 7)


def test_learned_positions_are_looked_up_and_trained(seeded):
    positions = LearnedPositions(4, 9)
    places = torch.tensor([[2, 0, 2]])
    found = positions(places)
    assert torch.equal(found[0, 0], positions.weight[2])
    assert torch.equal(found[0, 1], positions.weight[0])
    found.sum().backward()
    assert positions.weight.grad.sum(dim=1).tolist() == [4, 0, 8, 0, 0, 0, 0, 0, 0]


def test_learned_positions_start_at_the_size_of_sinusoids(seeded):
    assert LearnedPositions(64, 500).weight.var().item() == pytest.approx(waves(500).square().mean().item(), rel=0.05)


@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_the_side_of_padding_does_not_move_a_token(lengths):
    width = max(lengths) + 1
    right = torch.tensor([[slot < n for slot in range(width)] for n in lengths])
    left = torch.tensor([[slot >= width - n for slot in range(width)] for n in lengths])
    for row, n in enumerate(lengths):
        assert positions_of(right)[row][right[row]].tolist() == list(range(n))
        assert positions_of(left)[row][left[row]].tolist() == list(range(n))
    for valid in (left, right):
        assert positions_of(valid).min() >= 0
        assert positions_of(valid).max() < width


def test_a_sequence_longer_than_the_positions_is_refused_with_both_lengths():
    check_length(8, 8, "source")
    with pytest.raises(InputError, match=r"the source has 9 tokens .* positions for 8; shorten it"):
        check_length(9, 8, "source")
