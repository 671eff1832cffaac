"""A regressor of texts with scikit-learn's interface."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from regard.estimators.base import TextEstimator, check_lengths, column_of, several_of, texts_of
from regard.tasks.classification.rater import MultiRater, Rater


class TextRegressor(RegressorMixin, TextEstimator):
    """Fine-tunes a model that reads whole texts, and gives others a number: texts in, numbers out.

    Its arguments are `TextEstimator`'s.

    Targets may also be several numbers for each text, (N, outputs); then predictions are such a table too.

    Attributes:
        model_: the fitted predictor.

    >>> from regard.estimators import TextRegressor
    >>> tiny = {"layers": 1, "width": 16, "heads": 2, "feedforward_width": 16, "maximum_positions": 32}
    >>> found = TextRegressor(model=tiny, steps=2, maximum_length=8).fit(["much", "little"] * 10, [9.0, 1.0] * 10)
    >>> found.predict(["much"]).shape
    (1,)
    """

    model_: Rater | MultiRater

    def fit(self, X: Any, y: Any) -> TextRegressor:
        """Train on texts, or pairs of texts, and their numbers.

        Raises:
            InputError: for what is no text, or targets that are not one number for each, or as many for each.
        """
        texts = texts_of(X)
        check_lengths(texts, y)
        several = several_of(y)
        if several is not None:
            rows = [(text, row) for text, row in zip(texts, several.astype(np.float64).tolist(), strict=True)]
            self.model_ = self._trained("multi_output_regression", rows)
            return self
        examples = [(text, float(value)) for text, value in zip(texts, column_of(y).tolist(), strict=True)]
        self.model_ = self._trained("regression", examples)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The number of each text, or the numbers."""
        check_is_fitted(self, "model_")
        if isinstance(self.model_, MultiRater):
            return np.array([list(rating.values.values()) for rating in self.model_.rate_batch(texts_of(X))])
        return np.array([rating.value for rating in self.model_.rate_batch(texts_of(X))])
