"""Intruders: how they are made, and who finds them."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError
from regard.word_embeddings import WordVectors, neighbours
from regard.word_embeddings.evaluation.categories import WINDOW, evaluate_coherence, intruder_items


def clusters(noise: float, seed: int, size: int = 600, name: str = "vectors") -> WordVectors:
    """Words in 30 clusters, which are the same for every seed."""
    centres = np.random.default_rng(0).normal(size=(30, 16))
    matrix = centres[np.arange(size) % 30] + noise * np.random.default_rng(seed).normal(size=(size, 16))
    return WordVectors(words=tuple(f"w{row}" for row in range(size)), matrix=matrix.astype(np.float32), name=name)


def test_items_are_neighbours_and_a_stranger_about_as_frequent():
    table = clusters(0.3, 1)
    asked = [f"w{row}" for row in range(0, 600, 7)]
    items = intruder_items(table, [*asked, "missing", asked[0]], seed=2)
    assert [item.query for item in items] == asked
    for item in items:
        near = [each.word for each in neighbours(table, item.query, 100)]
        assert item.neighbours == tuple(near[:2])
        assert item.intruder not in near
        assert abs(table.rows[item.intruder] - table.rows[item.query]) <= WINDOW
        assert len(set(item.words)) == 4
    assert items == intruder_items(table, asked, seed=2)
    assert items != intruder_items(table, asked, seed=3)


def test_vectors_that_agree_find_the_intruders_and_noise_does_not():
    table, like, noise = clusters(0.3, 1), clusters(0.3, 2, name="like"), clusters(50.0, 3)
    items = intruder_items(table, list(table.words))
    assert evaluate_coherence(items, table).accuracy > 0.95
    assert evaluate_coherence(items, like).accuracy > 0.9
    assert evaluate_coherence(items, like).judge == "like"
    assert evaluate_coherence(items, noise).accuracy < 0.45


def test_a_judge_without_the_words_says_nothing():
    items = intruder_items(clusters(0.3, 1), ["w0", "w1"])
    found = evaluate_coherence(items, WordVectors(words=("w0",), matrix=np.ones((1, 2), dtype=np.float32)))
    assert (found.items, found.used, found.accuracy) == (2, 0, None)


def test_small_tables():
    assert len(intruder_items(clusters(0.3, 1, size=4), ["w0", "w3"])) == 2
    with pytest.raises(InputError, match="3 words are too few"):
        intruder_items(clusters(0.3, 1), ["w0"], among=3)
