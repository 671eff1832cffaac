"""BERT's sizes as published, and what its config says of dropout, pooler and heads."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from regard.layers import Dropout, Tokens
from regard.models import Bert, BertConfig

SIZES: dict[str, Any] = {"vocabulary": 9, "width": 8, "heads": 2, "feedforward_width": 6, "layers": 2}


def parameters(config: BertConfig) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Bert(config).parameters())


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (BertConfig.base(), 109_482_240),
        (BertConfig.base(28_996), 108_310_272),
        (BertConfig.base(119_547), 177_853_440),  # multilingual
        (BertConfig.large(), 335_141_888),
        (BertConfig(vocabulary=30_522), 109_482_240),
    ],
)
def test_the_published_sizes(config, count):
    assert parameters(config) == count


def test_a_layer_has_12_d2_and_13_d_parameters():
    one, two = (parameters(BertConfig(vocabulary=30_522, layers=layers)) for layers in (1, 2))
    assert two - one == 12 * 768**2 + 13 * 768 == 7_087_872


@pytest.mark.parametrize(
    ("head", "outputs", "more"),
    [
        ("masked", 0, 768 * 768 + 768 + 2 * 768 + 30_522 - (768 * 768 + 768)),  # a transform and biases, but no pooler
        ("pretraining", 2, 768 * 768 + 768 + 2 * 768 + 30_522 + 2 * 768 + 2),
        ("next_sentence", 2, 2 * 768 + 2),
        ("sequence", 3, 3 * 768 + 3),
        ("choice", 1, 768 + 1),
        ("tokens", 9, 9 * 768 + 9 - (768 * 768 + 768)),
        ("spans", 2, 2 * 768 + 2 - (768 * 768 + 768)),
    ],
)
def test_what_a_head_adds_the_table_of_the_output_is_the_embeddings(head, outputs, more):
    config = dataclasses.replace(BertConfig.base(), head=head, outputs=outputs)
    assert parameters(config) == 109_482_240 + more


def test_a_small_model_that_a_laptop_trains():
    config = BertConfig.small()
    assert (config.width, config.heads, config.layers, config.maximum_positions) == (256, 4, 4, 256)
    assert parameters(config) < 6_000_000


@pytest.mark.parametrize(
    ("head", "outputs", "dropout"),
    [("sequence", 2, 0.3), ("tokens", 2, 0.3), ("choice", 1, 0.3), ("spans", 2, 0.0), ("next_sentence", 2, 0.0)],
)
def test_dropout_in_front_of_a_head_as_published(head, outputs, dropout):
    assert head_dropout(BertConfig(**SIZES, head=head, outputs=outputs, dropout=0.3)) == dropout
    assert head_dropout(BertConfig(**SIZES, head=head, outputs=outputs, dropout=0.3, head_dropout=0.2)) == 0.2


def head_dropout(config: BertConfig) -> float:
    dropout = Bert(config).head.dropout
    assert isinstance(dropout, Dropout)
    return dropout.p


@pytest.mark.parametrize(
    ("head", "pooler", "has"),
    [
        ("none", True, True),
        ("none", False, False),
        ("sequence", False, True),
        ("pretraining", False, True),
        ("tokens", True, False),
        ("masked", True, False),
    ],
)
def test_who_has_a_pooler(head, pooler, has):
    outputs = {"pretraining": 2, "none": 0, "masked": 0}.get(head, 3)
    config = BertConfig(**SIZES, head=head, outputs=outputs, pooler=pooler)
    assert config.has_pooler == has
    assert (Bert(config).pooler is not None) == has


def test_pruned_heads_are_the_same_in_any_order():
    one = BertConfig(**SIZES, pruned_heads=((1, 0), (0, 1)))
    other = BertConfig(**SIZES, pruned_heads=[[0, 1], [1, 0]])  # type: ignore[arg-type]
    assert one == other
    assert one.pruned_heads == ((0, 1), (1, 0))


def test_every_norm_has_the_configs_epsilon():
    model = Bert(BertConfig(**SIZES, norm_epsilon=0.25, head="pretraining", outputs=2))
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == 2 * 2 + 2
    assert {norm.eps for norm in norms} == {0.25}


def test_the_pooled_vector_is_the_first_tokens_wherever_it_stands(seeded, randomize):
    model = randomize(Bert(BertConfig(**SIZES))).eval()
    for side in ("left", "right"):
        tokens = Tokens.pad([[3, 4, 5, 6], [7, 8]], side=side)
        found = model(tokens)
        first = torch.stack([found.hidden[row][tokens.valid[row]][0] for row in (0, 1)])
        expected = torch.tanh(first @ model.pooler.map.weight.T + model.pooler.map.bias)
        torch.testing.assert_close(found.pooled, expected)
