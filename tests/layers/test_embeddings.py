from __future__ import annotations

import pytest
import torch

from regard.attention import SinusoidalPositions, sinusoids
from regard.layers import PositionedEmbedding, token_embedding


def test_tokens_are_scaled_by_the_root_of_the_width_and_positions_are_not(seeded):
    table = token_embedding(9, 16)
    embedding = PositionedEmbedding(table, SinusoidalPositions(16, 20))
    ids, places = torch.tensor([[3, 8, 3]]), torch.tensor([[0, 1, 19]])
    expected = 4 * table.weight[ids] + sinusoids(places, 16)
    torch.testing.assert_close(embedding(ids, places), expected)


def test_scaled_tokens_start_at_variance_one(seeded):
    table = token_embedding(2000, 64)
    assert (table.weight * 8).var().item() == pytest.approx(1.0, rel=0.02)


def test_dropout_acts_in_training_only(seeded):
    embedding = PositionedEmbedding(token_embedding(9, 16), SinusoidalPositions(16, 20), dropout=0.5)
    ids, places = torch.tensor([[3, 8, 3]]), torch.tensor([[0, 1, 2]])
    assert (embedding.train()(ids, places) == 0).any()
    assert torch.equal(embedding.eval()(ids, places), embedding(ids, places))
