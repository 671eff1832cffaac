"""scikit-learn's check_estimator as a whole.

It hands estimators tables of numbers, where these take texts. So each stands behind a thin class that writes the numbers of a row
as words; all else, from parameters to pickles, is the estimator's own. A tagger is not among them: its targets are lists of
tags, one for each word, which scikit-learn has no check for; `test_text_estimators.py` runs those that need no data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

from regard.estimators import TextClassifier, TextEmbedder, TextRegressor

ENCODER = Path(__file__).parents[1] / "golden" / "folders" / "bert-embedding"
SETTINGS: dict[str, Any] = {
    "model": {
        "layers": 1,
        "width": 16,
        "heads": 2,
        "feedforward_width": 32,
        "maximum_positions": 64,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "init_std": 0.2,
    },
    "epochs": None,
    "steps": 20,
    "learning_rate": 1e-2,
    "maximum_length": 24,
    "overrides": {"training.precision": "float32", "tokenizer.size": 100},
}


class Rows:
    """Turns rows of numbers into texts such as `x03 x1-1`."""

    def texts(self, X: Any, *, reset: bool = False) -> list[str]:
        values = validate_data(self, X, reset=reset)
        return [" ".join(f"x{column}{value:.0f}" for column, value in enumerate(row)) for row in values]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = False, True, False
        return tags

    def fit(self, X: Any, y: Any = None) -> Any:
        return super().fit(self.texts(X, reset=True), y)  # type: ignore[misc]


class ClassifierOfRows(Rows, TextClassifier):
    def predict_proba(self, X: Any) -> Any:
        check_is_fitted(self)
        return super().predict_proba(self.texts(X))


class RegressorOfRows(Rows, TextRegressor):
    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = (
            True  # numbers as words say nothing of their size, and half of the rows are unseen words
        )
        return tags

    def predict(self, X: Any) -> Any:
        check_is_fitted(self)
        return super().predict(self.texts(X))


class EmbedderOfRows(Rows, TextEmbedder):
    def transform(self, X: Any) -> Any:
        check_is_fitted(self)
        return super().transform(self.texts(X))


@pytest.mark.slow
@parametrize_with_checks(
    [ClassifierOfRows(**SETTINGS), RegressorOfRows(**SETTINGS), EmbedderOfRows(str(ENCODER))],
)
def test_scikit_learn_finds_nothing(estimator, check):
    check(estimator)
