"""Vectors whose bias is known, because the tests put it in."""

from __future__ import annotations

import numpy as np
import pytest

from regard.word_embeddings.bias import AssociationTest, NamedWords
from regard.word_embeddings.store import WordVectors

PAIRS = [("she", "he"), ("her", "his"), ("woman", "man"), ("aunt", "uncle")]
WIDTH = 20


@pytest.fixture(scope="session")
def planted():
    """Four pairs that differ along the first axis, and 400 words with some of it, each in a group that goes with its sign."""
    draw = np.random.default_rng(5)
    rows: dict[str, np.ndarray] = {}
    for one, other in PAIRS:
        base = draw.normal(size=WIDTH)
        base[0] = 0.0
        for word, sign in ((one, 1.0), (other, -1.0)):
            rows[word] = base + 0.1 * draw.normal(size=WIDTH)
            rows[word][0] = 2.0 * sign
    for number in range(400):
        vector = draw.normal(size=WIDTH)
        vector[0] = draw.normal()
        vector[1] = 4.0 * np.sign(vector[0])  # what goes with the direction, and is not it
        rows[f"w{number}"] = vector
    return WordVectors(words=tuple(rows), matrix=np.stack(list(rows.values())).astype(np.float32), name="planted")


@pytest.fixture(scope="session")
def make_test():
    """An association test of four lists of words."""

    def make(x, y, a, b, name="made"):
        sets = [NamedWords(name=letter, words=tuple(words)) for letter, words in zip("xyab", (x, y, a, b), strict=True)]
        return AssociationTest(name=name, targets=(sets[0], sets[1]), attributes=(sets[2], sets[3]))

    return make
