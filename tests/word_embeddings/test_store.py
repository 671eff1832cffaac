"""The table of words and vectors: what it gives, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError
from regard.word_embeddings.store import CHUNK, NgramSubwords, WordVectors


def table(**changes) -> WordVectors:
    given = {
        "words": ("the", "of", "Paris"),
        "matrix": np.array([[3, 4], [0, 0], [1, 0]], dtype=np.float32),
        "counts": np.array([9, 5, 2]),
        "name": "small",
    }
    return WordVectors(**given | changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"matrix": np.eye(3)}, "matrix is float64"),
        ({"matrix": np.zeros(3, dtype=np.float32)}, "of the shape"),
        ({"matrix": np.zeros((2, 2), dtype=np.float32)}, "3 words have 2 vectors"),
        ({"counts": np.array([1, 2])}, "counts of the shape"),
        ({"words": ("the", "of", "the")}, "the word 'the' is there twice"),
        ({"matrix": np.array([[1, 2], [3, np.nan], [5, 6]], dtype=np.float32)}, "the vector of 'of' has a number"),
        ({"matrix": np.array([[1, 2], [3, 4], [5, -np.inf]], dtype=np.float32)}, "the vector of 'Paris' has a number"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes, said):
    with pytest.raises(InputError, match=said) as caught:
        table(**changes)
    assert str(caught.value).startswith("small: ")


def test_a_number_that_is_not_finite_is_found_anywhere_in_a_large_table():
    matrix = np.zeros((CHUNK + 3, 1), dtype=np.float32)
    matrix[CHUNK + 1] = np.inf
    with pytest.raises(InputError, match=f"'w{CHUNK + 1}'"):
        WordVectors(words=[f"w{row}" for row in range(CHUNK + 3)], matrix=matrix)


def test_words_have_their_rows_and_unknown_ones_a_hint():
    vectors = table()
    assert vectors["Paris"].tolist() == [1, 0]
    assert vectors.of(["of", "the", "the"]).tolist() == [[0, 0], [3, 4], [3, 4]]
    assert vectors.of([]).shape == (0, 2)
    assert vectors.get("paris") is None
    assert not vectors.has("paris")
    for word, hint in (
        ("paris", "did you mean 'Paris'"),
        ("Pariss", "did you mean 'Paris'"),
        ("xyz", "ask for a word"),
    ):
        with pytest.raises(InputError, match=f"has no vector of '{word}'; {hint}"):
            vectors[word]
    np.testing.assert_array_equal(vectors.lengths, [5, 0, 1])
    assert WordVectors(words=(), matrix=np.empty((0, 4), dtype=np.float32)).lengths.shape == (0,)


def test_subwords_answer_for_words_without_a_row_alone():
    subwords = NgramSubwords(table=np.full((5, 2), 7, dtype=np.float32))
    vectors = table(subwords=subwords)
    assert vectors["the"].tolist() == [3, 4]
    assert vectors["unheard"].tolist() == [7, 7]
    assert vectors.has("unheard")
    assert "unheard" not in vectors
    assert not vectors.has("</s>")
    assert vectors.of(["unheard", "the"]).tolist() == [[7, 7], [3, 4]]
    assert vectors.only([0]).has("unheard")
    assert not vectors.with_matrix(vectors.matrix).has("unheard")


def test_parts_keep_words_vectors_and_counts_together():
    chosen = table().only([2, 0])
    assert chosen.words == ("Paris", "the")
    assert chosen.matrix.tolist() == [[1, 0], [3, 4]]
    assert chosen.counts is not None
    assert chosen.counts.tolist() == [2, 9]
    assert table().first(2).words == ("the", "of")
    assert table().first(99).words == table().words
    with pytest.raises(InputError, match="twice"):
        table().only([1, 1])
    wider = table().with_matrix(np.ones((3, 5), dtype=np.float32), name="wider")
    assert (wider.width, wider.name, wider.words) == (5, "wider", table().words)


def test_a_mapped_matrix_is_used_as_it_is(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3, dtype=np.float32))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    vectors = table(matrix=mapped)
    assert vectors.matrix is mapped
    assert np.shares_memory(vectors["of"], mapped)
    np.testing.assert_array_equal(vectors.lengths, 1)
