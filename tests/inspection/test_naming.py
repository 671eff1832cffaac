"""What pages call layers and heads, and which heads tell most."""

from __future__ import annotations

import numpy as np
import pytest

from regard.inspection.naming import head_kinds, layer_names, telling, telling_cells
from regard.inspection.view import AttentionMap


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("layers.3.attention", "Layer 3"),
        ("encoder.layer.3.attention.self", "Layer 3"),
        ("h.11.attn", "Layer 11"),
        ("decoder.attention", "Decoder attention"),
        ("decoder.layers.0.cross_attention", "Layer 0, cross-attention"),
        ("decoder.block.2.layer.1.EncDecAttention", "Layer 2, cross-attention"),
        ("layers.0.attention, head 2", "Layer 0, head 2"),
        ("a name of one's own", "a name of one's own"),
        ("attention", "Attention"),
    ],
)
def test_addresses_have_names(address, name):
    assert layer_names([address]) == {address: name}


def test_no_two_layers_have_one_name():
    addresses = ["layers.0.self_attn", "layers.0.self_attn:2", "layers.1.self_attn"]
    names = layer_names(addresses)
    assert len(set(names.values())) == 3
    assert names["layers.1.self_attn"] == "Layer 1"
    assert names["layers.0.self_attn:2"] == "Layer 0: layers.0.self_attn:2"


def a_map(weights, kind="self", keys=None):
    weights = np.asarray(weights, dtype=float)
    queries = tuple(f"q{i}" for i in range(weights.shape[1]))
    keys = keys or (queries if kind == "self" else tuple(f"k{i}" for i in range(weights.shape[2])))
    return AttentionMap(address="a", kind=kind, query_tokens=queries, key_tokens=keys, weights=weights)


def test_heads_that_do_one_thing_are_named_after_it():
    n = np.eye(6)
    heads = [n[[0, 0, 1, 2, 3, 4]], n[[1, 2, 3, 4, 5, 5]], n, n[[0] * 6], np.full((6, 6), 1 / 6), n[[3, 4, 5, 0, 1, 2]]]
    expected = ["previous token", "next token", "same token", "first token", "broad", None]
    assert head_kinds(a_map(np.stack(heads))) == expected


def test_what_cannot_be_named_has_no_name():
    assert head_kinds(a_map([[[-1.0, 1.0], [0.0, 1.0]]])) == [None]  # below zero: no shares of attention
    assert head_kinds(a_map([[[1.0]]])) == [None]  # nothing to choose between


def test_a_head_tells_where_its_queries_choose_for_themselves():
    n = np.eye(6)
    own, one = n[[3, 4, 5, 0, 1, 2]], n[[4] * 6]
    back, uniform = n[[0, 0, 1, 2, 3, 4]], np.full((6, 6), 1 / 6)
    told = telling(a_map(np.stack([own, one, back, uniform])))
    assert told.argmax() == 0
    assert told[1:] == pytest.approx(0, abs=1e-12)


def test_special_tokens_tell_nothing():
    weights = np.eye(3)[[2, 0, 0]][None]
    plain = telling(a_map(weights, kind="cross"))
    assert plain > 0
    assert telling(a_map(weights, kind="cross", keys=("[CLS]", "b", "[SEP]"))) == 0


def test_the_cell_that_tells_most_is_a_querys_own_choice():
    own = 0.4 * np.eye(6)[[3, 4, 5, 0, 1, 2]] + 0.6 * np.eye(6)[[0] * 6]
    own[2] = np.eye(6)[5]
    assert telling_cells(a_map(own[None])) == [[2, 5]]
