"""Agreement against scikit-learn, and against Fleiss' equations written plainly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from regard.errors import InputError
from regard.word_embeddings.survey import cohen_kappa, fleiss_kappa

choices = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=30)


@given(choices)
def test_cohens_kappa_is_scikit_learns(items):
    first, second = zip(*items, strict=True)
    if len(set(first) | set(second)) == 1:
        assert math.isnan(cohen_kappa(first, second))
    else:
        assert cohen_kappa(first, second) == pytest.approx(cohen_kappa_score(first, second), abs=1e-12)


@given(
    st.integers(2, 6).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1, max_size=20)
    )
)
def test_fleiss_kappa_is_its_equations(items):
    table = np.array([[row.count(choice) for choice in range(4)] for row in items])  # items by choices
    judges = table.sum(axis=1)[0]
    of_items = ((table**2).sum(axis=1) - judges) / (judges * (judges - 1))
    chance = ((table.sum(axis=0) / table.sum()) ** 2).sum()
    if (table.sum(axis=0) > 0).sum() == 1:
        assert math.isnan(fleiss_kappa(items))
    else:
        assert fleiss_kappa(items) == pytest.approx((of_items.mean() - chance) / (1 - chance), abs=1e-9)


def test_the_example_of_fleiss_handbook():
    """Fourteen judges, ten items, five choices; kappa is 0.210 (Fleiss 1971, as it is mostly cited)."""
    table = [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
    items = [[choice for choice, count in enumerate(row) for _ in range(count)] for row in table]
    assert fleiss_kappa(items) == pytest.approx(0.2099, abs=1e-4)


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(InputError):
        cohen_kappa(["a"], ["a", "b"])
    for items in ([], [["a"]], [["a", "b"], ["a"]]):
        with pytest.raises(InputError, match="the same judges"):
            fleiss_kappa(items)
