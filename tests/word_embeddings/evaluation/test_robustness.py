"""Variants of words, and how vectors fare with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import InputError
from regard.word_embeddings import WordVectors, neighbours
from regard.word_embeddings.evaluation.probes import evaluate_robustness, typo, variant


class Letters:
    """Makes vectors of the letters of a word: a word with a wrong letter is near the right one."""

    def vector(self, word):
        found = np.full(26, 0.1, dtype=np.float32)
        for letter in word:
            found["abcdefghijklmnopqrstuvwxyz".index(letter.lower())] += 1
        return found


def distance(one: str, other: str) -> int:
    """Damerau's: insertions, deletions, other letters, and neighbours exchanged."""
    rows = np.zeros((len(one) + 1, len(other) + 1), dtype=int)
    rows[:, 0], rows[0] = range(len(one) + 1), range(len(other) + 1)
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            same = one[i - 1] == other[j - 1]
            rows[i, j] = min(rows[i - 1, j] + 1, rows[i, j - 1] + 1, rows[i - 1, j - 1] + (not same))
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                rows[i, j] = min(rows[i, j], rows[i - 2, j - 2] + 1)
    return int(rows[-1, -1])


@given(st.text("abcxyz", min_size=4, max_size=9), st.integers(0, 1000))
def test_a_typing_error_is_one_letter_away(word, seed):
    wrong = typo(word, np.random.default_rng(seed))
    assert distance(word, wrong) == 1
    assert wrong[0] == word[0]


def test_variants_of_a_kind():
    draw = np.random.default_rng(0)
    assert [variant(word, "plural", draw) for word in ("box", "day", "sheep", "wolf")] == [
        "boxes",
        "days",
        None,
        "wolves",
    ]
    assert [variant(word, "British spelling", draw) for word in ("color", "dog")] == ["colour", None]
    assert variant("dog", "typo", draw) is None


def test_rank_and_hits_are_those_of_the_neighbours():
    draw = np.random.default_rng(2)
    words = [f"n{number}" for number in range(40)]
    forms = [word + "s" for word in words]
    matrix = draw.normal(size=(80, 4)).astype(np.float32)
    table = WordVectors(words=(*words, *forms), matrix=matrix)
    found = evaluate_robustness(table, [*words, "missing"], kinds=["plural"])[0]
    assert (found.words, found.unknown, found.covered, found.made, found.coverage) == (40, 1, 40, 0, 1.0)
    for each in found.found:
        names = [near.word for near in neighbours(table, each.variant, 79)]
        assert names.index(each.word) + 1 == each.rank
    assert found.hits == sum(each.rank <= 10 for each in found.found)
    assert found.median_rank == np.median([each.rank for each in found.found])


def test_a_table_knows_no_typing_errors_and_subwords_do():
    words = ["teacher", "doctor", "hospital", "bridge", "piano", "castle", "orchestra", "submarine"]
    matrix = np.stack([Letters().vector(word) for word in words])
    alone = WordVectors(words=tuple(words), matrix=matrix)
    with_subwords = WordVectors(words=tuple(words), matrix=matrix, subwords=Letters())
    plain, made = (evaluate_robustness(table, words, kinds=["typo"], seed=3)[0] for table in (alone, with_subwords))
    assert (plain.covered, plain.cosine, plain.hit_rate) == (0, None, None)
    assert (made.covered, made.made, made.hits) == (8, 8, 8)
    assert made.cosine > 0.8
    assert made == evaluate_robustness(with_subwords, words, kinds=["typo"], seed=3)[0]
    assert made.found != evaluate_robustness(with_subwords, words, kinds=["typo"], seed=4)[0].found
    assert "found" not in made.to_json()


def test_a_kind_that_does_not_exist_is_refused():
    table = WordVectors(words=("a",), matrix=np.ones((1, 2), dtype=np.float32))
    with pytest.raises(InputError, match="choose from typo, plural"):
        evaluate_robustness(table, kinds=["tpyo"])
