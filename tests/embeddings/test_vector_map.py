"""Maps of vectors: PCA against the singular value decomposition, neighbours against sorting everything."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.embeddings.vector_map import all_neighbours, map_vectors, principal_components
from regard.errors import InputError


def drawn(count: int, width: int, seed: int = 0) -> np.ndarray:
    """Vectors that vary more in some directions than in others, away from zero."""
    draw = np.random.default_rng(seed)
    return (draw.normal(size=(count, width)) * np.linspace(4, 0.5, width) + draw.normal(size=width) * 3).astype(
        np.float32
    )


@pytest.mark.parametrize(("count", "width"), [(300, 20), (12, 40), (20000, 5), (7, 7)])
def test_pca_is_the_singular_value_decomposition(count, width):
    vectors = drawn(count, width)
    found = principal_components(vectors)
    wide = vectors.astype(np.float64)
    _, lengths, directions = np.linalg.svd(wide - wide.mean(axis=0), full_matrices=False)
    signs = np.sign(directions[np.arange(2), np.abs(directions[:2]).argmax(axis=1)])[:, None]
    np.testing.assert_allclose(found.directions, directions[:2] * signs, atol=1e-8)
    np.testing.assert_allclose(
        found.points, (wide - wide.mean(axis=0)) @ (directions[:2] * signs).T, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(found.shares, (lengths**2 / (lengths**2).sum())[:2], rtol=1e-9)


def test_pca_is_that_of_scikit_learn():
    decomposition = pytest.importorskip("sklearn.decomposition")
    vectors = drawn(500, 30, seed=1)
    theirs = decomposition.PCA(2, svd_solver="full").fit(vectors.astype(np.float64))
    found = principal_components(vectors)
    np.testing.assert_allclose(found.shares, theirs.explained_variance_ratio_, rtol=1e-9)
    np.testing.assert_allclose(np.abs(found.directions), np.abs(theirs.components_), atol=1e-8)


def test_vectors_on_a_line_or_all_the_same_have_no_second_direction():
    line = np.arange(6, dtype=np.float32)[:, None] * np.array([[1, 2, -3]], dtype=np.float32)
    found = principal_components(line)
    assert found.shares == (pytest.approx(1), 0.0)
    assert not found.points[:, 1].any()
    assert found.directions[0, 2] > 0
    same = principal_components(np.ones((4, 3), dtype=np.float32))
    assert same.shares == (0.0, 0.0)
    assert not same.points.any()
    assert principal_components(np.ones((1, 1), dtype=np.float32)).points.tolist() == [[0, 0]]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 12), st.integers(1, 9), st.integers(0, 9), st.booleans())
def test_neighbours_are_those_of_sorting_everything(count, width, wanted, block, seed, alike):
    draw = np.random.default_rng(seed)
    vectors = (draw.integers(-2, 3, (count, width)) if alike else draw.normal(size=(count, width))).astype(np.float32)
    found = all_neighbours(vectors, wanted, block=block)
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1)
    cosines = (wide @ wide.T) / np.maximum(np.outer(lengths, lengths), 1e-30)
    kept = min(wanted, count - 1)
    assert found.rows.shape == found.cosines.shape == (count, kept)
    for row in range(count):
        if not lengths[row]:
            assert set(found.rows[row].tolist()) <= {-1}
            continue
        others = np.delete(np.arange(count), row)
        best = np.sort(cosines[row][others])[::-1][:kept]
        assert row not in found.rows[row]
        assert len(set(found.rows[row].tolist())) == kept
        np.testing.assert_allclose(found.cosines[row], best, atol=1e-6)
        np.testing.assert_allclose(cosines[row][found.rows[row]], found.cosines[row], atol=1e-6)
        order = others[np.argsort(-cosines[row][others])][: kept + 1]
        if len(order) < 2 or np.diff(-cosines[row][order]).min() > 1e-5:  # no two are alike: the order is the same too
            assert found.rows[row].tolist() == order[:kept].tolist()


def test_a_vector_among_many_alike_is_not_its_own_neighbour():
    found = all_neighbours(np.ones((30, 3), dtype=np.float32), 4)
    assert not (found.rows == np.arange(30)[:, None]).any()
    assert found.rows[20].tolist() == [0, 1, 2, 3]


def test_what_is_told_on_the_way():
    told = []
    all_neighbours(np.eye(5, dtype=np.float32), 2, progress=lambda *each: told.append(each), block=2)
    assert [done for done, _, _ in told] == [0, 2, 4, 5]
    assert {total for _, total, _ in told} == {5}


@pytest.mark.parametrize(
    ("vectors", "labels", "more", "said"),
    [
        (np.zeros((0, 3)), [], {}, r"the vectors have the shape \(0, 3\)"),
        (np.ones((2, 3)), ["a"], {}, "2 vectors and 1 labels"),
        (np.array([[1.0, np.nan]]), ["a"], {}, "not finite"),
        (np.ones((2, 3)), ["a", "b"], {"method": "tnse"}, "no method 'tnse'"),
        (np.ones((2, 3)), ["a", "b"], {"neighbours": -1}, "neighbours is -1"),
        (np.ones((2, 3)), ["a", "b"], {"columns": {"kind": ["x"]}}, "2 vectors and 1 of 'kind'"),
    ],
)
def test_what_makes_no_map_is_refused(vectors, labels, more, said):
    with pytest.raises(InputError, match=said):
        map_vectors(vectors.astype(np.float32), labels, **more)


@pytest.mark.parametrize(("method", "module"), [("umap", "umap"), ("tsne", "openTSNE")])
def test_a_missing_library_is_named_with_the_command_that_installs_it(method, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"pip install 'regard\[map\]'"):
        map_vectors(np.eye(6, dtype=np.float32), list("abcdef"), method=method)


@pytest.mark.parametrize(
    ("method", "module"),
    [pytest.param("umap", "umap", marks=pytest.mark.slow), ("tsne", "openTSNE")],  # numba compiles UMAP for 20 seconds
)
def test_groups_that_are_apart_are_drawn_apart(method, module):
    pytest.importorskip(module)
    draw = np.random.default_rng(2)
    group = np.arange(90) % 3
    vectors = (np.eye(3, 8)[group] * 9 + draw.normal(size=(90, 8))).astype(np.float32)
    vectors[4] = 0
    labels = [str(each) for each in range(90)]
    found = map_vectors(vectors, labels, method=method, neighbours=3, seed=5)
    assert found.shares is None
    assert found.neighbours is not None
    assert found.neighbours.rows.shape == (90, 3)
    assert found.points.dtype == np.float32
    assert np.isfinite(found.points).all()
    apart = np.linalg.norm(found.points[:, None] - found.points[None], axis=-1)
    np.fill_diagonal(apart, np.inf)
    assert (group[apart.argmin(axis=1)] == group).mean() > 0.95
    again = map_vectors(vectors, labels, method=method, neighbours=3, seed=5)
    np.testing.assert_array_equal(found.points, again.points)
    with pytest.raises(InputError, match="too few"):
        map_vectors(vectors[:4], labels[:4], method=method)
