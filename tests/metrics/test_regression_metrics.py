"""Correlations beside SciPy's, and where they are undefined."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.metrics.regression import pearson, ranks, regression_scores, spearman

# Multiples of a quarter, as similarity is judged: many alike.
numbers = st.integers(-20, 20).map(lambda number: number / 4)
pairs_of_numbers = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=40)


@given(pairs=pairs_of_numbers)
@settings(max_examples=50, deadline=None)
@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_correlations_are_those_of_scipy(pairs) -> None:
    stats = pytest.importorskip("scipy.stats")
    gold, said = map(list, zip(*pairs, strict=True))
    assert pearson(gold, said) == pytest.approx(stats.pearsonr(gold, said)[0], abs=1e-12, nan_ok=True)
    assert spearman(gold, said) == pytest.approx(stats.spearmanr(gold, said)[0], abs=1e-12, nan_ok=True)
    assert ranks(gold).tolist() == stats.rankdata(gold).tolist()


def test_a_constant_side_or_one_that_is_not_finite_has_no_correlation() -> None:
    for said in ([2.0, 2.0, 2.0], [0.1 + 0.2] * 3, [1.0, math.nan, 2.0], [1.0, math.inf, 2.0]):
        assert math.isnan(pearson([1, 2, 3], said))
        assert math.isnan(spearman(said, [1, 2, 3]))


def test_scale_and_shift_change_nothing_even_far_out() -> None:
    generator = np.random.default_rng(5)
    gold, said = generator.normal(size=50), generator.normal(size=50)
    wanted = pearson(gold, said)
    for scale in (1e-200, 3.7, 1e200):
        assert pearson(gold * scale, said) == pytest.approx(wanted, rel=1e-12)
    assert pearson(gold + 1e6, -said) == pytest.approx(-wanted, rel=1e-8)
    assert pearson(gold, gold) == 1.0
    assert spearman(gold, np.exp(gold)) == 1.0


def test_errors() -> None:
    scores = regression_scores([1.0, 2.0, 4.0], [1.0, 4.0, 3.0])
    assert scores.mean_squared_error == pytest.approx(5 / 3)
    assert scores.mean_absolute_error == pytest.approx(1.0)
    assert scores.count == 3
    assert scores.spearman == 0.5


def test_too_few_and_different_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="at least two"):
        pearson([1.0], [1.0])
    with pytest.raises(InputError, match="nothing to compare"):
        spearman([], [])
    with pytest.raises(InputError, match="3 examples and 2 predictions"):
        regression_scores([1, 2, 3], [1, 2])
    with pytest.raises(InputError, match="two one-dimensional sequences"):
        pearson([[1, 2]], [1, 2])  # type: ignore[list-item]
