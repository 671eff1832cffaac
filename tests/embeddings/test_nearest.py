"""Exact search against sorting everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.embeddings import nearest
from regard.errors import InputError


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 30), st.integers(1, 3), st.integers(1, 40), st.integers(1, 9), st.integers(0, 5))
def test_pieces_give_what_the_whole_gives(rows, queries, count, chunk, seed):
    draw = np.random.default_rng(seed)
    vectors = draw.integers(-2, 3, (rows, 4)).astype(np.float32)  # many alike, some zero
    asked = draw.normal(size=(queries, 4)).astype(np.float32)
    found = nearest(vectors, asked, count, chunk=chunk)
    lengths = np.maximum(np.linalg.norm(vectors, axis=1), 1e-30)
    cosines = (asked / np.linalg.norm(asked, axis=1, keepdims=True)) @ (vectors / lengths[:, None]).T
    assert found.rows.shape == (queries, min(count, rows))
    for row in range(queries):
        np.testing.assert_allclose(found.cosines[row], np.sort(cosines[row])[::-1][:count], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(cosines[row][found.rows[row]], found.cosines[row], rtol=1e-4, atol=1e-6)
        assert len(set(found.rows[row].tolist())) == min(count, rows)


def test_of_those_alike_the_first_ones_come_first():
    vectors = np.tile(np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32), (4, 1))
    for chunk in (1, 3, 100):
        assert nearest(vectors, vectors[:1], 3, chunk=chunk).rows.tolist() == [[0, 2, 4]]


def test_a_file_is_searched_without_being_read_into_memory(tmp_path):
    vectors = np.random.default_rng(1).normal(size=(50, 6)).astype(np.float32)
    np.save(tmp_path / "a.npy", vectors)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r", allow_pickle=False)
    assert nearest(mapped, vectors[7:8], 1, chunk=7).rows.tolist() == [[7]]


def test_widths_that_differ_are_refused():
    with pytest.raises(InputError, match="from the same model"):
        nearest(np.zeros((2, 3), np.float32), np.zeros((1, 4), np.float32), 1)
    with pytest.raises(InputError, match="count is 0"):
        nearest(np.zeros((2, 3), np.float32), np.zeros((1, 3), np.float32), 0)
