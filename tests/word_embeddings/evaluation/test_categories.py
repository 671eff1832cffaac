"""Purity, and clusters that are or are not the categories."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.word_embeddings import WordVectors
from regard.word_embeddings.evaluation.categories import (
    CATEGORIES,
    CategorySet,
    builtin_categories,
    evaluate_categories,
    purity,
    read_categories,
)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), min_size=1, max_size=40))
def test_purity_is_its_equation(items):
    clusters, classes = zip(*items, strict=True)
    largest = (max(Counter(c for k, c in items if k == cluster).values()) for cluster in set(clusters))
    assert purity(clusters, classes) == sum(largest) / len(items)
    assert max(Counter(classes).values()) / len(items) <= purity(clusters, classes) <= 1


def test_planted_categories_are_found_and_noise_is_not():
    draw = np.random.default_rng(0)
    words = [word for words in CATEGORIES.values() for word in words]
    centres = draw.normal(size=(10, 30)).repeat(10, axis=0)
    near = (centres + 0.3 * draw.normal(size=centres.shape)).astype(np.float32)
    far = draw.normal(size=centres.shape).astype(np.float32)
    found = [evaluate_categories(WordVectors(words=tuple(words), matrix=m), builtin_categories()) for m in (near, far)]
    assert found[0].purity == 1.0
    assert {frozenset(words) for words in found[0].clusters} == {frozenset(words) for words in CATEGORIES.values()}
    assert found[1].purity < 0.5
    assert (found[0].words, found[0].unknown, found[0].categories) == (100, 0, 10)


def test_the_built_in_words_are_all_different():
    words = [word for words in CATEGORIES.values() for word in words]
    assert {len(each) for each in CATEGORIES.values()} == {10}
    assert len(set(words)) == 100


def test_one_category_with_words_is_nothing_to_cluster():
    table = WordVectors(words=("dog", "cat"), matrix=np.eye(2, dtype=np.float32))
    asked = CategorySet(name="x", categories={"animals": ("dog", "cat"), "colours": ("red",)})
    found = evaluate_categories(table, asked)
    assert (found.purity, found.categories, found.unknown) == (None, 1, 1)


def test_files(tmp_path):
    file = tmp_path / "words.tsv"
    file.write_text("New York\tcity\ndog\tanimal\nno tab\ncat\tanimal\n\tanimal\n")
    malformed = MalformedRows()
    found = read_categories(file, malformed)
    assert found.categories == {"city": ("New York",), "animal": ("dog", "cat")}
    assert malformed.total == 2
    file.write_text("dog animal\n")
    with pytest.raises(InputError, match="has 0 categories"):
        read_categories(file)
