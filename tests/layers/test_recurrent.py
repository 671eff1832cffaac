from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.layers import BidirectionalReader, ChoCell, ResetAfterCell, TanhCell, read

B, S, M, N = 2, 6, 3, 4


@pytest.mark.parametrize("kind", [ChoCell, ResetAfterCell, TanhCell])
@pytest.mark.parametrize("side", ["left", "right"])
def test_reading_is_stepping_through_the_real_tokens(kind, side, seeded, randomize, generator):
    cell = randomize(kind(M, N)).double()
    x = torch.randn(3, S, M, generator=generator, dtype=torch.float64)
    valid = torch.arange(S) < torch.tensor([6, 2, 0])[:, None]
    valid = valid.flip(1) if side == "left" else valid
    last = read(cell, x, valid)
    for row in range(3):
        state = torch.zeros(1, N, dtype=torch.float64)
        for word in x[row][valid[row]]:
            state = cell(word.unsqueeze(0), state)
        torch.testing.assert_close(last[row], state[0], rtol=1e-10, atol=1e-12)
    assert not last[2].any()


@pytest.fixture
def reader(seeded, randomize):
    return randomize(BidirectionalReader(M, N)).double()


def test_the_reader_is_two_cells_stepping_from_either_end(reader, generator):
    lengths = [6, 4]
    x = torch.randn(B, S, M, generator=generator, dtype=torch.float64)
    valid = torch.tensor([[True] * 6, [False, True, True, True, True, False]])
    annotations, last, first = reader(x, valid)
    assert annotations.shape == (B, S, 2 * N)
    for row, length in enumerate(lengths):
        words = x[row][valid[row]]
        ahead = behind = torch.zeros(1, N, dtype=torch.float64)
        forwards, backwards = [], []
        for step in range(length):
            ahead = reader.forwards(words[step : step + 1], ahead)
            behind = reader.backwards(words[length - 1 - step : length - step], behind)
            forwards.append(ahead[0])
            backwards.insert(0, behind[0])
        expected = torch.cat((torch.stack(forwards), torch.stack(backwards)), dim=1)
        torch.testing.assert_close(annotations[row][valid[row]], expected, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(last[row], forwards[-1], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(first[row], backwards[0], rtol=1e-10, atol=1e-12)


def test_the_readers_gradients_are_those_of_its_cells(reader, generator):
    """It copies the cells' matrices into one product; each parameter must still learn."""
    x = torch.randn(1, S, M, generator=generator, dtype=torch.float64, requires_grad=True)
    annotations, _, _ = reader(x, torch.ones(1, S, dtype=torch.bool))
    ahead, states = torch.zeros(1, N, dtype=torch.float64), []
    for step in range(S):
        ahead = reader.forwards(x[:, step], ahead)
        states.append(ahead)
    leaves = [x, *reader.forwards.parameters()]
    mine = torch.autograd.grad(annotations[..., :N].square().sum(), leaves)
    stepped = torch.autograd.grad(torch.stack(states, 1).square().sum(), leaves)
    torch.testing.assert_close(mine, stepped, rtol=1e-10, atol=1e-12)
    backwards = reader(x, torch.ones(1, S, dtype=torch.bool))[0][..., N:]
    behind = torch.autograd.grad(backwards.sum(), list(reader.backwards.parameters()))
    assert all(gradient.any() for gradient in behind)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_read_over_without_a_trace(reader, side, generator):
    x = torch.randn(B, S, M, generator=generator, dtype=torch.float64)
    plain = reader(x, torch.ones(B, S, dtype=torch.bool))
    pad = (0, 0, 3, 0) if side == "left" else (0, 0, 0, 3)
    padded = nn.functional.pad(x, pad, value=1e3)
    valid = nn.functional.pad(torch.ones(B, S, dtype=torch.bool), pad[2:], value=False)
    annotations, last, first = reader(padded, valid)
    torch.testing.assert_close(
        annotations[:, 3:] if side == "left" else annotations[:, :S], plain[0], rtol=1e-10, atol=1e-12
    )
    torch.testing.assert_close(last, plain[1], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(first, plain[2], rtol=1e-10, atol=1e-12)


def test_bfloat16_autocast_keeps_the_state_in_float32(seeded, randomize, generator):
    reader = randomize(BidirectionalReader(M, N))
    x = torch.randn(B, S, M, generator=generator)
    valid = torch.ones(B, S, dtype=torch.bool)
    exact = reader(x, valid)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = reader(x, valid)
    for a, b in zip(rough, exact, strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a, b, rtol=5e-2, atol=5e-2)
    assert not torch.equal(rough[0], exact[0])
