"""Bootstrap intervals: seeded, around the score, as wide as the law of errors says."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError
from regard.metrics.classification import f1
from regard.metrics.regression import bootstrap_interval


def test_the_interval_of_a_mean_is_as_wide_as_its_standard_error_says() -> None:
    values = np.random.default_rng(3).normal(2.0, 1.0, size=400)
    found = bootstrap_interval(values, resamples=2000)
    error = values.std() / 20
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert found.high == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)
    narrow = bootstrap_interval(values, level=0.5)
    assert found.low < narrow.low < narrow.high < found.high


def test_a_seed_gives_the_same_interval_and_another_another() -> None:
    values = np.arange(30.0)
    assert bootstrap_interval(values, seed=1) == bootstrap_interval(values, seed=1)
    assert bootstrap_interval(values, seed=1) != bootstrap_interval(values, seed=2)


def test_rows_stay_together() -> None:
    gold = np.array([1, 1, 0, 0, 1, 0, 1, 0])
    said = np.array([1, 0, 0, 0, 1, 1, 1, 0])

    def score(rows: np.ndarray) -> float:
        return f1(rows[:, 0].tolist(), rows[:, 1].tolist(), positive=1)

    found = bootstrap_interval(np.stack([gold, said], axis=1), score, resamples=200)
    assert found.value == 0.75
    assert found.low < 0.75 < found.high
    same = bootstrap_interval(np.stack([gold, gold], axis=1)[gold == 1], score, resamples=50)
    assert same.low == same.high == 1.0


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [([], {}, "no values"), ([1.0], {"level": 1.0}, "level is 1.0"), ([1.0], {"resamples": 0}, "resamples is 0")],
)
def test_what_cannot_be_drawn_from_is_refused(values, options, message) -> None:
    with pytest.raises(InputError, match=message):
        bootstrap_interval(values, **options)
