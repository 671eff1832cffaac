"""A regressor of texts with scikit-learn's interface."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from regard.estimators.base import TextEstimator, check_lengths, column_of, texts_of
from regard.tasks.classification.rater import Rater


class TextRegressor(RegressorMixin, TextEstimator):
    """Fine-tunes a model that reads whole texts, and gives others a number: texts in, numbers out.

    Its arguments are `TextEstimator`'s.

    Attributes:
        model_: the fitted predictor.

    >>> from regard.estimators import TextRegressor
    >>> tiny = {"layers": 1, "width": 16, "heads": 2, "feedforward_width": 16, "maximum_positions": 32}
    >>> found = TextRegressor(model=tiny, steps=2, maximum_length=8).fit(["much", "little"] * 10, [9.0, 1.0] * 10)
    >>> found.predict(["much"]).shape
    (1,)
    """

    model_: Rater

    def fit(self, X: Any, y: Any) -> TextRegressor:
        """Train on texts, or pairs of texts, and their numbers.

        Raises:
            InputError: for what is no text, or targets that are not one number for each.
        """
        texts = texts_of(X)
        check_lengths(texts, y)
        examples = [(text, float(value)) for text, value in zip(texts, column_of(y).tolist(), strict=True)]
        self.model_ = self._trained("regression", examples)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The number of each text."""
        check_is_fitted(self, "model_")
        return np.array([rating.value for rating in self.model_.rate_batch(texts_of(X))])
