"""How the words of a test set are found in a table."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError
from regard.word_embeddings import WordVectors
from regard.word_embeddings.evaluation.similarity import Lookup


class Made:
    """A vector for every word with an x."""

    def vector(self, word):
        return np.array([0, 2], dtype=np.float32) if "x" in word else None


TABLE = WordVectors(words=("the", "US", "us", "Paris"), matrix=np.eye(4, dtype=np.float32))


@pytest.mark.parametrize(
    ("case", "rows"),
    [("exact", [0, 1, 2, None, None, None]), ("lower", [0, 1, 2, 0, 2, None]), ("ignore", [0, 1, 1, 0, 1, 3])],
)
def test_capitals(case, rows):
    lookup = Lookup(vectors=TABLE, case=case)
    assert [lookup.row(word) for word in ("the", "US", "us", "The", "Us", "paris")] == rows


def test_only_the_first_words_are_found():
    assert Lookup(vectors=TABLE, case="lower", among=2).row("us") is None
    assert Lookup(vectors=TABLE, among=2).row("us") == 1
    assert Lookup(vectors=TABLE, among=100).size == 4


def test_subwords_make_what_the_table_has_not_and_nothing_else():
    table = WordVectors(words=("ax", "box"), matrix=np.eye(2, dtype=np.float32), subwords=Made())
    lookup = Lookup(vectors=table, among=1)
    assert lookup.vector("AX").tolist() == [1, 0]  # its row, not its parts
    assert lookup.vector("tax").tolist() == [0, 2]
    assert lookup.vector("cat") is None
    assert lookup.vector("box") is None  # it has a row, beyond the first


def test_what_does_not_exist_is_refused():
    with pytest.raises(InputError, match="did you mean 'exact'"):
        Lookup(vectors=TABLE, case="exakt")
    with pytest.raises(InputError, match="among is 0"):
        Lookup(vectors=TABLE, among=0)
