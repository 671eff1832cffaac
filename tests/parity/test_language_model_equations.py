"""LSTM language models against torch's own LSTM, and residual stacks against the equation written word by word."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.layers import Tokens
from regard.models import LSTMLanguageModel, LSTMLanguageModelConfig

SIZES = {"vocabulary": 9, "embedding_width": 6, "hidden_width": 6, "layers": 4, "dropout": 0.5}


@pytest.fixture
def build(seeded, randomize):
    def make(**changes: bool) -> LSTMLanguageModel:
        model = LSTMLanguageModel(LSTMLanguageModelConfig(**(SIZES | changes)))
        return randomize(model, scale=0.8).double().eval()

    return make


@pytest.fixture
def tokens() -> Tokens:
    draw = torch.Generator().manual_seed(4)
    ids = torch.randint(9, (3, 7), generator=draw)
    return Tokens(ids, torch.ones_like(ids, dtype=torch.bool))


def test_a_plain_stack_is_torchs_own(build, tokens):
    model = build()
    theirs = nn.LSTM(6, 6, num_layers=4, batch_first=True).double()
    with torch.no_grad():
        for layer, cell in enumerate(model.stack.layers):
            getattr(theirs, f"weight_ih_l{layer}").copy_(cell.input.weight)
            getattr(theirs, f"weight_hh_l{layer}").copy_(cell.recurrent.weight)
            getattr(theirs, f"bias_ih_l{layer}").copy_(cell.input.bias)
            getattr(theirs, f"bias_hh_l{layer}").zero_()
    expected = model.output(theirs(model.embedding(tokens.ids))[0])
    torch.testing.assert_close(model(tokens), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("tied", [False, True])
def test_a_residual_stack_word_by_word(tied, build, tokens):
    """x_t^i = m_t^i + x_t^{i-1} from the second layer on (Wu et al. 2016, section 3.1)."""
    model = build(residual=True, tied=tied)
    states = [(torch.zeros(3, 6).double(), torch.zeros(3, 6).double()) for _ in range(4)]
    rows = []
    for t in range(7):
        x = model.embedding.weight[tokens.ids[:, t]]
        for layer, cell in enumerate(model.stack.layers):
            m, c = states[layer]
            i, f, g, o = (x @ cell.input.weight.T + cell.input.bias + m @ cell.recurrent.weight.T).chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            m = o.sigmoid() * c.tanh()
            states[layer] = (m, c)
            x = m + x if layer else m
        matrix = model.embedding.weight if tied else model.output.weight
        rows.append(x @ matrix.T + model.output.bias)
    torch.testing.assert_close(model(tokens), torch.stack(rows, dim=1), rtol=1e-10, atol=1e-12)


def test_tied_matrices_are_one(build):
    model = build(tied=True)
    assert model.output.weight is model.embedding.weight


def test_residual_connections_have_no_parameters(build):
    count = [sum(p.numel() for p in build(residual=residual).parameters()) for residual in (False, True)]
    assert count[0] == count[1]
