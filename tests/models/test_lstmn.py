from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import LSTMN, LSTMNConfig


def tiny(**changes: Any) -> LSTMNConfig:
    sizes: dict[str, Any] = {
        "vocabulary": 11,
        "embedding_width": 4,
        "hidden_width": 5,
        "attention_width": 7,
        "layers": 2,
        "end_id": 1,
    }
    return LSTMNConfig(**(sizes | changes))


@pytest.fixture
def model(seeded, randomize):
    return randomize(LSTMN(tiny()), scale=1.5).double().eval()


def written_out(model: LSTMN, ids: list[int]) -> tuple[Tensor, list[list[Tensor]]]:
    """The equations of section 3.1 token by token, for one text: logits, and of each layer the weights of each token."""
    inputs = [model.embedding.weight[token] for token in ids]
    looked = []
    for layer in model.layers:
        width = layer.cell.width
        w_x, w_summary = layer.attention.query.weight.split((len(inputs[0]), width), dim=1)
        w_h, v = layer.attention.key.weight, layer.attention.attention.score.weight
        w, u, b = layer.cell.input.weight, layer.cell.recurrent.weight, layer.cell.input.bias
        tape: list[tuple[Tensor, Tensor]] = []
        summary, outputs, weights = torch.zeros(width, dtype=torch.float64), [], []
        for x in inputs:
            scores = [v @ torch.tanh(w_h @ h + w_x @ x + w_summary @ summary) for h, _ in tape]
            shares = torch.stack(scores).softmax(dim=0) if tape else torch.empty(0, dtype=torch.float64)
            zeros = torch.zeros(width, dtype=torch.float64)
            summary = sum((share * h for share, (h, _) in zip(shares, tape, strict=True)), zeros)
            memory = sum((share * c for share, (_, c) in zip(shares, tape, strict=True)), zeros)
            i, f, g, o = (w @ x + u @ summary + b).split(width)
            c = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            tape.append((h, c))
            outputs.append(h)
            weights.append(shares)
        inputs = outputs
        looked.append(weights)
    return torch.stack([model.output.weight @ h + model.output.bias for h in inputs]), looked


TEXTS = [[1, 3, 4, 5, 6], [1, 7, 8]]


@pytest.mark.parametrize("side", ["left", "right"])
def test_every_token_of_a_padded_batch_is_that_of_the_equations(model, side):
    tokens = Tokens.pad(TEXTS, side=side)
    logits = model(tokens)
    for row, ids in enumerate(TEXTS):
        expected, _ = written_out(model, ids)
        torch.testing.assert_close(logits[row][tokens.valid[row]], expected, rtol=1e-10, atol=1e-12)


def test_what_is_looked_at_is_seen_a_row_for_each_token_strictly_before_it(model):
    with regard.look(model) as seen:
        model(Tokens.pad(TEXTS[:1]))
    _, looked = written_out(model, TEXTS[0])
    assert seen.addresses == ["layers.0.attention", "layers.1.attention"]
    for address, expected in zip(seen.addresses, looked, strict=True):
        weights = seen.weights(address)[0, 0]
        assert weights.shape == (5, 4)  # the last token is looked at by none
        for place, shares in enumerate(expected):
            torch.testing.assert_close(weights[place, :place].double(), shares, rtol=1e-5, atol=1e-6)
            assert (weights[place, place:] == 0).all()


def test_the_query_holds_the_summary_before_and_not_the_last_hidden_vector(model):
    """Two states that differ in h~_{t-1} alone look elsewhere."""
    tokens = Tokens.pad([[1, 3, 4]])
    _, state = model.read(tokens, model.start(1))
    other = replace(state, summaries=tuple(-summary for summary in state.summaries))
    one, two = (model.step(torch.tensor([5]), each)[0] for each in (state, other))
    assert not torch.allclose(one, two)


def test_the_first_token_reads_an_empty_tape(model):
    """Zeros for both summaries: the step is an LSTM's from its zero state."""
    x = model.embedding.weight[1][None]
    cell = model.layers[0].cell
    hidden, _ = cell(x, cell.zeros(x))
    read, tape, summary = model.layers[0].read(x[:, None], *model.layers[0].empty(x), None)
    torch.testing.assert_close(read[:, 0], hidden, rtol=0, atol=0)
    assert (summary == 0).all()
    assert tape.key.shape == (1, 1, 1, 7)


def test_as_many_parameters_as_the_equations_have():
    """Gates of an LSTM with one bias, Wx, Wh~, Wh and v, the table and the output."""
    m, n, a, v = 150, 300, 300, 10_000
    model = LSTMN(LSTMNConfig(vocabulary=v))
    assert sum(p.numel() for p in model.parameters()) == v * m + 4 * n * (m + n + 1) + a * (m + n + n + 1) + (n + 1) * v


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layers": 0}, "layers is 0"),
        ({"attention_width": 0}, "attention_width"),
        ({"dropout": 1.0}, "dropout"),
        ({"end_id": 11}, "end_id"),
    ],
)
def test_sizes_that_cannot_be_are_refused(changes, said):
    with pytest.raises(InputError, match=said):
        tiny(**changes)
