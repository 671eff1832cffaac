"""The embedding of texts and the stack on it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.attention import LearnedPositions
from regard.errors import InputError
from regard.layers import TextEmbedding, Tokens
from regard.models import Bert, BertConfig


@pytest.fixture
def embedding(seeded, randomize):
    def make(segments: int | None, **changes: float) -> TextEmbedding:
        made = TextEmbedding(
            nn.Embedding(9, 6),
            LearnedPositions(6, 7),
            None if segments is None else nn.Embedding(segments, 6),
            epsilon=1e-3,
            dropout=changes.get("dropout", 0.0),
        )
        return randomize(made).eval()

    return make


IDS = torch.tensor([[3, 8, 8], [5, 3, 0]])
POSITIONS = torch.tensor([[0, 1, 2], [4, 5, 6]])
SEGMENTS = torch.tensor([[0, 1, 1], [2, 0, 2]])


@pytest.mark.parametrize("segments", [None, 1, 3])
def test_the_embedding_is_its_equation(segments, embedding):
    layer = embedding(segments)
    x = layer.tokens.weight[IDS] + layer.positions.weight[POSITIONS]
    if segments == 3:
        x = x + layer.segments.weight[SEGMENTS]
    if segments == 1:  # a single one tells none apart
        x = x + layer.segments.weight[0]
    x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-3).sqrt()
    expected = x * layer.norm.weight + layer.norm.bias
    torch.testing.assert_close(layer(IDS, POSITIONS, SEGMENTS), expected)


def test_without_segments_all_is_of_the_first(embedding):
    layer = embedding(3)
    assert torch.equal(layer(IDS, POSITIONS, None), layer(IDS, POSITIONS, torch.zeros_like(IDS)))


def test_dropout_comes_after_the_norm_and_in_training_alone(embedding):
    layer = embedding(3, dropout=0.5)
    expected = layer(IDS, POSITIONS, SEGMENTS)
    dropped = layer.train()(IDS, POSITIONS, SEGMENTS)
    kept = dropped != 0
    assert 0 < kept.float().mean() < 1
    torch.testing.assert_close(dropped[kept], 2 * expected[kept], rtol=1e-3, atol=1e-4)


def test_positions_are_counted_from_each_rows_first_real_token(seeded):
    """Whatever stands before it: the rows of the table that are used are 0, 1, 2 and so on."""
    model = Bert(BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=8, layers=1)).eval()
    asked: list[torch.Tensor] = []
    model.embedding.positions.register_forward_hook(lambda module, inputs, output: asked.append(inputs[0]))
    tokens = Tokens.pad([[3, 4, 5], [6, 7]], side="left")
    model(tokens)
    assert asked[0][0].tolist() == [0, 1, 2]
    assert asked[0][1][1:].tolist() == [0, 1]


def test_a_longer_text_names_what_to_raise():
    config = BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=8, layers=1, maximum_positions=4)
    with pytest.raises(InputError, match=r"the text has 5 tokens .* for 4; .* larger model\.maximum_positions"):
        Bert(config)(Tokens.pad([[3] * 5]))
