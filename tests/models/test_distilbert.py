"""DistilBERT's size as published, and where it differs from BERT."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.errors import InputError
from regard.layers import Tokens
from regard.models import DistilBert, DistilBertConfig

SIZES: dict[str, Any] = {"vocabulary": 9, "width": 8, "heads": 2, "feedforward_width": 6, "layers": 2}


def test_the_published_size():
    with torch.device("meta"):
        model = DistilBert(DistilBertConfig())
    assert sum(parameter.numel() for parameter in model.parameters()) == 66_362_880
    assert len(model.layers) == 6


def test_it_tells_no_segments_apart_and_has_no_pooler_of_its_own(seeded):
    model = DistilBert(DistilBertConfig(**SIZES)).eval()
    assert model.config.segments == 0
    assert model.embedding.segments is None
    assert model.pooler is None
    tokens = Tokens.pad([[3, 4, 5]])
    told = model(tokens, torch.tensor([[0, 1, 1]]))
    assert torch.equal(told.hidden, model(tokens).hidden)
    assert told.pooled is None


@pytest.mark.parametrize("head", ["next_sentence", "pretraining"])
def test_it_was_never_shown_two_texts(head):
    with pytest.raises(InputError, match=f"head is '{head}', which DistilBERT has not.*choose 'masked', or a bert"):
        DistilBertConfig(**SIZES, head=head, outputs=2)


@pytest.mark.parametrize(
    ("head", "outputs", "dropout"),
    [("sequence", 3, 0.2), ("choice", 1, 0.2), ("spans", 2, 0.1), ("tokens", 3, 0.3), ("masked", 0, 0.3)],
)
def test_dropout_in_front_of_a_head_as_published(head, outputs, dropout):
    assert DistilBertConfig(**SIZES, head=head, outputs=outputs, dropout=0.3).head_dropout == dropout
    given = DistilBertConfig(**SIZES, head=head, outputs=outputs, dropout=0.3, head_dropout=0.0)
    assert given.head_dropout == 0.0


def test_a_head_of_the_whole_text_reads_through_a_layer_of_its_own(seeded, randomize):
    """Its `pre_classifier`: a rectified map of the first token's vector, not BERT's tanh."""
    model = randomize(DistilBert(DistilBertConfig(**SIZES, head="sequence", outputs=3))).eval()
    found = model(Tokens.pad([[3, 4, 5], [6, 7]]))
    expected = torch.relu(found.hidden[:, 0] @ model.pooler.map.weight.T + model.pooler.map.bias)
    torch.testing.assert_close(found.pooled, expected)
    assert (found.pooled == 0).any()
