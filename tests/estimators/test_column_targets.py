"""Targets as a column: what numpy and pandas often hold them as."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

from regard.errors import InputError
from regard.estimators import TextClassifier, TextRegressor

TINY = {"layers": 1, "width": 16, "heads": 2, "feedforward_width": 16, "maximum_positions": 32}
TEXTS = ["fine", "poor"] * 10


@pytest.mark.parametrize("kind", [TextClassifier, TextRegressor])
def test_a_column_of_targets_is_as_a_list(kind):
    def found(y):
        return kind(model=TINY, steps=2, maximum_length=8).fit(TEXTS, y).predict(["fine", "poor"]).tolist()

    with pytest.warns(DataConversionWarning, match="column-vector"):
        column = found(np.array([[1], [0]] * 10))
    assert column == found([1, 0] * 10)


def test_several_targets_that_are_no_indicator_are_refused():
    with pytest.raises(InputError, match=r"y has the shape \(20, 2\); give one target for each text.*0 and 1 only"):
        TextClassifier(model=TINY, steps=2, maximum_length=8).fit(TEXTS, np.array([[1, 2], [0, 3]] * 10))


def test_an_indicator_of_labels_is_learnt_and_told():
    indicator = np.array([[1, 0, 0], [1, 1, 0]] * 10)
    wide = {**TINY, "init_std": 0.3, "dropout": 0.0}
    found = TextClassifier(model=wide, epochs=None, steps=60, learning_rate=1e-2, maximum_length=8)
    found.fit(TEXTS, indicator)
    assert found.predict(["poor", "fine"]).tolist() == [[1, 1, 0], [1, 0, 0]]
    assert found.predict_proba(["poor"]).shape == (1, 3)
    assert found.score(TEXTS, indicator) == 1.0
    assert found.classes_.tolist() == [0, 1, 2]


def test_several_numbers_are_learnt_and_told():
    numbers = np.array([[1.0, -5.0], [9.0, -5.0]] * 10)
    found = TextRegressor(model=TINY, steps=2, maximum_length=8).fit(TEXTS, numbers).predict(["fine", "poor", "fine"])
    assert found.shape == (3, 2)
    assert np.abs(found[:, 1] + 5).max() < 10
