from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.layers import ChoCell, GatedRecurrentCell, ResetAfterCell, TanhCell

B, S, M, N = 2, 6, 3, 4
EXACT = {"rtol": 1e-10, "atol": 1e-12}


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


@pytest.mark.parametrize("kind", [GatedRecurrentCell, ChoCell, ResetAfterCell, TanhCell])
def test_first_recurrent_matrices_are_orthogonal(kind, seeded):
    cell = kind(M, N)
    matrices = [matrix for layer in cell.recurrent for matrix in layer.weight.split(N)]
    assert len(matrices) == cell.input.out_features // N
    for matrix in matrices:
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(N))
    assert not any(tensor.any() for name, tensor in cell.named_parameters() if name.endswith("bias"))
    assert len(list(cell.parameters())) == 2 + sum(1 + (layer.bias is not None) for layer in cell.recurrent)


def drawn(generator):
    return (torch.randn(B, width, generator=generator, dtype=torch.float64) for width in (M, N))


def test_chos_step_is_the_papers_equations(seeded, randomize, generator):
    """h' = z h + (1 - z) h~ with the reset before the product, number by number."""
    cell = randomize(ChoCell(M, N)).double()
    x, state = drawn(generator)
    w, bias = cell.input.weight.tolist(), cell.input.bias.tolist()
    u = [*cell.gates.weight.tolist(), *cell.candidate.weight.tolist()]

    def row(matrix, index, vector):
        return sum(a * b for a, b in zip(matrix[index], vector, strict=True))

    for at, (a, h) in enumerate(zip(x.tolist(), state.tolist(), strict=True)):
        reset = [sigmoid(row(w, i, a) + bias[i] + row(u, i, h)) for i in range(N)]
        update = [sigmoid(row(w, N + i, a) + bias[N + i] + row(u, N + i, h)) for i in range(N)]
        kept = [r * one for r, one in zip(reset, h, strict=True)]
        new = [math.tanh(row(w, 2 * N + i, a) + bias[2 * N + i] + row(u, 2 * N + i, kept)) for i in range(N)]
        expected = [z * old + (1 - z) * one for z, old, one in zip(update, h, new, strict=True)]
        torch.testing.assert_close(cell(x, state)[at].tolist(), expected, **EXACT)


def test_cho_and_bahdanau_differ_by_the_sign_of_the_update_gate(cell, generator):
    """z of one is 1 - z of the other, so weights fit across once Wz, Uz and bz change sign, and not before."""
    other = ChoCell(M, N).double()
    other.load_state_dict(cell.state_dict())
    x, state = drawn(generator)
    assert not torch.allclose(other(x, state), cell(x, state))
    with torch.no_grad():
        for tensor in (other.input.weight, other.input.bias, other.gates.weight):
            tensor[N : 2 * N] *= -1
    torch.testing.assert_close(other(x, state), cell(x, state), **EXACT)


def torchs_own(cell):
    """`nn.GRU` with a `ResetAfterCell`'s weights."""
    theirs = nn.GRU(M, N, batch_first=True).double()
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(cell.input.weight)
        theirs.bias_ih_l0.copy_(cell.input.bias)
        theirs.weight_hh_l0.copy_(cell.hidden.weight)
        theirs.bias_hh_l0.copy_(cell.hidden.bias)
    return theirs


def test_reset_after_is_torchs_own_gated_unit(seeded, randomize, generator):
    cell = randomize(ResetAfterCell(M, N)).double()
    x = torch.randn(B, S, M, generator=generator, dtype=torch.float64)
    state = torch.randn(B, N, generator=generator, dtype=torch.float64)
    expected, _ = torchs_own(cell)(x, state.unsqueeze(0))
    for step, wanted in zip(x.unbind(1), expected.unbind(1), strict=True):
        state = cell(step, state)
        torch.testing.assert_close(state, wanted, **EXACT)


def test_what_is_put_inside_the_bracket_is_reset_too(seeded, randomize, generator):
    """tanh(W x + r * (U h + b + c)): the same as a bias of torch's that differs from row to row."""
    cell = randomize(ResetAfterCell(M, N)).double()
    x, state = drawn(generator)
    inside = torch.randn(B, N, generator=generator, dtype=torch.float64)
    mine = cell.advance(cell.input(x), state, inside=inside)
    for row in range(B):
        moved = torchs_own(cell)
        with torch.no_grad():
            moved.bias_hh_l0[2 * N :] += inside[row]
        expected, _ = moved(x[row].view(1, 1, M), state[row].view(1, 1, N))
        torch.testing.assert_close(mine[row], expected[0, 0], **EXACT)
    assert not torch.allclose(mine, cell(x, state))


def test_the_plain_cell_is_torchs_own(seeded, randomize, generator):
    cell = randomize(TanhCell(M, N)).double()
    theirs = nn.RNNCell(M, N).double()
    with torch.no_grad():
        theirs.weight_ih.copy_(cell.input.weight)
        theirs.bias_ih.copy_(cell.input.bias)
        theirs.weight_hh.copy_(cell.hidden.weight)
        theirs.bias_hh.zero_()
    x, state = drawn(generator)
    torch.testing.assert_close(cell(x, state), theirs(x, state), **EXACT)


@pytest.mark.parametrize("kind", [GatedRecurrentCell, ChoCell, ResetAfterCell, TanhCell])
def test_over_padding_a_state_stays_exactly_as_it_is(kind, seeded, randomize, generator):
    cell = randomize(kind(M, N)).double()
    x, state = drawn(generator)
    real = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    after = cell.advance(cell.input(x), state, real)
    assert torch.equal(after[1], state[1])
    torch.testing.assert_close(after[0], cell(x, state)[0], **EXACT)
