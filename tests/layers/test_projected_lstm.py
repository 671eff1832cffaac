"""The projected LSTM: its equations word by word, PyTorch's own where nothing is clipped, and what padding must not do."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.layers import TwoWayLSTM
from regard.layers.lstm import ProjectedLSTMCell

VALID = torch.tensor([[True, True, True, True], [True, True, False, False], [True, False, False, False]])
EXACT = {"rtol": 1e-11, "atol": 1e-12}


@pytest.fixture
def layer(seeded, randomize):
    def make(scale: float = 1.0, **changes) -> TwoWayLSTM:
        return randomize(TwoWayLSTM(3, 5, **changes), scale=scale).double().eval()

    return make


def word_by_word(net: ProjectedLSTMCell, words: list[Tensor], cell_clip: float, clip: float) -> list[Tensor]:
    """Sak et al. 2014, with the clipping of TensorFlow's LSTMCell."""
    h, c = torch.zeros(3).double(), torch.zeros(5).double()
    found = []
    for x in words:
        i, f, g, o = (net.input.weight @ x + net.input.bias + net.recurrent.weight @ h).split(5)
        c = (torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)).clamp(-cell_clip, cell_clip)
        h = (net.projection.weight @ (torch.sigmoid(o) * torch.tanh(c))).clamp(-clip, clip)
        found.append(h)
    return found


@pytest.mark.parametrize("residual", [False, True])
def test_the_equations_word_by_word(layer, residual):
    model = layer(scale=3.0, residual=residual, cell_clip=0.7, projection_clip=0.4)
    x = torch.randn(3, 4, 6, dtype=torch.float64)
    found = model(x, VALID)
    clipped = 0
    for row in range(3):
        length = int(VALID[row].sum())
        ahead = word_by_word(model.forwards, [x[row, k, :3] for k in range(length)], 0.7, 0.4)
        behind = word_by_word(model.backwards, [x[row, k, 3:] for k in reversed(range(length))], 0.7, 0.4)[::-1]
        expected = torch.stack([torch.cat(pair) for pair in zip(ahead, behind, strict=True)])
        clipped += int((expected.abs() == 0.4).sum())
        torch.testing.assert_close(found[row, :length], expected + x[row, :length] * residual, **EXACT)
    assert clipped  # or the test would not see it


def test_without_clipping_it_is_pytorchs_own(layer):
    model = layer()
    oracle = nn.LSTM(3, 5, proj_size=3, batch_first=True, bidirectional=True).double()
    with torch.no_grad():
        for net, end in ((model.forwards, ""), (model.backwards, "_reverse")):
            getattr(oracle, f"weight_ih_l0{end}").copy_(net.input.weight)
            getattr(oracle, f"weight_hh_l0{end}").copy_(net.recurrent.weight)
            getattr(oracle, f"weight_hr_l0{end}").copy_(net.projection.weight)
            getattr(oracle, f"bias_ih_l0{end}").copy_(net.input.bias)
            getattr(oracle, f"bias_hh_l0{end}").zero_()
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    found = model(torch.cat((x, x), dim=-1), torch.ones(2, 4, dtype=torch.bool))
    torch.testing.assert_close(found, oracle(x)[0], **EXACT)


def test_no_direction_sees_what_the_other_has_read(layer):
    model = layer()
    x = torch.randn(1, 4, 6, dtype=torch.float64, requires_grad=True)
    found = model(x, torch.ones(1, 4, dtype=torch.bool))
    (ahead,) = torch.autograd.grad(found[0, 1, :3].sum(), x, retain_graph=True)
    (behind,) = torch.autograd.grad(found[0, 1, 3:].sum(), x)
    assert ahead[0, :2, :3].abs().min() > 0
    assert not ahead[0, 2:].any()
    assert not ahead[..., 3:].any()
    assert behind[0, 1:, 3:].abs().min() > 0
    assert not behind[0, :1].any()


def test_padding_on_either_side_changes_nothing(layer):
    model = layer(residual=True)
    x = torch.randn(3, 4, 6, dtype=torch.float64)
    right = model(x, VALID)
    left = torch.zeros_like(x)
    left[VALID.flip(1)] = x[VALID]
    torch.testing.assert_close(model(left, VALID.flip(1))[VALID.flip(1)], right[VALID], **EXACT)
    other = model(x.masked_fill(~VALID.unsqueeze(-1), 9.0), VALID)
    assert torch.equal(other[VALID], right[VALID])


def test_gradients_in_float64(layer):
    model = layer(cell_clip=3.0)
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda given: model(given, VALID[:2, :3]).masked_fill(~VALID[:2, :3, None], 0), (x,)
    )
