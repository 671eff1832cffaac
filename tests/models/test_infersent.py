"""InferSent beside PyTorch's own bidirectional LSTM, and the traps that its two released versions differ by."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.layers import Tokens
from regard.models import InferSent, InferSentConfig

TEXTS = [[1, 4, 5, 6, 2], [1, 7, 2], [1, 8, 9, 4, 4, 3, 2]]


@pytest.fixture
def build(seeded, randomize):
    def make(**changes) -> InferSent:
        sizes = {"vocabulary": 11, "embedding_width": 4, "hidden_width": 3, "classifier_width": 5}
        return randomize(InferSent(InferSentConfig(**(sizes | changes))), scale=1.3).double().eval()

    return make


def theirs(model: InferSent) -> nn.LSTM:
    """PyTorch's, with the same weights."""
    lstm = nn.LSTM(
        model.config.embedding_width, model.config.hidden_width, batch_first=True, bidirectional=True
    ).double()
    with torch.no_grad():
        for ours, suffix in ((model.reader.forwards, ""), (model.reader.backwards, "_reverse")):
            cell = ours.layers[0]
            getattr(lstm, f"weight_ih_l0{suffix}").copy_(cell.input.weight)
            getattr(lstm, f"weight_hh_l0{suffix}").copy_(cell.recurrent.weight)
            getattr(lstm, f"bias_ih_l0{suffix}").copy_(cell.input.bias)
            getattr(lstm, f"bias_hh_l0{suffix}").zero_()
    return lstm


def vector(model: InferSent, ids: list[int]) -> Tensor:
    """One text alone, by PyTorch's LSTM and the words of section 3.2."""
    words = model.embedding.weight[torch.tensor(ids)]
    states, (last, _) = theirs(model)(words[None])
    return {"max": states[0].max(dim=0).values, "mean": states[0].mean(dim=0), "last": last.flatten()}[
        model.config.pooling
    ]


@pytest.mark.parametrize("pooling", ["max", "mean", "last"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_vectors_are_those_of_pytorchs_lstm(pooling, side, build):
    model = build(pooling=pooling)
    found = model(Tokens.pad(TEXTS, side=side)).pooled
    for row, ids in enumerate(TEXTS):
        torch.testing.assert_close(found[row], vector(model, ids), rtol=1e-10, atol=1e-12)


def test_the_classes_are_told_from_both_vectors_their_distance_and_their_product(build):
    model = build(texts=2, head="sequence", outputs=3)
    segments = torch.tensor([[0, 0, 0, 1, 1, 1]])
    found = model(Tokens.pad([[1, 4, 2, 5, 6, 2]]), segments)
    u, v = vector(model, [1, 4, 2]), vector(model, [1, 5, 6, 2])
    hidden = torch.tanh(model.head.inner.weight @ torch.cat([u, v, (u - v).abs(), u * v]) + model.head.inner.bias)
    torch.testing.assert_close(found.logits[0], model.head.output.weight @ hidden + model.head.output.bias)


def test_padding_is_no_part_of_the_maximum(build):
    """The first released version took the maximum over padding too: a text of negative states was zeros beside a longer one."""
    model = build()
    with torch.no_grad():
        model.reader.forwards.layers[0].input.bias.copy_(torch.tensor([9.0] * 3 + [9.0] * 3 + [-9.0] * 3 + [9.0] * 3))
        model.reader.backwards.layers[0].input.bias.copy_(model.reader.forwards.layers[0].input.bias)
    short, long = [1, 4, 2], [1, 4, 5, 6, 7, 8, 2]
    beside = model(Tokens.pad([short, long])).pooled[0]
    assert (beside < -0.5).all()
    torch.testing.assert_close(beside, model(Tokens.pad([short])).pooled[0])


def test_without_a_recurrent_net_it_is_the_mean_of_words_in_any_order(build):
    model = build(layers=0, pooling="mean")
    one, other = model(Tokens.pad([[1, 4, 5, 2], [1, 5, 4, 2]])).pooled
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(one, model.embedding.weight[torch.tensor([1, 4, 5, 2])].mean(dim=0))


def test_the_defaults_are_the_published_encoders():
    made = InferSentConfig(vocabulary=9)
    assert (made.embedding_width, made.hidden_width, made.width, made.classifier_width) == (300, 2048, 4096, 512)
    assert made.pooling == "max"
