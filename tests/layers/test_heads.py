"""The heads on an encoder, each on a few numbers."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers import FIXED_OUTPUTS, POOLED, HeadKind, Pooler, build_head
from regard.layers.heads import MaskedHead, NoHead, PooledHead, PretrainingHead, ReplacedHead, TokenHead

KINDS = {
    "none": NoHead,
    "masked": MaskedHead,
    "next_sentence": PooledHead,
    "pretraining": PretrainingHead,
    "sequence": PooledHead,
    "tokens": TokenHead,
    "spans": TokenHead,
    "choice": PooledHead,
    "replaced": ReplacedHead,
}


@pytest.fixture
def table(seeded) -> nn.Embedding:
    return nn.Embedding(9, 4)


@pytest.fixture
def hidden(generator) -> Tensor:
    return torch.randn(2, 5, 4, generator=generator)


def built(kind: HeadKind, table: nn.Embedding, **changes: float) -> nn.Module:
    outputs = FIXED_OUTPUTS.get(kind, 3)
    return build_head(
        kind, table, outputs=outputs, activation=F.gelu, dropout=changes.get("dropout", 0.0), epsilon=1e-12
    ).eval()


def test_every_kind_is_built():
    assert set(KINDS) == set(get_args(HeadKind)) == {*FIXED_OUTPUTS, "sequence", "tokens"}
    assert set(KINDS) >= POOLED


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_gives_what_it_announces(kind, table, hidden):
    head = built(kind, table)
    assert type(head) is KINDS[kind]
    pooled = torch.ones(2, 4)
    told = head(hidden, pooled if kind in POOLED else None, None)
    shape = {
        "none": None,
        "masked": (2, 5, 9),
        "pretraining": (2, 5, 9),
        "next_sentence": (2, 2),
        "replaced": (2, 5, 1),
        "sequence": (2, 3),
        "choice": (2, 1),
        "tokens": (2, 5, 3),
        "spans": (2, 5, 2),
    }[kind]
    assert (None if told.logits is None else tuple(told.logits.shape)) == shape
    assert (told.next_sentence is not None) == (kind == "pretraining")


@pytest.mark.parametrize("kind", ["masked", "pretraining"])
def test_only_the_places_asked_for_are_computed(kind, table, hidden):
    head = built(kind, table)
    pooled = torch.ones(2, 4)
    everywhere = head(hidden, pooled, None).logits.flatten(0, 1)
    places = torch.tensor([9, 0, 3])
    torch.testing.assert_close(head(hidden, pooled, places).logits, everywhere[places])


def test_the_masked_heads_table_is_the_embeddings(table):
    head = MaskedHead(table, activation=F.gelu, epsilon=1e-12)
    assert head.output.weight is table.weight
    assert head.output.bias.shape == (9,)


def test_the_masked_head_is_its_equation(table, hidden, randomize):
    head = randomize(MaskedHead(table, activation=torch.relu, epsilon=1e-3)).eval()
    t = torch.relu(hidden @ head.transform.weight.T + head.transform.bias)
    t = (t - t.mean(-1, keepdim=True)) / (t.var(-1, unbiased=False, keepdim=True) + 1e-3).sqrt()
    t = t * head.norm.weight + head.norm.bias
    torch.testing.assert_close(head(hidden, None, None).logits, t @ table.weight.T + head.output.bias)


@pytest.mark.parametrize("kind", ["sequence", "tokens", "spans", "choice", "next_sentence"])
def test_dropout_is_in_front_of_the_map_and_in_training_alone(kind, table, hidden):
    head = built(kind, table, dropout=0.5)
    pooled = torch.ones(2, 4) if kind in POOLED else None
    expected = F.linear(hidden if pooled is None else pooled, head.output.weight, head.output.bias)
    torch.testing.assert_close(head(hidden, pooled, None).logits, expected)
    head.train()
    assert not torch.equal(head(hidden, pooled, None).logits, head(hidden, pooled, None).logits)


def test_a_head_that_reads_the_pooled_vector_wants_one(table, hidden):
    with pytest.raises(RuntimeError, match="reads the pooled vector and the model has none"):
        built("sequence", table)(hidden, None, None)


@pytest.mark.parametrize(
    ("valid", "places"),
    [
        ([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], [0, 0]),
        ([[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]], [2, 1]),
        ([[0, 0, 0, 0, 0], [0, 0, 0, 0, 1]], [0, 4]),  # a row without tokens has a first place all the same
    ],
)
def test_the_pooler_takes_the_first_real_token(valid, places, hidden, seeded):
    pooler = Pooler(4, activation=torch.sigmoid)
    first = torch.stack([hidden[row, place] for row, place in enumerate(places)])
    expected = torch.sigmoid(first @ pooler.map.weight.T + pooler.map.bias)
    torch.testing.assert_close(pooler(hidden, torch.tensor(valid, dtype=torch.bool)), expected)
