from __future__ import annotations

import base64
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from regard.inspection.view import AttentionMap, AttentionView
from regard.inspection.viewer import SCALES, StoredWeights, restore, scale_for, store

any_weights = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=3, max_dims=3, max_side=4),
    elements=st.one_of(
        st.floats(0, 1, width=32),
        st.floats(-100, 100, width=32),
        st.just(0.0),
        st.floats(width=32, allow_nan=False, allow_infinity=False),
    ),
)
any_scale = st.sampled_from(SCALES)


def a_map(weights: np.ndarray) -> AttentionMap:
    query, key = [["x"] * n for n in weights.shape[1:]]
    return AttentionView.of(weights, query, key, address="a").maps[0]


def softmax_maps(maps: int, heads: int, length: int, deviation: float) -> list[AttentionMap]:
    rng = np.random.default_rng(0)
    made = []
    for _ in range(maps):
        weights = rng.standard_normal((heads, length, length), dtype=np.float32) * np.float32(deviation)
        weights = np.exp(weights - weights.max(-1, keepdims=True))
        made.append(a_map(weights / weights.sum(-1, keepdims=True)))
    return made


def decoded_one_by_one(stored: StoredWeights) -> tuple[np.ndarray, np.ndarray]:
    """As the page's script does it, in its own words: a level at a time."""
    raw = zlib.decompress(base64.b64decode(stored.text))
    heads, queries, keys = stored.shape
    size = queries * keys
    weights, errors = [], []
    for head in range(heads):
        for i in range(size):
            at = head * size * stored.size + i
            number = raw[at] if stored.size == 1 else raw[at] + 256 * raw[at + size]
            level = abs(number - stored.zero)
            value = stored.knee * np.expm1(stored.step * max(level - 1, 0))
            weights.append(-value if number < stored.zero else value)
            errors.append((value + stored.knee) * np.expm1(stored.step / 2) * 1.0001 if level else 0.0)
    return np.array(weights).reshape(stored.shape), np.array(errors).reshape(stored.shape)


@settings(max_examples=80, deadline=None)
@given(any_weights, any_scale)
def test_every_weight_comes_back_within_the_error_stated_for_it(weights, scale):
    restored, errors = restore(store(a_map(weights), scale))
    # Numbers of 1e-40 have fewer digits than others: float32 itself is not finer there.
    assert (np.abs(restored - weights) <= errors + 3e-45).all()
    assert ((restored == 0) | (np.sign(restored) == np.sign(weights))).all()


@settings(max_examples=80, deadline=None)
@given(any_weights, any_scale)
def test_zero_and_only_zero_is_exact(weights, scale):
    restored, errors = restore(store(a_map(weights), scale))
    assert (restored[weights == 0] == 0).all()
    np.testing.assert_array_equal(errors == 0, weights == 0)


@settings(max_examples=30, deadline=None)
@given(any_weights, any_scale)
def test_the_page_and_python_read_the_same(weights, scale):
    stored = store(a_map(weights), scale)
    for one, other in zip(restore(stored), decoded_one_by_one(stored), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_two_bytes_are_used_where_one_does_not_do():
    weights = np.linspace(-1, 1, 24).reshape(1, 4, 6)
    sizes = [store(a_map(weights), scale).size for scale in SCALES]
    assert sizes[0] == sizes[2] == 2
    assert sizes[-1] == 1
    assert store(a_map(np.abs(weights)), SCALES[2]).size == 1


def test_few_weights_are_stored_finely_and_many_coarsely():
    few, many = softmax_maps(1, 2, 16, 2.0), softmax_maps(1, 12, 256, 2.0)
    assert scale_for(few) == SCALES[0]
    chosen = [SCALES.index(scale_for(many * times)) for times in (1, 10, 60, 1000)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[-1]


@pytest.mark.parametrize("deviation", [2.0, 3.0])
def test_twelve_layers_of_twelve_heads_over_512_tokens_stay_under_25_megabytes(deviation):
    few = softmax_maps(1, 3, 512, deviation)
    scale = scale_for(few * 48)
    (stored,) = [store(item, scale) for item in few]
    assert len(stored.text) * 48 < 24.5e6
    restored, errors = restore(stored)
    assert errors.max() < 0.02
    assert np.abs(restored - few[0].weights).mean() < 2e-4


def test_masked_rows_cost_next_to_nothing():
    weights = np.tril(np.random.default_rng(0).random((4, 200, 200)))
    whole = store(a_map(np.random.default_rng(0).random((4, 200, 200))), SCALES[1])
    assert len(store(a_map(weights), SCALES[1]).text) < 0.6 * len(whole.text)


def test_a_scale_without_room_for_negatives_is_not_used_for_them():
    weights = np.array([[[-1.0, 1.0, 0.0]]])
    stored = store(a_map(weights), SCALES[1])
    assert stored.zero == SCALES[1].levels
    np.testing.assert_allclose(restore(stored)[0], weights, rtol=1e-6)
    assert restore(replace(stored, zero=0))[0].tolist() != weights.tolist()
