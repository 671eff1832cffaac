"""Targets as a column: what numpy and pandas often hold them as."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError
from regard.estimators import TextClassifier, TextRegressor

TINY = {"layers": 1, "width": 16, "heads": 2, "feedforward_width": 16, "maximum_positions": 32}
TEXTS = ["fine", "poor"] * 10


@pytest.mark.parametrize("kind", [TextClassifier, TextRegressor])
def test_a_column_of_targets_is_as_a_list(kind):
    def found(y):
        return kind(model=TINY, steps=2, maximum_length=8).fit(TEXTS, y).predict(["fine", "poor"]).tolist()

    assert found(np.array([[1], [0]] * 10)) == found([1, 0] * 10)


@pytest.mark.parametrize("kind", [TextClassifier, TextRegressor])
def test_several_targets_for_a_text_are_refused(kind):
    with pytest.raises(InputError, match=r"y has the shape \(20, 2\); give one target for each text"):
        kind(model=TINY, steps=2, maximum_length=8).fit(TEXTS, np.array([[1, 2], [0, 3]] * 10))
