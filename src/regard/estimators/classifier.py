"""A classifier of texts with scikit-learn's interface."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from regard.errors import InputError
from regard.estimators.base import TextEstimator, check_lengths, column_of, several_of, texts_of
from regard.tasks.classification.classifier import Classifier, MultiLabelClassifier
from regard.tasks.classification.inputs import joined


class TextClassifier(ClassifierMixin, TextEstimator):
    """Fine-tunes a model that reads whole texts, and tells the classes of others: texts in, labels out.

    Its arguments are `TextEstimator`'s.

    Targets may also be scikit-learn's indicator of several labels, (N, labels) of 0 and 1, as `MultiLabelBinarizer` makes it;
    then predictions are such an indicator too.

    Attributes:
        model_: the fitted predictor.
        classes_: the labels, sorted; of an indicator the numbers of its columns.

    >>> from regard.estimators import TextClassifier
    >>> tiny = {"layers": 1, "width": 16, "heads": 2, "feedforward_width": 16, "maximum_positions": 32}
    >>> texts, labels = ["fine", "poor"] * 10, [1, 0] * 10
    >>> found = TextClassifier(model=tiny, steps=2, maximum_length=8).fit(texts, labels)
    >>> found.predict(["fine"]).shape, found.predict_proba(["fine", "poor"]).shape
    ((1,), (2, 2))
    """

    model_: Classifier | MultiLabelClassifier
    classes_: np.ndarray

    def fit(self, X: Any, y: Any) -> TextClassifier:
        """Train on texts, or pairs of texts, and their labels.

        Raises:
            InputError: for what is no text, or targets that are neither one for each nor an indicator.
        """
        texts = texts_of(X)
        check_lengths(texts, y)
        indicator = several_of(y)
        if indicator is not None:
            return self._fit_indicator(texts, indicator)
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
        """The most probable label of each text; of several labels the indicator of those that are probable enough."""
        shares = self.predict_proba(X)
        if isinstance(self.model_, MultiLabelClassifier):
            return (shares >= self.model_.task.threshold).astype(np.int64)
        return self.classes_[shares.argmax(axis=1)]

    def _fit_indicator(self, texts: list[Any], indicator: np.ndarray) -> TextClassifier:
        if not np.isin(indicator, (0, 1)).all():
            raise InputError(
                f"y has the shape {indicator.shape}; give one target for each text, the shape (N,) or (N, 1), or an indicator of "
                "several labels, of 0 and 1 only"
            )
        names = [str(column) for column in range(indicator.shape[1])]
        examples = [
            (text, [names[each] for each in row.nonzero()[0]]) for text, row in zip(texts, indicator, strict=True)
        ]
        self.model_ = self._trained("multi_label_classification", examples, names)
        self.classes_ = np.arange(indicator.shape[1])
        return self
