from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.layers import BidirectionalReader, GatedRecurrentCell

B, S, M, N = 2, 6, 3, 4


@pytest.fixture
def cell(seeded, randomize):
    return randomize(GatedRecurrentCell(M, N)).double()


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def papers_step(cell, x, state):
    """Bahdanau et al. 2015, appendix A.1.1, number by number."""

    def row(matrix, index, vector):
        return sum(a * b for a, b in zip(matrix[index], vector, strict=True))

    w, bias = cell.input.weight.tolist(), cell.input.bias.tolist()
    u_gates, u = cell.gates.weight.tolist(), cell.candidate.weight.tolist()
    reset = [sigmoid(row(w, i, x) + bias[i] + row(u_gates, i, state)) for i in range(N)]
    update = [sigmoid(row(w, N + i, x) + bias[N + i] + row(u_gates, N + i, state)) for i in range(N)]
    after_reset = [r * s for r, s in zip(reset, state, strict=True)]
    new = [math.tanh(row(w, 2 * N + i, x) + bias[2 * N + i] + row(u, i, after_reset)) for i in range(N)]
    return [(1 - z) * s + z * c for z, s, c in zip(update, state, new, strict=True)]


def test_one_step_is_the_papers_equations(cell, generator):
    x = torch.randn(B, M, generator=generator, dtype=torch.float64)
    state = torch.randn(B, N, generator=generator, dtype=torch.float64)
    expected = [papers_step(cell, a, b) for a, b in zip(x.tolist(), state.tolist(), strict=True)]
    torch.testing.assert_close(cell(x, state), torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-12)


def test_the_update_gate_is_the_share_of_the_new_state(cell, generator):
    """Cho et al. 2014 and `torch.nn.GRU` have it the other way round."""
    x = torch.randn(B, M, generator=generator, dtype=torch.float64)
    state = torch.randn(B, N, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        cell.input.bias[N : 2 * N] = -1000.0
    torch.testing.assert_close(cell(x, state), state, rtol=0, atol=0)
    with torch.no_grad():
        cell.input.bias[N : 2 * N] = 1000.0
        cell.candidate.weight.zero_()
    expected = torch.tanh(cell.input(x)[:, 2 * N :])
    torch.testing.assert_close(cell(x, state), expected, rtol=1e-10, atol=1e-12)


def gates(cell, x, state):
    reset, update = torch.sigmoid(cell.input(x)[:, : 2 * N] + cell.gates(state)).chunk(2, dim=-1)
    return reset, update


def test_the_reset_gate_acts_before_the_product(cell, generator):
    """U (r * s), not r * (U s) as in `torch.nn.GRU`: the two agree only by chance."""
    x = torch.randn(B, M, generator=generator, dtype=torch.float64)
    state = torch.randn(B, N, generator=generator, dtype=torch.float64)
    reset, update = gates(cell, x, state)
    candidate_x = cell.input(x)[:, 2 * N :]
    before = torch.tanh(candidate_x + cell.candidate(reset * state))
    after = torch.tanh(candidate_x + reset * cell.candidate(state))
    new = cell(x, state)
    torch.testing.assert_close(new, (1 - update) * state + update * before, rtol=1e-10, atol=1e-12)
    assert not torch.allclose(new, (1 - update) * state + update * after)


def test_torchs_own_cell_is_another_convention(cell, generator):
    """With its update gate's sign turned, `nn.GRUCell` still differs by the place of the reset gate alone."""
    theirs = nn.GRUCell(M, N).double()
    with torch.no_grad():
        sign = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64).repeat_interleave(N)
        theirs.weight_ih.copy_(cell.input.weight * sign[:, None])
        theirs.bias_ih.copy_(cell.input.bias * sign)
        theirs.weight_hh.copy_(torch.cat((cell.gates.weight, cell.candidate.weight)) * sign[:, None])
        theirs.bias_hh.zero_()
    x = torch.randn(B, M, generator=generator, dtype=torch.float64)
    state = torch.randn(B, N, generator=generator, dtype=torch.float64)
    assert not torch.allclose(cell(x, state), theirs(x, state))
    nothing = torch.zeros(B, N, dtype=torch.float64)  # without a state to reset, they agree
    torch.testing.assert_close(cell(x, nothing), theirs(x, nothing), rtol=1e-10, atol=1e-12)


def test_first_recurrent_matrices_are_orthogonal(seeded):
    cell = GatedRecurrentCell(M, N)
    for matrix in (*cell.gates.weight.split(N), cell.candidate.weight):
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(N))
    assert not cell.input.bias.any()


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
