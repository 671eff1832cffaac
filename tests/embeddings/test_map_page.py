"""The page of a map holds what Python holds, and nothing in it is live; the table is as embedding-atlas reads it."""

from __future__ import annotations

import csv
import json
import re
import zlib

import numpy as np
import pytest

from regard.embeddings.map_page import COSINE, about, column_of, described, html_page, write_points
from regard.embeddings.vector_map import VectorMap, map_vectors
from regard.errors import InputError

LABELS = ["</script><script>alert(1)</script>", 'a "quoted", text', "\u202eback", "ein\nUmbruch", "=1+1", "", "g", "h"]


@pytest.fixture
def made() -> VectorMap:
    vectors = np.random.default_rng(4).normal(size=(8, 5)).astype(np.float32)
    vectors[6] = 0
    columns = {"</script>": list("abcabcab"), "size": np.array([0.5, -1, np.nan, 2, 3, 4, 5, 6])}
    return map_vectors(vectors, LABELS, neighbours=3, columns=columns, title="<b>map</b>")


def unpacked(part: bytes, kind: str) -> np.ndarray:
    planes = np.frombuffer(zlib.decompress(part), dtype=np.uint8).reshape(np.dtype(kind).itemsize, -1)
    return np.ascontiguousarray(planes.T).reshape(-1).view(kind)


def test_the_parts_are_what_python_has(made):
    data, parts = described(made)
    np.testing.assert_array_equal(unpacked(parts[0], "<f4").reshape(2, 8).T, made.points)
    assert json.loads(zlib.decompress(parts[1])) == LABELS
    np.testing.assert_array_equal(unpacked(parts[2], "<i4").reshape(8, 3), made.neighbours.rows)
    np.testing.assert_allclose(
        unpacked(parts[3], "<i2").reshape(8, 3) / COSINE, made.neighbours.cosines, atol=0.51 / COSINE
    )
    kind, size = data["columns"]
    assert [kind["values"][place] for place in unpacked(parts[kind["part"]], "<u2")] == made.columns["</script>"]
    assert (kind["values"], kind["counts"]) == (["a", "b", "c"], [3, 3, 2])
    np.testing.assert_array_equal(unpacked(parts[size["part"]], "<f4"), made.columns["size"].astype(np.float32))
    assert size["ends"] == [-1, 6]


def test_nothing_in_a_page_is_live(made):
    page = html_page(made)
    assert page.count("<script") == page.count("</script>") == 2 + len(described(made)[1])
    assert "alert(1)" not in page
    assert "<b>map" not in page
    assert not re.search(
        r"(?:src|href)=|https?://(?!www\.w3\.org)", re.sub(r"<script.*?</script>", "", page, flags=re.S)
    )
    assert "default-src &#39;none&#39;" in page


def test_the_share_of_variance_and_what_distances_are_not_is_said(made):
    x, y = made.shares
    assert f"{x + y:.1%} of their variance" in about(made)
    assert "Distances in the plot differ from those in the original space" in about(made)


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (["1.5", "", "2"], True),
        (["a", "2"], False),
        (["1", "2", "1"], False),
        ([str(n) for n in range(13)], True),
        (["", ""], False),
    ],
)
def test_numbers_are_told_from_names(values, numbers):
    assert isinstance(column_of(values), np.ndarray) is numbers


def test_the_table_is_in_the_words_of_embedding_atlas(made, tmp_path):
    # Its --help: 'Column containing pre-computed nearest neighbors in format: {"ids": [n1, n2, ...], "distances": [d1, d2, ...]}.
    # IDs should be zero-based row indices.' Its loader reads .parquet, .jsonl (pandas, lines=True) and all else as CSV.
    write_points(made, tmp_path / "points.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "points.jsonl").read_text().splitlines()]
    assert list(rows[0]) == ["x", "y", "text", "</script>", "size", "neighbors"]
    assert [row["text"] for row in rows] == LABELS
    assert np.array([[row["x"], row["y"]] for row in rows], dtype=np.float32).tolist() == made.points.tolist()
    assert rows[2]["size"] is None
    assert rows[6]["neighbors"] == {"ids": [], "distances": []}
    for row, ids, cosines in zip(rows[:6], *made.neighbours, strict=False):
        assert row["neighbors"]["ids"] == ids.tolist()
        np.testing.assert_allclose(row["neighbors"]["distances"], 1 - cosines, atol=1e-6)
    write_points(made, tmp_path / "points.csv")
    with (tmp_path / "points.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["text"] for row in table] == LABELS
    assert list(table[0]) == ["x", "y", "text", "</script>", "size"]
    parquet = pytest.importorskip("pyarrow.parquet")
    write_points(made, tmp_path / "points.parquet")
    assert parquet.read_table(tmp_path / "points.parquet").to_pylist() == rows


def test_a_table_that_cannot_be_is_refused(made, tmp_path):
    with pytest.raises(InputError, match=r"ends in '\.xlsx'"):
        write_points(made, tmp_path / "points.xlsx")
    taken = VectorMap(title="t", labels=["a"], points=made.points[:1], method="pca", width=5, columns={"text": ["b"]})
    with pytest.raises(InputError, match="called 'text'"):
        write_points(taken, tmp_path / "points.csv")
