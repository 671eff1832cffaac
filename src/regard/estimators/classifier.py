"""A classifier of texts with scikit-learn's interface."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from regard.errors import InputError
from regard.estimators.base import TextEstimator, check_lengths, column_of, texts_of
from regard.tasks.classification.classifier import Classifier
from regard.tasks.classification.inputs import joined


class TextClassifier(ClassifierMixin, TextEstimator):
    """Fine-tunes a model that reads whole texts, and tells the classes of others: texts in, labels out.

    Its arguments are `TextEstimator`'s.

    Attributes:
        model_: the fitted predictor.
        classes_: the labels, sorted.

    >>> from regard.estimators import TextClassifier
    >>> tiny = {"layers": 1, "width": 16, "heads": 2, "feedforward_width": 16, "maximum_positions": 32}
    >>> texts, labels = ["fine", "poor"] * 10, [1, 0] * 10
    >>> found = TextClassifier(model=tiny, steps=2, maximum_length=8).fit(texts, labels)
    >>> found.predict(["fine"]).shape, found.predict_proba(["fine", "poor"]).shape
    ((1,), (2, 2))
    """

    model_: Classifier
    classes_: np.ndarray

    def fit(self, X: Any, y: Any) -> TextClassifier:
        """Train on texts, or pairs of texts, and their labels.

        Raises:
            InputError: for what is no text, or targets that are not one for each.
        """
        texts = texts_of(X)
        check_lengths(texts, y)
        labels = column_of(y)
        classes = np.unique(labels)
        if len(classes) < 2:
            raise InputError(f"y has one class, {classes.tolist()}; give examples of two or more")
        # Labels may be of any type: the model knows them by their places.
        places = np.searchsorted(classes, labels)
        examples = [(text, str(place)) for text, place in zip(texts, places.tolist(), strict=True)]
        self.model_ = self._trained("classification", examples)
        self.classes_ = classes
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class, (N, classes), in the order of `classes_`."""
        check_is_fitted(self, "model_")
        task, texts = self.model_.task, texts_of(X)
        inputs = joined(task, texts, pairs=task.pairs, maximum=self.model_.maximum_length)
        found = self.model_.probabilities(inputs).double().numpy()
        return found[:, [task.classes.index(str(place)) for place in range(len(self.classes_))]]

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each text."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]
