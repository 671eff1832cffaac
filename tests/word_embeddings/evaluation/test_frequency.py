"""The probe for frequency: it finds what is there, and nothing where nothing is."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError
from regard.word_embeddings import WordVectors
from regard.word_embeddings.evaluation.probes import frequency_probe


def table(planted: float, counts=None, size: int = 1200) -> WordVectors:
    matrix = np.random.default_rng(0).normal(size=(size, 20)).astype(np.float32)
    matrix[: size // 10, 3] += planted
    return WordVectors(words=tuple(map(str, range(size))), matrix=matrix, counts=counts)


def test_it_finds_a_planted_direction_and_none_in_noise():
    found, nothing = frequency_probe(table(4.0)), frequency_probe(table(0.0))
    assert found.accuracy > 0.85
    assert 0.35 < nothing.accuracy < 0.65
    assert (found.words, found.by, len(found.folds)) == (240, "order", 5)
    assert found.accuracy == pytest.approx(np.mean(found.folds))
    assert found == frequency_probe(table(4.0))


def test_counts_say_more_than_the_order():
    rare_first = np.arange(1200, dtype=np.int64)  # the planted words are the rarest
    found = frequency_probe(table(4.0, counts=rare_first))
    assert found.by == "counts"
    assert found.accuracy < 0.7


def test_lengths_do_not_matter():
    one = table(4.0)
    longer = one.with_matrix(one.matrix * np.linspace(0.1, 9, len(one), dtype=np.float32)[:, None])
    assert frequency_probe(longer).accuracy == pytest.approx(frequency_probe(one).accuracy, abs=0.02)


def test_few_words_are_no_figure_and_a_share_has_bounds():
    assert frequency_probe(table(1.0, size=50)).accuracy is None
    with pytest.raises(InputError, match=r"share is 0\.7"):
        frequency_probe(table(1.0), share=0.7)
